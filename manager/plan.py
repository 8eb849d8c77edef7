"""`manager plan`: what a changed template, or the next sync of a registry, would do."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import click

from apis.tenancy import TenantTemplate
from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import APIError, TransportError
from ctrlruntime.client.kubeconfig import ConfigError
from ctrlruntime.manager.logs import make_logger
from ctrlruntime.resources.change_plan import ChangePlan
from internal.tenancy.fleet_planner import PlanError
from internal.tenancy.sources import SourceError
from manager.cluster_flags import cluster_options
from manager.controllers.tenancy_options import TenancyOptions
from manager.manifest_files import manifests, one_of
from manager.plan_output import as_json, markdown, text
from manager.privilege_flags import privilege_options

CHANGES: Final = 1
FAILED: Final = 2
_FORMATS = {"text": text, "json": as_json, "markdown": markdown}
_ERRORS = (PlanError, SourceError, ConfigError, APIError, TransportError, TimeoutError)


class _Failure(click.ClickException):
    """An error, with the exit code that tells it from a plan with changes."""

    exit_code = FAILED


@click.command()
@click.option(
    "-f",
    "--filename",
    "file",
    type=click.File(encoding="utf-8"),
    help='A changed TenantTemplate; "-" is standard input. Without --registry, for the rows of the existing tenants.',
)
@click.option("--template", "name", help="Name of the template, if the file has several.")
@click.option("--registry", help="Plan the next sync of this TenantRegistry, with its rows.")
@click.option("-o", "--output", type=click.Choice(sorted(_FORMATS)), default="text")
@click.option(
    "--confirm/--no-confirm", default=True, help="Send one change of each group as a dry run."
)
@click.option(
    "--allow-sqlite",
    "sqlite_root",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Allow SQLite sources, of files in this directory.",
)
@privilege_options
@cluster_options
def plan(
    file: Any,
    name: str | None,
    registry: str | None,
    output: str,
    confirm: bool,
    sqlite_root: Path | None,
    allow_foreign_namespaces: frozenset[str],
    allow_kinds: frozenset[GroupKind],
    protected_namespaces: frozenset[str],
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
) -> None:
    """Show what a changed template, or the next sync of a registry, would do. Writes nothing.

    Give the options that the manager runs with. The exit code is 0 without changes, 1 with changes,
    held deletions or rows that fail, and 2 if there is no plan.
    """
    if file is None and registry is None:
        raise click.UsageError("give a template with --filename, or --registry")
    from manager.controllers.tenancy_plan import PlanRequest, plan_tenants

    options = TenancyOptions(
        sqlite_root=sqlite_root,
        allow_foreign_namespaces=allow_foreign_namespaces,
        allow_kinds=allow_kinds,
        protected_namespaces=protected_namespaces,
    )

    async def planned() -> ChangePlan:
        wanted = PlanRequest(
            namespace=namespace,
            registry=registry or "",
            template=None if file is None else _template(file, name),
            confirm=confirm,
        )
        config = await Config.load(kubeconfig, context)
        logger = make_logger(format="console", level="error")
        return await plan_tenants(config, options, wanted, logger)

    try:
        found = asyncio.run(planned())
    except _ERRORS as error:
        raise _Failure(str(error)) from error
    except click.ClickException as error:
        raise _Failure(error.message) from error
    click.echo(_FORMATS[output](found), nl=False)
    if not found.is_empty:
        raise click.exceptions.Exit(CHANGES)


def _template(file: Any, name: str | None) -> TenantTemplate:
    return one_of(TenantTemplate, list(manifests(file)), name, file.name)
