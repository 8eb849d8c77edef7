"""Runnables and the groups in which they start and stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from ctrlruntime.side_by_side import as_failure


class Runnable(Protocol):
    """Something that runs as long as the manager does.

    Optional attributes: ``needs_leader_election`` (True if missing), ``runnable_group`` (a
    :class:`Group`), ``wait_ready`` (a coroutine function; later groups wait for it), ``warmup``
    with ``needs_warmup`` (a second coroutine function that runs before the election), ``shutdown``
    (a function, called when the manager stops: ``start`` has to return once the work in progress is
    done, and is cancelled after the graceful shutdown timeout only).
    """

    async def start(self) -> None:
        """Run until cancelled. Returning early is fine; raising stops the manager."""
        ...


class Group(StrEnum):
    """In the order of starting."""

    HTTP_SERVERS = "http servers"
    WEBHOOKS = "webhooks"
    CACHES = "caches"
    OTHERS = "others"
    WARMUP = "warm-up"
    LEADER_ELECTION = "leader election"


class FuncRunnable:
    """A coroutine function as a runnable."""

    def __init__(
        self,
        func: Callable[[], Awaitable[None]],
        *,
        name: str = "",
        needs_leader_election: bool = True,
    ) -> None:
        self.needs_leader_election = needs_leader_election
        self._func = func
        self._name = name or getattr(func, "__qualname__", repr(func))

    def __repr__(self) -> str:
        return f"FuncRunnable({self._name})"

    async def start(self) -> None:
        await self._func()


def group_of(runnable: Runnable) -> Group:
    """Where a runnable belongs."""
    group = getattr(runnable, "runnable_group", None)
    if group is not None:
        return Group(group)
    if getattr(runnable, "needs_leader_election", True):
        return Group.LEADER_ELECTION
    return Group.OTHERS


class StoppingError(RuntimeError):
    """A runnable was added to a manager that is stopping."""


Start = Callable[[], Awaitable[None]]


class RunnableGroup:
    """Runnables that start together and stop together.

    ``failed`` receives every exception a runnable ends with.
    """

    def __init__(
        self,
        group: Group,
        failed: Callable[[Exception], None],
        logger: FilteringBoundLogger,
    ) -> None:
        self.group = group
        self._failed = failed
        self._logger = logger
        self._queued: list[tuple[Runnable, Start]] = []
        self._tasks: dict[asyncio.Task[None], None] = {}  # in the order they began
        self._shutdowns: dict[asyncio.Task[None], Callable[[], None]] = {}
        self._started = False
        self._stopped = False

    def add(self, runnable: Runnable, start: Start | None = None) -> None:
        """Queue ``runnable``, or start it if the group runs. ``start`` replaces its ``start``."""
        if self._stopped:
            raise StoppingError(
                f"cannot add {runnable!r}: the manager is stopping and takes no new runnables"
            )
        entry = (runnable, start if start is not None else runnable.start)
        if self._started:
            self._launch(*entry)
        else:
            self._queued.append(entry)

    async def start(self) -> None:
        """Start what is queued and wait until all of it is ready. Does nothing after a stop."""
        if self._stopped or self._started:
            return
        self._started = True
        launched = [(runnable, self._launch(runnable, start)) for runnable, start in self._queued]
        self._queued.clear()
        await asyncio.gather(*(self._ready(runnable, task) for runnable, task in launched))

    def shutdown(self) -> set[asyncio.Task[None]]:
        """Request the end of every runnable with a ``shutdown``, and return their tasks.

        The others run on until :meth:`cancel`. Nothing queued will ever start.
        """
        self._stopped = True
        requested = dict(self._shutdowns)
        for request in requested.values():
            request()
        return set(requested)

    def cancel(self) -> None:
        """Request that all stop. Nothing queued will ever start."""
        self._stopped = True
        for task in self._tasks:
            task.cancel()

    async def wait(self) -> None:
        """Wait until all have ended."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))
            await asyncio.sleep(0)  # lets the done callbacks take them off the set

    @property
    def running(self) -> list[str]:
        """Names of what has not ended."""
        return sorted(task.get_name() for task in self._tasks)

    def _launch(self, runnable: Runnable, start: Start) -> asyncio.Task[None]:
        task = asyncio.ensure_future(self._run(start))
        task.set_name(repr(runnable))
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        shutdown: Callable[[], None] | None = getattr(runnable, "shutdown", None)
        if shutdown is not None and start == runnable.start:
            self._shutdowns[task] = shutdown
            task.add_done_callback(self._shutdowns.pop)
        return task

    async def _run(self, start: Start) -> None:
        try:
            await start()
        except BaseException as error:  # noqa: BLE001 - the manager ends with it: no task ends unseen
            self._failed(as_failure(error))

    async def _ready(self, runnable: Runnable, task: asyncio.Task[None]) -> None:
        wait_ready: Start | None = getattr(runnable, "wait_ready", None)
        if wait_ready is None:
            return
        ready = asyncio.ensure_future(wait_ready())
        try:
            await asyncio.wait({ready, task}, return_when=asyncio.FIRST_COMPLETED)
            if ready.done():
                ready.result()
        finally:
            ready.cancel()
            await asyncio.gather(ready, return_exceptions=True)
