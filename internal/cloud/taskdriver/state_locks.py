"""Locks of Terraform states that runs were refused for: orphaned by a run of the object, or of another holder. Pure.

A state has one lock at a time. A run that was ended while it held the lock leaves it behind; a lock that was acquired
during that run, by its holder, is that one. Of every other lock it is unknown whether its holder is at work.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from apis.cloud import StateLock, TaskOutcome, TaskRun, TaskState, TaskStatus
from ctrlruntime.api.scalars import time_or_none
from internal.cloud.labels import UNLOCK
from internal.cloud.tasks.task import LOCK_HOLDER, LOCK_INFO

LEFT_LOCKED: Final = (
    "It was ended while it held the lock of Terraform's state, which may still be locked by it."
)


class LockInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A lock as a run reports it."""

    id: str = ""
    who: str = ""
    operation: str = ""
    created: str = ""
    """RFC 3339."""


def record_lock(status: TaskStatus, run: TaskRun, outputs: Mapping[str, str]) -> None:
    """Record in place what a run that ended reports of the lock of its state."""
    status.state_lock = None
    if run.outcome is TaskOutcome.SUCCEEDED:
        return
    run.state_lock_holder = outputs.get(LOCK_HOLDER, "")
    found = _lock_of(outputs.get(LOCK_INFO, ""))
    if found is None:
        return
    runs = [each for each in status.history if each.run_id != run.run_id]
    left_by = next((each.run_id for each in runs if _left(each, found)), "")
    status.state_lock = StateLock(
        id=found.id,
        who=found.who,
        operation=found.operation,
        created=found.created,
        run_id=left_by,
    )


def _lock_of(text: str) -> LockInfo | None:
    try:
        return msgspec.json.decode(text, type=LockInfo)
    except msgspec.MsgspecError:
        return None


def _left(run: TaskRun, lock: LockInfo) -> bool:
    """Whether a run that ended left the lock behind."""
    if run.state is not TaskState.DONE or run.outcome is TaskOutcome.SUCCEEDED or not lock.id:
        return False
    host = lock.who.rpartition("@")[2]
    if host.startswith(f"{run.run_id}-"):
        return True  # the name of a Pod of the run, which has ended
    if not run.state_lock_holder or run.state_lock_holder != lock.who:
        return False
    created = time_or_none(lock.created)
    if created is None or run.created_at is None or run.finished_at is None:
        return False
    return run.created_at <= created <= run.finished_at


def orphaned_lock(status: TaskStatus, annotations: Mapping[str, str]) -> str:
    """Return the id of the lock that the next run gives back: an orphaned one that was named; else empty."""
    lock = status.state_lock
    if lock is None or not lock.run_id or annotations.get(UNLOCK) != lock.id:
        return ""
    return lock.id


def lock_message(lock: StateLock, instance: str, namespace: str) -> str:
    """Return who holds a lock, and what a person can do."""
    since = f"since {lock.created} by {lock.who} for {lock.operation}"
    if lock.run_id:
        return (
            f"Terraform's state is locked {since}: that was run {lock.run_id} of this object, which has ended, so the"
            f" lock is orphaned. Give it back with `manager instance unlock {instance} -n {namespace}`."
        )
    return (
        f"Terraform's state is locked {since}, which no run of this object left behind: wait for that holder, or if it"
        f" has ended, give the lock back where the state is with `terraform force-unlock {lock.id}`."
    )
