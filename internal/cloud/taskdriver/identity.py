"""Which run is which: a name that follows from what the run is for."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from apis.cloud import TaskOperation, TaskRun
from ctrlruntime.resources.revision import canonical
from internal.cloud.runs import RunName, RunOwner


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
