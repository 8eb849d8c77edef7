"""``ctrlruntime generate``: manifests from code.

python -m ctrlruntime.generate all --setup website:setup
python -m ctrlruntime.generate all --module apis.tenancy --output-dir config
python -m ctrlruntime.generate crd --module apis.tenancy --check
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypedDict, Unpack

import click

from .crd import SchemaOptions
from .errors import SchemaError, SchemaWarning
from .found import Found, find
from .output import crd_files, drift, rbac_files, webhook_files, write

__all__ = ["generate"]

Make = Callable[..., dict[str, str]]


@click.group()
def generate() -> None:
    """Make CRDs, RBAC and webhook configurations from code."""


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
            "are for. Its module is looked in as well. May be repeated.",
        ),
        click.option(
            "--options",
            "options_name",
            metavar="MODULE:NAME",
            help="ManagerOptions of the program, for the rights to its Lease, metrics, webhooks and "
            "namespaces.",
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
        "--role-name", default="manager-role", show_default=True, help="Name of the roles."
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
    pass


@generate.command()
@_common
@_schema
def crd(**options: Unpack[_SchemaOptions]) -> None:
    """CustomResourceDefinitions: crd/bases/<group>_<plural>.yaml."""
    _run([_crd], **options)


@generate.command()
@_common
@_role
def rbac(**options: Unpack[_RoleOptions]) -> None:
    """ClusterRole and Roles: rbac/role.yaml."""
    _run([_rbac], **options)


@generate.command()
@_common
def webhook(**options: Unpack[_Options]) -> None:
    """Webhook configurations: webhook/manifests.yaml."""
    _run([_webhook], **options)


@generate.command(name="all")
@_common
@_schema
@_role
def everything(**options: Unpack[_AllOptions]) -> None:
    """All of them, where the modules and setup functions declare something."""
    _run([_crd, _rbac, _webhook], **options)


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
    return webhook_files(found.webhooks)


def _run(
    makers: Sequence[Make],
    *,
    modules: Sequence[str],
    setups: Sequence[str],
    options_name: str | None,
    output_dir: Path,
    stdout: bool,
    check: bool,
    **options: object,
) -> None:
    if not modules and not setups:
        raise click.UsageError("name what to look in: --setup MODULE:FUNCTION or --module NAME")
    if options_name and not setups:
        raise click.UsageError("--options needs --setup: it names how that manager is run")
    with _errors_and_warnings():
        found = find(modules, setups, options_name)
        files = {k: v for make in makers for k, v in make(found, **options).items()}
    if not files:
        raise click.ClickException(
            f"nothing to generate: {', '.join((*modules, *setups))} declare no kinds, rules or webhooks"
        )
    if stdout:
        click.echo("".join(text for _, text in sorted(files.items())), nl=False)
    elif check:
        difference = drift(files, output_dir)
        if difference:
            click.echo(difference, nl=False)
            raise click.ClickException(
                "manifests differ from the code: run the same command without --check"
            )
    else:
        for path in write(files, output_dir):
            click.echo(str(path))


@contextlib.contextmanager
def _errors_and_warnings() -> Iterator[None]:
    """Show the warnings of the block, and end with the message of an error of the user's code."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SchemaWarning)
        try:
            yield
        except (SchemaError, ImportError, ValueError) as error:
            raise click.ClickException(str(error)) from error
    for warning in caught:
        click.echo(f"Warning: {warning.message}", err=True)
