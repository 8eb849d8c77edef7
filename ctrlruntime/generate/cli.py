"""``ctrlruntime generate``: manifests from code.

python -m ctrlruntime.generate all --module apis.tenancy --output-dir config
python -m ctrlruntime.generate crd --module apis.tenancy --check
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from .crd import SchemaOptions
from .discovery import find_kinds, find_rules, find_webhooks, load
from .errors import SchemaError, SchemaWarning
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
            required=True,
            metavar="NAME",
            help="Module or package to look in; may be repeated.",
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


@generate.command()
@_common
@_schema
def crd(modules: Sequence[str], **options: Any) -> None:
    """CustomResourceDefinitions: crd/bases/<group>_<plural>.yaml."""
    _run(modules, [_crd], **options)


@generate.command()
@_common
@_role
def rbac(modules: Sequence[str], **options: Any) -> None:
    """ClusterRole and Roles: rbac/role.yaml."""
    _run(modules, [_rbac], **options)


@generate.command()
@_common
def webhook(modules: Sequence[str], **options: Any) -> None:
    """Webhook configurations: webhook/manifests.yaml."""
    _run(modules, [_webhook], **options)


@generate.command(name="all")
@_common
@_schema
@_role
def everything(modules: Sequence[str], **options: Any) -> None:
    """All of them, where the modules declare something."""
    _run(modules, [_crd, _rbac, _webhook], **options)


def _crd(
    modules: list[ModuleType], *, allow_floats: bool, max_description: int | None, **_: Any
) -> dict[str, str]:
    options = SchemaOptions(allow_floats=allow_floats, max_description=max_description)
    return crd_files(find_kinds(modules), options)


def _rbac(modules: list[ModuleType], *, role_name: str, **_: Any) -> dict[str, str]:
    return rbac_files(find_rules(modules), role_name)


def _webhook(modules: list[ModuleType], **_: Any) -> dict[str, str]:
    return webhook_files(find_webhooks(modules))


def _run(
    names: Sequence[str],
    makers: Sequence[Make],
    *,
    output_dir: Path,
    stdout: bool,
    check: bool,
    **options: Any,
) -> None:
    files = _files(names, makers, **options)
    if not files:
        raise click.ClickException(
            f"nothing to generate: {', '.join(names)} declare no kinds, rules or webhooks"
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


def _files(names: Sequence[str], makers: Sequence[Make], **options: Any) -> dict[str, str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SchemaWarning)
        try:
            modules = load(names)
            files = {k: v for make in makers for k, v in make(modules, **options).items()}
        except (SchemaError, ImportError, ValueError) as error:
            raise click.ClickException(str(error)) from error
    for warning in caught:
        click.echo(f"Warning: {warning.message}", err=True)
    return files
