"""A place where runs execute, outside of all managers: the truth about what was built and what was destroyed.

A request of a manager arrives whatever becomes of the manager meanwhile, and its answer may be late or lost.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from internal.cloud.runs import Run, RunName, RunOwner, RunRequest, RunState

T = TypeVar("T")
_BEGIN: Final = datetime(2030, 1, 1, tzinfo=UTC)
_LATEST: Final = 2.0
"""Seconds that a request or its answer is under way: less than a lease outlasts its holder."""


class Lost(Exception):
    """No answer came."""


class Runs:
    """All runs there ever were. ``begins`` is called with each that is about to begin, ``ends`` with each that ended."""

    def __init__(self, draw: random.Random) -> None:
        self.runs: dict[RunName, Run] = {}
        self.requests: dict[RunName, RunRequest] = {}
        """Of all runs, those that were deleted too."""
        self.begins: Callable[[RunRequest], None] = lambda _request: None
        self.ends: Callable[[RunRequest, Run], None] = lambda _request, _run: None
        self.result: Callable[[RunRequest], dict[str, Any]] = lambda _request: {}
        """Returns fields of the Run that a request ends as: without any it succeeds."""
        self.lossy = False
        """Whether answers get lost."""
        self.slowest = draw.choice((2.0, 20.0, 90.0))
        """Seconds that a run takes at most."""
        self._draw = draw
        self._loop = asyncio.get_running_loop()

    def live(self) -> list[RunRequest]:
        """Return the runs that are under way or will begin."""
        return [self.requests[name] for name, run in self.runs.items() if not run.state.finished]

    # -- what managers request ---------------------------------------------------------------------

    async def start(self, request: RunRequest) -> Run:
        """See RunProvider."""
        return await self._ask(lambda: self._start(request))

    async def get(self, owner: RunOwner, run_id: RunName) -> Run | None:
        """See RunProvider."""
        return await self._ask(lambda: self._of(owner).get(run_id))

    async def list(self, owner: RunOwner) -> Sequence[Run]:
        """See RunProvider."""
        return await self._ask(lambda: list(self._of(owner).values()))

    async def cancel(self, owner: RunOwner, run_id: RunName) -> None:
        """See RunProvider."""
        await self._ask(lambda: self._later(8.0, self._end, run_id, RunState.CANCELLED))

    async def delete(self, owner: RunOwner, run_id: RunName) -> None:
        """See RunProvider."""
        await self._ask(lambda: self._later(3.0, self._delete, run_id))

    def subscribe(self, _changed: Callable[[RunOwner], None]) -> bool:
        """Report nothing: managers poll."""
        return False

    async def aclose(self) -> None:
        """Leave everything as it is."""

    async def _ask(self, effect: Callable[[], T]) -> T:
        future: asyncio.Future[T] = self._loop.create_future()
        self._later(_LATEST, self._take, effect, future)
        return await future

    def _take(self, effect: Callable[[], T], future: asyncio.Future[T]) -> None:
        answer = effect()
        lost = self.lossy and self._draw.random() < 0.05
        self._later(20.0 if lost else _LATEST, _answer, future, None if lost else (answer,))

    def _later(self, most: float, function: Callable[..., object], *args: object) -> None:
        delay = self._draw.uniform(0.01, most)
        self._loop.call_later(delay, function, *args, context=Context())

    # -- what becomes of it ---------------------------------------------------------------------------

    def _of(self, owner: RunOwner) -> dict[RunName, Run]:
        return {
            name: run
            for name, run in self.runs.items()
            if self.requests[name].input.owner.uid == owner.uid
        }

    def _start(self, request: RunRequest) -> Run:
        name = request.run_id
        if name not in self.runs:
            self.begins(request)
            self.requests[name] = request
            self.runs[name] = Run(run_id=name, state=RunState.CREATED, created_at=self._now())
            self._later(5.0, self._run, name)
        return self.runs[name]

    def _run(self, name: RunName) -> None:
        run = self.runs.get(name)
        if run is not None and run.state is RunState.CREATED:
            self.runs[name] = replace(run, state=RunState.RUNNING, started_at=self._now())
            self._later(self.slowest, self._end, name, RunState.SUCCEEDED)

    def _end(self, name: RunName, state: RunState) -> None:
        run = self.runs.get(name)
        if run is None or run.state.finished:
            return
        fields = self.result(self.requests[name]) if state is RunState.SUCCEEDED else {}
        self.runs[name] = replace(run, **{"state": state, "finished_at": self._now(), **fields})
        self.ends(self.requests[name], self.runs[name])

    def _delete(self, name: RunName) -> None:
        self._end(name, RunState.CANCELLED)
        self.runs.pop(name, None)

    def _now(self) -> datetime:
        return _BEGIN + timedelta(seconds=self._loop.time())


def _answer(future: asyncio.Future[T], answer: tuple[T] | None) -> None:
    if future.done():
        return
    if answer is None:
        future.set_exception(Lost("the connection was closed"))
    else:
        future.set_result(answer[0])
