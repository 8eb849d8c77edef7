"""``ctrlruntime generate``: manifests from code.

python -m ctrlruntime.generate all --setup website:setup
python -m ctrlruntime.generate all --module apis.tenancy --output-dir config
python -m ctrlruntime.generate crd --module apis.tenancy --check
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TypedDict, Unpack

import click

from .chart import CHART_OWNED, chart
from .crd import SchemaOptions
from .document import to_yaml
from .errors import DeployWarning, SchemaError, SchemaWarning
from .folder import importable, setup_of
from .found import Found, find
from .output import crd_files, drift, rbac_files, write
from .program import configurations, program_of
from .project import OWNED, Project, project

__all__ = ["generate"]

Make = Callable[..., dict[str, str]]


@click.group()
def generate() -> None:
    """Make CRDs, RBAC and webhook configurations from code."""
    importable(Path.cwd())


def _common(command: Callable[..., None]) -> Callable[..., None]:
    options = [
        click.option(
            "--module",
            "modules",
            multiple=True,
            metavar="NAME",
            help="Module or package to look in; may be repeated.",
        ),
        click.option(
            "--setup",
            "setups",
            multiple=True,
            metavar="MODULE:FUNCTION",
            help="Function that adds controllers to a manager: their rights, and the kinds that they "
            "are for. Its module is looked in as well. May be repeated. Without --module, by default `setup` of "
            "[tool.ctrlruntime] in pyproject.toml.",
        ),
        click.option(
            "--options",
            "options_name",
            metavar="MODULE:NAME",
            help="ManagerOptions of the program, for its rights, ports, probes and webhooks; by default OPTIONS "
            "beside the setup function, where it has some.",
        ),
        click.option(
            "--output-dir",
            type=click.Path(path_type=Path, file_okay=False),
            default=Path("config"),
            show_default=True,
            help="Directory to write to.",
        ),
        click.option("--stdout", is_flag=True, help="Print the manifests instead of writing them."),
        click.option(
            "--check", is_flag=True, help="Write nothing; fail with a diff if files have drifted."
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _schema(command: Callable[..., None]) -> Callable[..., None]:
    command = click.option(
        "--max-description",
        type=click.IntRange(min=0),
        help="Cut descriptions to so many characters; 0 leaves them out.",
    )(command)
    return click.option("--allow-floats", is_flag=True, help="Accept float fields.")(command)


def _role(command: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--role-name",
        default="manager-role",
        show_default=True,
        help="Name of the roles, where there is no Deployment whose name they have.",
    )(command)


class _Options(TypedDict):
    modules: Sequence[str]
    setups: Sequence[str]
    options_name: str | None
    output_dir: Path
    stdout: bool
    check: bool


class _SchemaOptions(_Options):
    max_description: int | None
    allow_floats: bool


class _RoleOptions(_Options):
    role_name: str


class _AllOptions(_SchemaOptions, _RoleOptions):
    name: str | None
    namespace: str | None
    image: str | None
    helm: Path | None


@generate.command()
@_common
@_schema
def crd(**options: Unpack[_SchemaOptions]) -> None:
    """CustomResourceDefinitions: crd/bases/<group>_<plural>.yaml."""
    _run(_crd, options)


@generate.command()
@_common
@_role
def rbac(**options: Unpack[_RoleOptions]) -> None:
    """ClusterRole and Roles: rbac/role.yaml."""
    _run(_rbac, options)


@generate.command()
@_common
def webhook(**options: Unpack[_Options]) -> None:
    """Webhook configurations: webhook/manifests.yaml."""
    _run(_webhook, options)


@generate.command(name="all")
@_common
@_schema
@_role
@click.option(
    "--name", help="What the program's objects are called; by default as its options or its module."
)
@click.option("--namespace", help="Where the program runs; by default NAME-system.")
@click.option("--image", help="Image that the program runs in; by default NAME:latest.")
@click.option(
    "--helm",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIRECTORY",
    help="Write a Helm chart there as well.",
)
def everything(**options: Unpack[_AllOptions]) -> None:
    """Everything that an installation needs: `kubectl apply --server-side -k config/default`.

    CRDs, roles and webhook configurations, where the modules and setup functions declare something; of a program whose
    options are known its account, bindings, Deployment, Services and kustomizations as well.
    """
    _named(options)
    name, namespace, image = options["name"], options["namespace"], options["image"]
    setups, helm = options["setups"], options["helm"]
    schema = SchemaOptions(
        allow_floats=options["allow_floats"], max_description=options["max_description"]
    )
    with _errors_and_warnings():
        found = _find(**options)
        program = program_of(found, setups, name=name, namespace=namespace, image=image)
        if program is None:
            made = Project(
                {**_crd(found, **options), **_rbac(found, **options), **_webhook(found)}, {}
            )
        else:
            made = project(program, schema)
        packed = chart(program, schema) if program and helm else None
    if program is None and (name or namespace or image or helm or setups):
        _without_deployment(helm)
    _emit(made, OWNED if program else (), options)
    if packed and helm and not options["stdout"]:
        options["output_dir"] = helm
        _emit(packed, CHART_OWNED, options)


def _without_deployment(helm: Path | None) -> None:
    """Say why there is no Deployment, as an error where one is needed."""
    message = "no Deployment: name the program's ManagerOptions, --options MODULE:NAME"
    if helm:
        raise click.UsageError(message)
    click.echo(f"Note: {message}", err=True)


def _crd(
    found: Found, *, allow_floats: bool, max_description: int | None, **_: object
) -> dict[str, str]:
    options = SchemaOptions(allow_floats=allow_floats, max_description=max_description)
    return crd_files(
        found.kinds,
        options,
        service_name=found.service_name,
        service_namespace=found.service_namespace,
    )


def _rbac(found: Found, *, role_name: str, **_: object) -> dict[str, str]:
    return rbac_files(found.rules, role_name)


def _webhook(found: Found, **_: object) -> dict[str, str]:
    manifests = configurations(found)
    return {"webhook/manifests.yaml": to_yaml(manifests)} if manifests else {}


def _run(make: Make, options: _Options) -> None:
    _named(options)
    with _errors_and_warnings():
        files = make(_find(**options), **options)
    _emit(Project(files, {}), (), options)


def _find(
    *, modules: Sequence[str], setups: Sequence[str], options_name: str | None, **_: object
) -> Found:
    if not modules and not setups:
        raise click.UsageError("name what to look in: --setup MODULE:FUNCTION or --module NAME")
    if options_name and not setups:
        raise click.UsageError("--options needs --setup: it names how that manager is run")
    return find(modules, setups, options_name)


def _named(options: _Options) -> None:
    """Where nothing is named that is to be looked in, take what the folder's project has."""
    if options["modules"] or options["setups"]:
        return
    found = setup_of(Path())
    if found is not None:
        options["setups"] = (found[0],)
        options["options_name"] = options["options_name"] or found[1]


