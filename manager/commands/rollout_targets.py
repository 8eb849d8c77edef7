"""What `manager rollout` acts on: a template with a rollout, or a FleetRollout."""

from __future__ import annotations

import contextlib
from typing import Any, Final, TypeVar

import click

from apis.cloud import FleetRollout, RolloutAction, TaskPriority, WaveApproval
from apis.tenancy import TenantTemplate
from ctrlruntime.api import Resource
from ctrlruntime.client.client import Client, PatchType
from ctrlruntime.client.errors import Forbidden, NoKindMatch, NotFound
from ctrlruntime.clock import utc_now
from internal.cloud.labels import APPROVED_WAVES, RESUMED_AT
from internal.cloud.rollouts.strategy import approval_digest, approve_wave
from manager.commands.tables import Column

Target = TenantTemplate | FleetRollout
R = TypeVar("R", bound=Resource[Any, Any])
PREFIXES: Final[dict[str, type[Any]]] = {
    "template": TenantTemplate,
    "tenanttemplate": TenantTemplate,
    "fleetrollout": FleetRollout,
}

COUNTS: Final = (
    Column("TOTAL", "total"),
    Column("UPDATED", "updated"),
    Column("CHANGING", "changing"),
    Column("FAILED", "failed"),
    Column("WAITING", "waiting"),
)
"""Columns of every rollout: how far it has come."""
OUTCOME: Final = (
    Column("ROLLED BACK", "rolledBack", wide=True),
    Column("KEPT", "kept", wide=True),
    Column("UNTIL", "waitingUntil", wide=True),
    Column("MESSAGE", "message"),
)
"""Columns of every rollout: what came of it."""
FLEET_STATUS: Final = (
    Column("NAMESPACE", "namespace", wide=True),
    Column("NAME", "name"),
    Column("PHASE", "phase"),
    Column("TARGET", "targetVersion"),
    Column("PRIORITY", "priority"),
    Column("WAVE", "wave"),
    *COUNTS,
    Column("SKIPPED", "skipped", wide=True),
    *OUTCOME,
)
WAVES: Final = (
    Column("WAVE", "name"),
    Column("INSTANCES", "instances"),
    Column("UPDATED", "updated"),
    Column("READY", "ready"),
)


async def find_target(client: Client, name: str, namespace: str) -> Target:
    """Return what `KIND/NAME`, or NAME alone, stands for. Raises ClickException."""
    prefix, slash, rest = name.rpartition("/")
    if slash:
        if prefix.lower() not in PREFIXES:
            raise click.ClickException(f"{name!r}: write template/NAME or fleetrollout/NAME")
        found: Target = await client.get(PREFIXES[prefix.lower()], rest, namespace=namespace)
        return found
    template = await _get(client, TenantTemplate, name, namespace)
    fleet = await _get(client, FleetRollout, name, namespace)
    if template is not None and fleet is not None:
        raise click.ClickException(
            f"there is a template and a FleetRollout {name!r}: write template/{name} or fleetrollout/{name}"
        )
    either = template or fleet
    if either is None:
        with contextlib.suppress(Forbidden):
            await list_targets(client, namespace)  # without both CRDs that is the error
        raise click.ClickException(
            f"namespace {namespace!r} has no template and no FleetRollout {name!r} that you may read"
        )
    return either


async def _get(client: Client, kind: type[R], name: str, namespace: str) -> R | None:
    try:
        return await client.get(kind, name, namespace=namespace)
    except (NotFound, NoKindMatch, Forbidden):
        return None


async def list_targets(client: Client, namespace: str | None) -> list[Target]:
    """Return the templates and FleetRollouts that there are. Raises NoKindMatch without the CRDs of both."""
    templates = await _list(client, TenantTemplate, namespace)
    fleets = await _list(client, FleetRollout, namespace)
    if templates is None and fleets is None:
        raise NoKindMatch(TenantTemplate.gvk())
    return [*(templates or ()), *(fleets or ())]


async def _list(client: Client, kind: type[R], namespace: str | None) -> list[R] | None:
    try:
        return list(await client.list(kind, namespace))
    except (NotFound, NoKindMatch):
        return None


def fleet_row(rollout: FleetRollout) -> dict[str, Any]:
    """Return a FleetRollout as a row of `manager rollout status`."""
    wire = rollout.status.model_dump(mode="json", by_alias=True, exclude={"conditions"})
    place = {"namespace": rollout.metadata.namespace, "name": rollout.metadata.name}
    priority = (rollout.spec.priority or TaskPriority.NORMAL).value
    return {"kind": "FleetRollout", **place, "priority": priority, **wire}


async def patch_fleet(client: Client, rollout: FleetRollout, patch: dict[str, Any]) -> None:
    """Patch exactly the FleetRollout that was read, whatever else changed in it."""
    metadata = {**patch.get("metadata", {}), "uid": rollout.metadata.uid}
    await client.patch(
        FleetRollout,
        rollout.metadata.name or "",
        {**patch, "metadata": metadata},
        namespace=rollout.metadata.namespace,
        type=PatchType.MERGE,
    )


def resumed() -> dict[str, Any]:
    """Return the patch that continues a FleetRollout; what failed until now does not count."""
    return {
        "metadata": {"annotations": {RESUMED_AT: utc_now().isoformat()}},
        "spec": {"pause": False, "action": RolloutAction.ROLL_OUT.value},
    }


def approval(
    rollout: FleetRollout, wave: str | None, digest: str | None
) -> tuple[str, dict[str, Any]]:
    """Return the wave that is approved and the patch. Raises ClickException if it is not what was shown."""
    name, status = rollout.metadata.name or "", rollout.status
    shown = approval_digest(rollout.spec)
    if status.approval_digest != shown:
        raise click.ClickException(
            f"{name}: its status is not that of the present spec yet; look at it, then approve again"
        )
    if digest is not None and digest != shown:
        raise click.ClickException(f"{name}: the digest is {shown} by now; look at it again")
    manual = [item.name for item in rollout.spec.waves if item.approval is WaveApproval.MANUAL]
    chosen = wave or status.wave
    if chosen not in manual:
        known = ", ".join(manual) or "none"
        raise click.ClickException(
            f"{name}: wave {chosen!r} needs no approval; those that do: {known}"
        )
    value = approve_wave(rollout.metadata.annotations or {}, chosen, shown)
    metadata = {
        "annotations": {APPROVED_WAVES: value},
        "resourceVersion": rollout.metadata.resource_version,
    }
    return chosen, {"metadata": metadata}
