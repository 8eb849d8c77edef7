"""Runs that take a second and do nothing, and what was asked for them."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from internal.cloud.runs import Run, RunOwner, RunRequest, RunState


@dataclass(slots=True)
class StubRuns:
    """A provider in memory. It tells of changes, as the informer of Jobs does."""

    seconds: float = 1.0
    runs: dict[str, Run] = field(default_factory=dict)
    owners: dict[str, RunOwner] = field(default_factory=dict)
    by_owner: dict[str, list[str]] = field(default_factory=dict)
    """Ids of the runs of each owner, by its UID."""
    tasks: dict[str, str] = field(default_factory=dict)
    live: Counter[str] = field(default_factory=Counter)
    most_live: Counter[str] = field(default_factory=Counter)
    """Most runs under way at once, by task."""
    began: dict[str, float] = field(default_factory=dict)
    """When each run began."""
    starts: Counter[tuple[object, ...]] = field(default_factory=Counter)
    """How often each identity was started."""
    overlaps: int = 0
    """Starts while another run of the same object was under way."""
    _listeners: list[Callable[[RunOwner], None]] = field(default_factory=list)

    @property
    def duplicates(self) -> int:
        """Second starts of one identity, and runs beside another of the same object."""
        return sum(count - 1 for count in self.starts.values()) + self.overlaps

    async def start(self, request: RunRequest) -> Run:
        given = request.input
        identity = (
            given.owner.uid,
            given.operation,
            given.inputs_version,
            given.attempt,
            given.slot,
        )
        self.starts[identity] += 1
        known = self.runs.get(request.run_id)
        if known is not None:
            return known
        self.overlaps += any(
            self.owners[run.run_id].uid == given.owner.uid and not run.state.finished
            for run in self._of(given.owner)
        )
        now = datetime.now(UTC)
        run = Run(run_id=request.run_id, state=RunState.RUNNING, created_at=now, started_at=now)
        self.runs[run.run_id], self.owners[run.run_id] = run, given.owner
        self.by_owner.setdefault(given.owner.uid, []).append(run.run_id)
        self.tasks[run.run_id] = given.task
        self.began[run.run_id] = time.monotonic()
        self.live[given.task] += 1
        self.most_live[given.task] = max(self.most_live[given.task], self.live[given.task])
        asyncio.get_running_loop().call_later(self.seconds, self._end, run.run_id)
        return run

    def _end(self, run_id: str) -> None:
        run = self.runs.get(run_id)
        if run is None or run.state.finished:
            return
        self.live[self.tasks[run_id]] -= 1
        self.runs[run_id] = replace(
            run, state=RunState.SUCCEEDED, finished_at=datetime.now(UTC), message="Done."
        )
        for changed in self._listeners:
            changed(self.owners[run_id])

    def _of(self, owner: RunOwner) -> Sequence[Run]:
        return [self.runs[run_id] for run_id in self.by_owner.get(owner.uid, ())]

    async def get(self, owner: RunOwner, run_id: str) -> Run | None:
        return self.runs.get(run_id)

    async def list(self, owner: RunOwner) -> Sequence[Run]:
        return self._of(owner)

    async def cancel(self, owner: RunOwner, run_id: str) -> None:
        self._end(run_id)

    async def delete(self, owner: RunOwner, run_id: str) -> None:
        self._end(run_id)
        if self.runs.pop(run_id, None) is not None:
            self.by_owner[owner.uid].remove(run_id)

    def subscribe(self, changed: Callable[[RunOwner], None]) -> bool:
        self._listeners.append(changed)
        return True

    async def aclose(self) -> None:
        return