def _emit(made: Project, owned: Collection[str], options: _Options) -> None:
    """Print, compare or write the files."""
    directory = options["output_dir"]
    if not made.files:
        searched = ", ".join((*options["modules"], *options["setups"]))
        raise click.ClickException(
            f"nothing to generate: {searched} declare no kinds, rules or webhooks"
        )
    if options["stdout"]:
        applied = [n for n in sorted(made.files) if not n.endswith("kustomization.yaml")]
        click.echo("".join(made.files[name] for name in applied), nl=False)
    elif options["check"]:
        difference = drift(made.files, directory, once=made.once, owned=owned)
        if difference:
            click.echo(difference, nl=False)
            raise click.ClickException(
                "manifests differ from the code: run the same command without --check"
            )
    else:
        try:
            changed = write(made.files, directory, once=made.once, owned=owned)
        except OSError as error:
            raise click.ClickException(str(error)) from error
        for path in changed:
            click.echo(str(path))


@contextlib.contextmanager
def _errors_and_warnings() -> Iterator[None]:
    """Show the warnings of the block, and end with the message of an error of the user's code."""
    with warnings.catch_warnings(record=True) as caught:
        for category in (SchemaWarning, DeployWarning):
            warnings.simplefilter("always", category)
        try:
            yield
        except (SchemaError, ImportError, ValueError) as error:
            raise click.ClickException(str(error)) from error
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        click.echo(f"Warning: {message}", err=True)
