"""Which run is which: its owner, what it is for, and the slot of a periodic task."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from apis.cloud import TaskOperation, TaskRun, TaskStatus
from ctrlruntime.api import Resource, format_time, parse_time
from ctrlruntime.resources.revision import canonical
from internal.cloud.runs import RunName, RunOwner


def owner_of(resource: Resource[Any, TaskStatus]) -> RunOwner:
    """The owner that runs of the object are kept under."""
    return RunOwner(
        api_version=resource.api_version,
        kind=resource.kind,
        namespace=resource.metadata.namespace or "",
        name=resource.metadata.name or "",
        uid=resource.metadata.uid or "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a run is for. There is at most one live run of each, however often it is started."""

    owner_uid: str
    operation: TaskOperation
    inputs_version: str
    attempt: int
    slot: str = ""

    @classmethod
    def of(cls, owner: RunOwner, run: TaskRun) -> "Identity":
        """What a recorded run says it is for."""
        return cls(
            owner_uid=owner.uid,
            operation=run.operation,
            inputs_version=run.inputs_version,
            attempt=run.attempt,
            slot=run.slot,
        )

    def run_id(self, task: str) -> RunName:
        """`<task>-<12 hex>`."""
        parts = [self.owner_uid, self.operation, self.inputs_version, self.attempt, self.slot]
        return f"{task}-{hashlib.sha256(canonical(parts)).hexdigest()[:12]}"

    def following(self, count: int) -> Iterator["Identity"]:
        """This one and the attempts after it."""
        for attempt in range(self.attempt, self.attempt + count):
            yield replace(self, attempt=attempt)

    def continues(self, run: TaskRun) -> bool:
        """Whether a recorded run was an attempt at the same thing."""
        return (run.operation, run.inputs_version, run.slot) == (
            self.operation,
            self.inputs_version,
            self.slot,
        )


@dataclass(frozen=True, slots=True)
class Slot:
    """One period of one object."""

    name: str
    """Its start as time; later slots sort after earlier ones."""
    end: datetime
    """When the next one begins."""


def slot_at(now: datetime, period: float, uid: str) -> Slot:
    """The slot of an object at a time. `period` in seconds, at least one.

    Slots of different objects begin at different times, spread over the period by UID, so that a
    fleet does not run all at once.
    """
    seconds = max(1, int(period))
    offset = int.from_bytes(hashlib.sha256(uid.encode()).digest()[:8], "big") % seconds
    since = int(now.timestamp()) - offset
    start = since - since % seconds + offset
    return Slot(
        format_time(datetime.fromtimestamp(start, UTC)),
        datetime.fromtimestamp(start + seconds, UTC),
    )


def covers(done: str, slot: Slot) -> bool:
    """Whether what was done in the slot named `done` counts for `slot`. Nonsense counts for none."""
    try:
        return parse_time(done) >= parse_time(slot.name) and parse_time(done) < slot.end
    except ValueError:
        return False
