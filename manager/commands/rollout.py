"""`manager rollout`: watch, hold and undo rollouts of templates and FleetRollouts, with the user's own rights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from apis.cloud import FleetRollout, RolloutAction
from apis.health import Health
from apis.tenancy import RolloutStatus, TenantTemplate
from ctrlruntime.client.client import Client, PatchType
from ctrlruntime.clock import utc_now
from internal.tenancy.shared.labels import RESUMED_AT, TEMPLATE
from internal.tenancy.shared.naming import label_value
from internal.tenancy.sync.tenants import LISTS_EXCLUDED, Blueprint
from internal.tenancy.template.revisions import CONTROLLER_REVISION, recorded_lists
from manager.commands.output import echo
from manager.commands.rollout_targets import (
    COUNTS,
    FLEET_STATUS,
    OUTCOME,
    WAVES,
    Target,
    approval,
    find_target,
    fleet_row,
    list_targets,
    patch_fleet,
    resumed,
)
from manager.commands.rollout_watch import NotInTime, follow
from manager.commands.tables import Column, output_option, print_rows
from manager.flags.cluster import cluster_options, talk


@click.group()
def rollout() -> None:
    """Rollouts of templates, and FleetRollouts: status, approve, pause, resume, abort, undo, history.

    NAME is that of a template or a FleetRollout; where both have it, write template/NAME or fleetrollout/NAME.
    """


@dataclass(frozen=True, slots=True)
class _Revision:
    """A recorded revision of a template."""

    number: int
    version: str
    lists: dict[str, Any]
    created: str


_STATUS: Final = (
    Column("NAMESPACE", "namespace", wide=True),
    Column("NAME", "name"),
    Column("PHASE", "phase"),
    Column("REVISION", "targetRevision"),
    *COUNTS,
    *OUTCOME,
)
_HISTORY: Final = (
    Column("NUMBER", "number"),
    Column("REVISION", "revision"),
    Column("PRESENT", "present"),
    Column("CREATED", "created"),
)


@rollout.command()
@click.argument("name", required=False)
@click.option("-A", "--all-namespaces", is_flag=True, help="Templates of every namespace.")
@click.option(
    "-w", "--watch", "watched", is_flag=True, help="Show each change of NAME until it has ended."
)
@click.option(
    "--timeout",
    type=click.FloatRange(0),
    default=0.0,
    help="Seconds that --watch waits at most; 0: without end.",
)
@output_option
@cluster_options
def status(
    name: str | None,
    all_namespaces: bool,
    watched: bool,
    timeout: float,
    output: str,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
) -> None:
    """Show how far rollouts have come.

    With --watch the exit code is 0 once the rollout is complete, and 1 if it halts, is not valid or the timeout is over.
    """
    if watched:
        if name is None:
            raise click.UsageError("name the rollout that --watch follows")
        _follow(kubeconfig, context, name, namespace, timeout)
        return

    async def read(client: Client) -> list[Target]:
        if name is not None:
            return [await find_target(client, name, namespace)]
        return await list_targets(client, None if all_namespaces else namespace)

    found = talk(kubeconfig, context, read)
    found.sort(key=lambda item: (item.metadata.namespace or "", item.metadata.name or ""))
    staged = [
        item for item in found if isinstance(item, TenantTemplate) and item.spec.rollout is not None
    ]
    fleets = [item for item in found if isinstance(item, FleetRollout)]
    if name is not None and not staged and not fleets:
        raise click.ClickException(_no_rollout(name))
    rows, more = [_row(item) for item in staged], [fleet_row(item) for item in fleets]
    if output not in {"table", "wide"}:
        print_rows([*rows, *more], _STATUS, output)
        return
    if rows or not more:
        print_rows(rows, _STATUS, output)
    if more:
        print_rows(more, FLEET_STATUS, output)
    if name is not None and fleets and fleets[0].status.waves:
        print_rows(more[0]["waves"], WAVES, output)


@rollout.command()
@click.argument("name")
@output_option
@cluster_options
def history(
    name: str, output: str, kubeconfig: Path | None, context: str | None, namespace: str
) -> None:
    """Show the recorded revisions of a template, the newest last."""

    async def read(client: Client) -> tuple[TenantTemplate, list[_Revision]]:
        template = await client.get(TenantTemplate, name, namespace=namespace)
        return template, await _revisions(client, template)

    template, found = talk(kubeconfig, context, read)
    present = Blueprint.of(template).revision
    rows = [
        {
            "number": item.number,
            "revision": item.version,
            "present": item.version == present,
            "created": item.created,
        }
        for item in found
    ]
    print_rows(rows, _HISTORY, output)


@rollout.command()
@click.argument("name")
@cluster_options
def pause(name: str, kubeconfig: Path | None, context: str | None, namespace: str) -> None:
    """Change no more members; those that are changing finish."""
    of_template = {"spec": {"rollout": {"pause": True}}}
    _patch_rollout(kubeconfig, context, name, namespace, of_template, {"spec": {"pause": True}})
    echo(f"{name}: paused")


@rollout.command()
@click.argument("name")
@cluster_options
def resume(name: str, kubeconfig: Path | None, context: str | None, namespace: str) -> None:
    """Continue a rollout that is paused, halted, aborted or rolled back: what failed until now does not count."""
    patch = {
        "metadata": {"annotations": {RESUMED_AT: utc_now().isoformat()}},
        "spec": {"rollout": {"pause": False}},
    }
    _patch_rollout(kubeconfig, context, name, namespace, patch, resumed())
    echo(f"{name}: resumed")


@rollout.command()
@click.argument("name")
@cluster_options
def abort(name: str, kubeconfig: Path | None, context: str | None, namespace: str) -> None:
    """Change nothing more by a FleetRollout, and leave its instances to other rollouts."""
    patch = {"spec": {"action": RolloutAction.ABORT.value}}
    _patch_rollout(kubeconfig, context, name, namespace, None, patch)
    echo(f"{name}: aborted; `manager rollout resume {name} -n {namespace}` continues it")


@rollout.command()
@click.argument("name")
@click.option("--wave", help="The wave; default: the one in progress.")
@click.option("--digest", help="Approve only if the approval digest of its status is this.")
@cluster_options
def approve(
    name: str,
    wave: str | None,
    digest: str | None,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
) -> None:
    """Let a wave of a FleetRollout begin: for its version, selector and waves as they are now."""
    approve_wave(name, wave, digest, kubeconfig, context, namespace)


def approve_wave(
    name: str,
    wave: str | None,
    digest: str | None,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
) -> None:
    """Approve a wave of a FleetRollout. Raises ClickException if it needs none, or is not what was shown."""

    async def write(client: Client) -> str:
        found = await find_target(client, name, namespace)
        if not isinstance(found, FleetRollout):
            raise click.ClickException(_only_fleet(name, "approvals"))
        chosen, patch = approval(found, wave, digest)
        await patch_fleet(client, found, patch)
        return chosen

    chosen = talk(kubeconfig, context, write)
    echo(f"{name}: wave {chosen} is approved")


@rollout.command()
@click.argument("name")
@click.option(
    "--to-revision",
    type=click.IntRange(min=1),
    help="Number of the revision; default: the newest one that is not the present content.",
)
@cluster_options
def undo(
    name: str,
    to_revision: int | None,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
) -> None:
    """Write recorded content back into a template, or return what a FleetRollout changed to the version before."""

    async def write(client: Client) -> _Revision | None:
        template = await find_target(client, name, namespace)
        if isinstance(template, FleetRollout):
            if to_revision is not None:
                raise click.ClickException(f"{name}: a FleetRollout has no numbered revisions")
            undo = {"spec": {"action": RolloutAction.UNDO.value, "pause": False}}
            await patch_fleet(client, template, undo)
            return None
        chosen = _choose(await _revisions(client, template), template, to_revision)
        gone = template.spec.to_wire().keys() - LISTS_EXCLUDED - chosen.lists.keys()
        patch = {
            "metadata": {"resourceVersion": template.metadata.resource_version},
            "spec": {**dict.fromkeys(gone), **chosen.lists},
        }
        place = template.metadata.name or ""
        await client.patch(TenantTemplate, place, patch, namespace=namespace, type=PatchType.MERGE)
        return chosen

    chosen = talk(kubeconfig, context, write)
    if chosen is None:
        echo(f"{name}: the instances that it changed return to the version before")
    else:
        echo(f"{name}: back to revision {chosen.number} ({chosen.version})")


def _follow(
    kubeconfig: Path | None, context: str | None, name: str, namespace: str, timeout: float
) -> None:
    try:
        end = talk(kubeconfig, context, lambda c: follow(c, name, namespace, timeout, echo))
    except NotInTime as error:
        raise click.ClickException(str(error)) from error
    if end is not Health.GOOD:
        raise click.exceptions.Exit(1)


def _row(template: TenantTemplate) -> dict[str, Any]:
    status = template.status.rollout
    shown = {} if status is None else status.to_wire()
    for field in RolloutStatus.model_fields.values():
        if isinstance(field.default, int):
            shown.setdefault(field.alias or "", field.default)
    place = {"namespace": template.metadata.namespace, "name": template.metadata.name}
    return {"kind": "TenantTemplate", **place, **shown}


def _patch_rollout(
    kubeconfig: Path | None,
    context: str | None,
    name: str,
    namespace: str,
    of_template: dict[str, Any] | None,
    of_fleet: dict[str, Any],
) -> None:
    """Patch a FleetRollout, or a template that has a rollout; None: templates have no such thing."""

    async def write(client: Client) -> None:
        found = await find_target(client, name, namespace)
        if isinstance(found, FleetRollout):
            await patch_fleet(client, found, of_fleet)
            return
        if of_template is None:
            raise click.ClickException(_only_fleet(name, "an abort"))
        if found.spec.rollout is None:
            raise click.ClickException(_no_rollout(name))
        place = found.metadata.name or ""
        await client.patch(
            TenantTemplate, place, of_template, namespace=namespace, type=PatchType.MERGE
        )

    talk(kubeconfig, context, write)


async def _revisions(client: Client, template: TenantTemplate) -> list[_Revision]:
    """Return the recorded revisions of a template that are what their names say, by number."""
    name, uid = template.metadata.name or "", template.metadata.uid
    objects = await client.list(
        CONTROLLER_REVISION,
        template.metadata.namespace,
        labels=f"{TEMPLATE}={label_value(name)}",
    )
    found = []
    for item in objects:
        metadata = item["metadata"]
        owners = {each.get("uid") for each in metadata.get("ownerReferences") or ()}
        recorded = recorded_lists(metadata["name"], item.get("data"), name)
        if uid in owners and recorded is not None:
            version, lists = recorded
            created = str(metadata.get("creationTimestamp", ""))
            found.append(_Revision(int(item.get("revision", 0)), version, lists, created))
    return sorted(found, key=lambda each: each.number)


def _choose(found: list[_Revision], template: TenantTemplate, number: int | None) -> _Revision:
    """Return the revision to go back to. Raises ClickException if there is none."""
    name, present = template.metadata.name, Blueprint.of(template).revision
    if number is not None:
        chosen = [item for item in found if item.number == number]
    else:
        chosen = [item for item in found if item.version != present]
    if not chosen:
        known = ", ".join(str(item.number) for item in found) or "none"
        raise click.ClickException(
            f"template {name!r} has no such revision; recorded with other content or number: {known}"
        )
    if chosen[-1].version == present:
        raise click.ClickException(
            f"template {name!r} has the content of revision {number} already"
        )
    return chosen[-1]


def _no_rollout(name: str) -> str:
    return f"template {name!r} has no spec.rollout: a change reaches all of its tenants at once"


def _only_fleet(name: str, what: str) -> str:
    return f"{name!r} is a template, and only a FleetRollout has {what}: pause or undo it"
