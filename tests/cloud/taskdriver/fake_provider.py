"""A place outside the cluster where runs execute, kept in memory: it knows the truth about runs.

It outlives managers, starts each run id once, and counts what it is asked. Tests move its runs on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from internal.cloud.runs import Run, RunOwner, RunRefused, RunRequest, RunState

EFFECTS = frozenset({"start", "cancel", "delete"})


class Lost(Exception):
    """No answer came."""


@dataclass
class Outside:
    """All runs there are, by id."""

    clock: Callable[[], datetime]
    runs: dict[str, Run] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    requests: dict[str, RunRequest] = field(default_factory=dict)
    copies: set[str] = field(default_factory=set)
    """Runs that a start copied Secrets for, whatever came of it; they go when the run is deleted."""
    begun: Counter[str] = field(default_factory=Counter)
    """How often a run of an id began to exist."""
    calls: Counter[str] = field(default_factory=Counter)
    deleted: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    refuse: str = ""
    lose: set[str] = field(default_factory=set)
    """Calls whose effect takes place and whose answer is lost, once each."""
    fail: set[str] = field(default_factory=set)
    """Calls that do not get through, once each."""
    broken: dict[str, Exception] = field(default_factory=dict)
    """Calls that raise, until they are taken out."""
    fault: tuple[int, str] | None = None
    """The n-th effect from now, and what happens to it: fail or lose."""
    heeds_cancel: bool = True
    immediate: bool = False
    """Runs are over before their start returns."""
    most_live: int = 0
    open: int = 0
    opened: int = 0
    listeners: list[Callable[[RunOwner], None]] = field(default_factory=list)

    async def opening(self, _owner: RunOwner) -> Connection:
        """An :data:`OpenRuns`."""
        self.open += 1
        self.opened += 1
        return Connection(self)

    def of(self, uid: str) -> list[Run]:
        """The runs of an owner, oldest first."""
        return [run for run in self.runs.values() if self.owners[run.run_id] == uid]

    def live(self) -> list[Run]:
        """All runs under way."""
        return [run for run in self.runs.values() if not run.state.finished]

    def move(self, run_id: str, state: RunState, **changes: object) -> None:
        """A run goes on, or ends."""
        given: dict[str, Any] = {"state": state, **changes}
        if state is RunState.RUNNING:
            given.setdefault("started_at", self.clock())
        if state.finished:
            given.setdefault("finished_at", self.clock())
        self.runs[run_id] = replace(self.runs[run_id], **given)

    def add(self, uid: str, run_id: str, state: RunState = RunState.RUNNING) -> None:
        """A run that nobody here started."""
        self.runs[run_id] = Run(run_id=run_id, state=state, created_at=self.clock())
        self.owners[run_id] = uid

    def vanish(self, run_id: str) -> None:
        """Somebody deletes a run."""
        del self.runs[run_id]


class Connection:
    """One manager's way to it: a :class:`RunProvider`."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self._closed = False

    def _called(self, what: str) -> None:
        assert not self._closed, "used after it was closed"
        self._outside.calls[what] += 1
        if what in EFFECTS and self._outside.fault is not None:
            nth, kind = self._outside.fault
            self._outside.fault = (nth - 1, kind)
            if nth == 1:
                self._outside.fault = None
                (self._outside.fail if kind == "fail" else self._outside.lose).add(what)
        if what in self._outside.broken:
            raise self._outside.broken[what]
        if what in self._outside.fail:
            self._outside.fail.discard(what)
            raise Lost(f"{what} did not get through")

    def _answered(self, what: str) -> None:
        if what in self._outside.lose:
            self._outside.lose.discard(what)
            raise Lost(f"the answer to {what} was lost")

    async def start(self, request: RunRequest) -> Run:
        self._outside.copies.add(request.run_id)
        self._called("start")
        outside = self._outside
        if outside.refuse:
            raise RunRefused(outside.refuse)
        if request.run_id not in outside.runs:
            outside.begun[request.run_id] += 1
            outside.runs[request.run_id] = Run(
                run_id=request.run_id, state=RunState.CREATED, created_at=outside.clock()
            )
            outside.owners[request.run_id] = request.input.owner.uid
            outside.requests[request.run_id] = request
            outside.most_live = max(outside.most_live, len(outside.live()))
            if outside.immediate:
                outside.move(request.run_id, RunState.SUCCEEDED)
        self._answered("start")
        return outside.runs[request.run_id]

    async def get(self, owner: RunOwner, run_id: str) -> Run | None:
        self._called("get")
        run = self._outside.runs.get(run_id)
        return run if run is not None and self._outside.owners[run_id] == owner.uid else None

    async def list(self, owner: RunOwner) -> Sequence[Run]:
        self._called("list")
        return self._outside.of(owner.uid)

    async def cancel(self, owner: RunOwner, run_id: str) -> None:
        self._called("cancel")
        run = self._outside.runs.get(run_id)
        self._outside.cancelled.append(run_id)
        if run is not None and not run.state.finished and self._outside.heeds_cancel:
            self._outside.move(run_id, RunState.CANCELLED)
        self._answered("cancel")

    async def delete(self, owner: RunOwner, run_id: str) -> None:
        self._called("delete")
        self._outside.copies.discard(run_id)
        if self._outside.runs.pop(run_id, None) is not None:
            self._outside.deleted.append(run_id)
        self._answered("delete")

    def subscribe(self, changed: Callable[[RunOwner], None]) -> bool:
        self._outside.listeners.append(changed)
        return True

    async def aclose(self) -> None:
        assert not self._closed, "closed twice"
        self._closed = True
        self._outside.open -= 1
