"""What a person requests where Terraform's state is locked: that an orphaned lock is given back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctrlruntime.clock import wall
from internal.cloud.labels import RETRY, UNLOCK
from internal.cloud.subresource_requests import annotate, subresources_of
from internal.cloud.taskdriver.record import is_live
from internal.cloud.taskdriver.state_locks import lock_message

if TYPE_CHECKING:
    from apis.cloud import TaskStatus
    from ctrlruntime.client.client import Client


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
