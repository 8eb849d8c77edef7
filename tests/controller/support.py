"""Sources and reconcilers whose every step a test decides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from ctrlruntime.controller import Controller, ControllerOptions, Result
from ctrlruntime.controller.event_dispatch import EventDispatcher
from ctrlruntime.manager.controller_series import ControllerSeries
from ctrlruntime.queue import Request

A, B = Request("a", namespace="default"), Request("b", namespace="default")

Outcome = Result | None | BaseException | Callable[[], Awaitable[Result | None]]


class Script:
    """A reconciler that answers from a list, then with nothing, and notes what it was asked."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.outcomes = list(outcomes)
        self.runs: list[Request] = []
        self.times: list[float] = []
        self._changed = asyncio.Event()

    async def reconcile(self, request: Request) -> Result | None:
        self.runs.append(request)
        self.times.append(asyncio.get_running_loop().time())
        self._changed.set()
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if isinstance(outcome, BaseException):
            raise outcome
        if callable(outcome):
            return await outcome()
        return outcome

    async def until(self, count: int) -> None:
        """Wait for the ``count``-th run to begin."""
        while len(self.runs) < count:
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), 3600)


class GateSource:
    """A source that starts and syncs when told."""

    def __init__(self, name: str = "gate") -> None:
        self.name = name
        self.may_start = asyncio.Event()
        self.may_sync = asyncio.Event()
        self.starts = 0
        self.stops = 0
        self.intake: EventDispatcher | None = None
        self.started = asyncio.Event()

    def __str__(self) -> str:
        return f"source {self.name}"

    async def start(self, intake: EventDispatcher) -> None:
        self.starts += 1
        await self.may_start.wait()
        self.intake = intake
        self.started.set()

    async def wait_synced(self) -> None:
        await self.may_sync.wait()

    async def stop(self) -> None:
        self.stops += 1

    def open(self) -> GateSource:
        self.may_start.set()
        self.may_sync.set()
        return self


def controller(
    reconciler: object, options: ControllerOptions | None = None, **parts: object
) -> Controller:
    settings = (options if options is not None else ControllerOptions()).settings()
    return Controller("test", reconciler, settings=settings, **parts)  # type: ignore[arg-type]


def series() -> ControllerSeries:
    return ControllerSeries("test", 1)


@asynccontextmanager
async def running(controller: Controller) -> AsyncIterator[asyncio.Task[None]]:
    """Run a controller for the length of the block and check that nothing is left of it."""
    before = asyncio.all_tasks()
    task = asyncio.create_task(controller.start())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        left = {t for t in asyncio.all_tasks() - before if not t.done()}
        assert not left


async def settled() -> None:
    """Let everything run that can run now."""
    for _ in range(20):
        await asyncio.sleep(0)
