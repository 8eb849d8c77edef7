"""`manager plan`: what a changed template, the next sync of a registry, a FleetRollout or an Instance would do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, TextIO, cast

import click

from apis.cloud import FleetRollout, Instance
from apis.tenancy import TenantTemplate
from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.client import APIError, Config, TransportError
from ctrlruntime.client.kubeconfig import ConfigError
from ctrlruntime.manager.logs import make_logger
from ctrlruntime.resources.change_plan import ChangePlan, PlanError
from internal.tenancy.sources import SourceError
from manager.commands.manifest_files import manifests, one_of
from manager.commands.output import echo
from manager.commands.plan_output import as_json, markdown, text
from manager.controllers.tenancy_options import TenancyOptions
from manager.flags.cluster import cluster_options
from manager.flags.privileges import default_account_option, privilege_options

CHANGES: Final = 1
FAILED: Final = 2
_FORMATS = {"text": text, "json": as_json, "markdown": markdown}
_ERRORS = (PlanError, SourceError, ConfigError, APIError, TransportError, TimeoutError)
_KINDS: Final[tuple[type[TenantTemplate | FleetRollout | Instance], ...]] = (
    TenantTemplate,
    FleetRollout,
    Instance,
)
Planner = Callable[[Config], Awaitable[ChangePlan]]


class _Failure(click.ClickException):
    """An error, with the exit code that tells it from a plan with changes."""

    exit_code = FAILED


@click.command()
@click.option(
    "-f",
    "--filename",
    "file",
    type=click.File(encoding="utf-8"),
    help='A changed TenantTemplate, FleetRollout or Instance; "-" is standard input. '
    "A template without --registry is planned for the rows of the existing tenants.",
)
@click.option("--name", "--template", "name", help="Name of the object, if the file has several.")
@click.option("--registry", help="Plan the next sync of this TenantRegistry, with its rows.")
@click.option("--rollout", help="Plan the rest of this FleetRollout, to its end.")
@click.option("--instance", help="Plan what is still to be done for this Instance.")
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
@click.option(
    "--terraform-types-file",
    "types_file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Types of infrastructure that Instances name.",
)
@privilege_options
@default_account_option
@cluster_options
def plan(
    file: TextIO | None,
    name: str | None,
    registry: str | None,
    rollout: str | None,
    instance: str | None,
    output: str,
    confirm: bool,
    sqlite_root: Path | None,
    types_file: Path | None,
    allow_foreign_namespaces: frozenset[str],
    allow_kinds: frozenset[GroupKind],
    protected_namespaces: frozenset[str],
    default_account: str,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
) -> None:
    """Show what a changed template, a registry's next sync, a FleetRollout or an Instance would do. Writes nothing.

    Give the options that the manager runs with. The exit code is 0 without changes, 1 with changes,
    held ones or rows that fail, and 2 if there is no plan.
    """
    options = TenancyOptions(
        sqlite_root=sqlite_root,
        allow_foreign_namespaces=allow_foreign_namespaces,
        allow_kinds=allow_kinds,
        protected_namespaces=protected_namespaces,
        default_account=default_account,
    )
    try:
        changed = None if file is None else _changed(file, name)
        stored: list[tuple[type[Any], str | None]] = [(FleetRollout, rollout), (Instance, instance)]
        planner = _planner(
            changed, registry, stored, options, namespace, types_file=types_file, confirm=confirm
        )
        found = asyncio.run(_planned(planner, kubeconfig, context))
    except click.UsageError:
        raise
    except _ERRORS as error:
        raise _Failure(str(error)) from error
    except click.ClickException as error:
        raise _Failure(error.message) from error
    echo(_FORMATS[output](found), nl=False)
    if not found.is_empty:
        raise click.exceptions.Exit(CHANGES)


async def _planned(planner: Planner, kubeconfig: Path | None, context: str | None) -> ChangePlan:
    return await planner(await Config.load(kubeconfig, context))


def _planner(
    changed: TenantTemplate | FleetRollout | Instance | None,
    registry: str | None,
    stored: list[tuple[type[Any], str | None]],
    options: TenancyOptions,
    namespace: str,
    *,
    types_file: Path | None,
    confirm: bool,
) -> Planner:
    """Return what makes the plan that the options ask for. Raises UsageError unless that is one."""
    chosen = [(kind, name) for kind, name in stored if name is not None]
    tenancy = registry is not None or isinstance(changed, TenantTemplate)
    cloud = len(chosen) + (changed is not None and not isinstance(changed, TenantTemplate))
    if tenancy + cloud != 1:
        raise click.UsageError(
            "give one of --filename, --registry, --rollout and --instance; of these only a template "
            "and --registry go together"
        )
    logger = make_logger(format="console", level="error")
    if tenancy:
        from manager.controllers.tenancy_plan import PlanRequest, plan_tenants

        wanted = PlanRequest(
            namespace=namespace,
            registry=registry or "",
            template=changed if isinstance(changed, TenantTemplate) else None,
            confirm=confirm,
        )
        return lambda config: plan_tenants(config, options, wanted, logger)
    from manager.controllers import cloud_plan

    if chosen:
        kind, name = chosen[0]
        return partial(
            cloud_plan.plan_stored,
            logger=logger,
            kind=kind,
            name=name,
            namespace=namespace,
            types_file=types_file,
            confirm=confirm,
        )
    return partial(
        cloud_plan.plan_changed,
        logger=logger,
        changed=cast("FleetRollout | Instance", changed),
        namespace=namespace,
        types_file=types_file,
        confirm=confirm,
    )


def _changed(file: TextIO, name: str | None) -> TenantTemplate | FleetRollout | Instance:
    """Return the object of a file: a template if there is one, else a FleetRollout, else an Instance."""
    found = list(manifests(file))
    kinds = {item.get("kind") for item in found}
    kind = next((each for each in _KINDS if each.__name__ in kinds), TenantTemplate)
    return one_of(kind, found, name, file.name)
