"""What a person requests of an Instance's subresources: one annotation on each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlruntime.client.errors import Conflict, NotFound
from ctrlruntime.clock import wall
from internal.cloud.labels import (
    APPROVED_PLAN,
    CANCEL,
    INSTANCE,
    RECONCILE,
    REJECTED_PLAN,
    RETRY,
    UNLOCK,
)
from internal.cloud.subresources import SUBRESOURCES
from internal.cloud.taskdriver.record import is_live
from internal.cloud.taskdriver.state_locks import lock_message

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from apis.cloud import PlannedChange, TaskStatus
    from ctrlruntime.api.resource import Resource
    from ctrlruntime.client.client import Client
    from internal.cloud.subresource import Subresource


@dataclass(frozen=True, slots=True)
class Requested:
    """A subresource that something was requested of."""

    kind: str
    name: str
    run_id: str = ""
    """The run to cancel; empty: a new one was requested."""


async def cancel_runs(
    client: Client, instance: str, *, namespace: str, run_id: str = ""
) -> list[Requested]:
    """Request the cancellation of every run under way for an Instance, or of the one named `run_id`.

    A run that ends meanwhile is not touched: the annotation names it, and no other run has its id. Raises
    what the client raises.
    """
    done = []
    async for subresource, found in subresources_of(client, instance, namespace):
        run = found.status.run
        if run is None or not is_live(run) or run_id not in ("", run.run_id):
            continue
        if await annotate(client, subresource, found, {CANCEL: run.run_id}):
            done.append(Requested(subresource.kind.__name__, found.metadata.name, run.run_id))
    return done


async def request_runs(
    client: Client, instance: str, *, namespace: str, value: str, kind: str = ""
) -> list[Requested]:
    """Request a run of each subresource of an Instance, or of one `kind`, although its inputs are carried out.

    Tasks that run once, such as upgrades, are left out. `value`: one that was not used before. Raises what the
    client raises.
    """
    done = []
    async for subresource, found in subresources_of(client, instance, namespace):
        name = subresource.kind.__name__
        leaves = found.metadata.deletion_timestamp is not None
        if leaves or subresource.definition.once or kind not in ("", name):
            continue
        if await annotate(client, subresource, found, {RECONCILE: value}):
            done.append(Requested(name, found.metadata.name))
    return done


async def subresources_of(
    client: Client, instance: str, namespace: str
) -> AsyncIterator[tuple[Subresource[Any], Any]]:
    """Yield each subresource of an Instance with its type. Raises what the client raises."""
    for subresource in SUBRESOURCES:
        found = await client.list(subresource.kind, namespace, labels=f"{INSTANCE}={instance}")
        for each in found:
            yield subresource, each


async def annotate(
    client: Client,
    subresource: Subresource[Any],
    found: Resource[Any, Any],
    annotations: Mapping[str, str | None],
) -> bool:
    """Write annotations; None removes one. Return False if the object was deleted, and perhaps made again."""
    metadata = found.metadata
    patch = {"metadata": {"uid": metadata.uid, "annotations": dict(annotations)}}
    try:
        await client.patch(subresource.kind, metadata.name, patch, namespace=metadata.namespace)
    except (NotFound, Conflict):
        return False
    return True


@dataclass(frozen=True, slots=True)
class WaitingPlan:
    """A plan that waits, and whose it is."""

    kind: str
    name: str
    plan: PlannedChange
    message: str
    """What the subresource waits for; empty: for nothing."""


async def waiting_plans(client: Client, instance: str, *, namespace: str) -> list[WaitingPlan]:
    """Return the plans of an Instance that were made and not applied. Raises what the client raises."""
    found = []
    async for subresource, each in subresources_of(client, instance, namespace):
        plan, waiting = each.status.plan, each.status.waiting
        if plan is not None:
            message = "" if waiting is None else waiting.message
            name = each.metadata.name or ""
            found.append(WaitingPlan(subresource.kind.__name__, name, plan, message))
    return found


async def decide_on_plan(
    client: Client, instance: str, *, namespace: str, digest: str, approve: bool
) -> WaitingPlan | None:
    """Approve or reject the plan with that digest. Returns it; None if no plan has the digest.

    A decision holds for that plan alone. An approval takes an earlier rejection of the same plan back, and the
    other way round. Raises what the client raises.
    """
    given, other = (APPROVED_PLAN, REJECTED_PLAN) if approve else (REJECTED_PLAN, APPROVED_PLAN)
    async for subresource, each in subresources_of(client, instance, namespace):
        plan = each.status.plan
        if plan is None or plan.digest != digest:
            continue
        if await annotate(client, subresource, each, {given: digest, other: None}):
            name = each.metadata.name or ""
            return WaitingPlan(subresource.kind.__name__, name, plan, "")
    return None


class NotUnlocked(Exception):
    """The lock stays: the message gives the reason and what to do."""


@dataclass(frozen=True, slots=True)
class Unlocked:
    """An orphaned lock that the next run gives back."""

    kind: str
    name: str
    lock_id: str
    run_id: str
    """The run that left it behind."""


async def unlock_state(client: Client, instance: str, *, namespace: str) -> list[Unlocked]:
    """Request that orphaned locks of an Instance's states are given back, and another attempt with it.

    Raises NotUnlocked for a lock whose holder may be at work, and if no run was refused for a lock; and what the
    client raises.
    """
    done = []
    async for subresource, found in subresources_of(client, instance, namespace):
        status: TaskStatus = found.status
        if status.state_lock is None:
            continue
        refusal = _refusal(status, instance, namespace)
        if refusal:
            raise NotUnlocked(refusal)
        lock = status.state_lock
        annotations = {UNLOCK: lock.id, RETRY: f"unlock-{int(wall() * 1e6)}"}
        if await annotate(client, subresource, found, annotations):
            kind = subresource.kind.__name__
            done.append(Unlocked(kind, found.metadata.name, lock.id, lock.run_id))
    if not done:
        raise NotUnlocked(
            f"{instance}: no run was refused for the lock of a state;"
            f" `manager instance describe {instance} -n {namespace}` shows its tasks"
        )
    return done


def _refusal(status: TaskStatus, instance: str, namespace: str) -> str:
    """Return why the lock that is recorded may be held by what is at work; empty if it is orphaned."""
    run, lock = status.run, status.state_lock
    if run is not None and is_live(run):
        return (
            f"{instance}: run {run.run_id} is under way and may hold the lock: wait for its end, or end it with"
            f" `manager instance cancel {instance} -n {namespace}`"
        )
    if lock is not None and not lock.run_id:
        return f"{instance}: the lock may be in use. {lock_message(lock, instance, namespace)}"
    return ""
