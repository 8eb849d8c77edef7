"""A task for each object that is there: what `daemon` of a builder's `for_` makes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from ctrlruntime.backoff import Backoff, BackoffOptions
from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.events import DeleteEvent, Event
from ctrlruntime.cache.usercode import is_coroutine_function
from ctrlruntime.clock import draw, monotonic
from ctrlruntime.controller.predicates import Predicate, entry_of
from ctrlruntime.controller.reconcile import Reconciler, Result, logger_from_context
from ctrlruntime.queue import Request

DaemonFunc = Callable[[Request], Awaitable[None]]
"""Works for one object until it is cancelled. One that returns is not started again for that object."""

RESTARTS: Final = BackoffOptions(initial=1.0, cap=60.0, jitter=0.1)
"""How long a daemon that failed waits: each time twice as long, anew after two minutes without a failure."""
ENDS_WITHIN: Final = 10.0
"""Seconds that a cancelled daemon has before it is logged and cancelled again."""


@dataclass(frozen=True, slots=True)
class _Daemon:
    uid: str
    task: asyncio.Task[None]


class ObjectDaemons:
    """The daemons of the objects of one cluster, by request; never two of one object.

    Passes start and end them, and passes of one request never overlap.
    """

    def __init__(
        self, run: DaemonFunc, entry_of: Callable[[Request], Entry | None], *, cluster: str = ""
    ) -> None:
        """`entry_of` returns the object of a request of the cluster named `cluster`, as the cache has it."""
        self.cluster = cluster
        self._run = run
        self._entry_of = entry_of
        self._daemons: dict[Request, _Daemon] = {}

    async def follow(self, request: Request) -> None:
        """Have the daemon of an object run while that is there. That of one which goes has ended when this returns."""
        while (daemon := self._daemons.get(request)) and daemon.uid != self._uid(request):
            await self._end(request, daemon)  # and meanwhile another may have come, and gone
        uid = self._uid(request)
        if uid and daemon is None:
            task = asyncio.create_task(self._supervise(request), name=f"daemon of {request}")
            self._daemons[request] = _Daemon(uid, task)

    def _uid(self, request: Request) -> str:
        """Return the UID of an object that stays; empty for one that goes or is gone."""
        entry = self._entry_of(request)
        return "" if entry is None or entry.deletion_timestamp is not None else entry.uid

    async def end(self, of: Callable[[Request], bool] = lambda _: True) -> None:
        """Cancel the daemons of these requests and wait until they have ended."""
        ending = [(each, daemon) for each, daemon in self._daemons.items() if of(each)]
        for _, daemon in ending:
            daemon.task.cancel()
        for request, daemon in ending:
            await self._end(request, daemon)

    async def _end(self, request: Request, daemon: _Daemon) -> None:
        while not daemon.task.done():  # one may swallow a cancellation
            daemon.task.cancel()
            await asyncio.wait({daemon.task}, timeout=ENDS_WITHIN)
            if not daemon.task.done():
                logger_from_context().warning(
                    "Daemon was cancelled and does not end", after=ENDS_WITHIN
                )
        if self._daemons.get(request) is daemon:
            del self._daemons[request]

    async def _supervise(self, request: Request) -> None:
        backoff, logger = Backoff(RESTARTS, clock=monotonic, random=draw), logger_from_context()
        while True:
            try:
                await self._run(request)
            except Exception:
                delay = backoff.delay()
                logger.exception("Daemon failed", again_in=round(delay, 1))
                await asyncio.sleep(delay)
            else:
                return


class WithDaemons:
    """Wraps a reconciler: before each pass the daemon of its object is started, or has ended.

    It has to be next to the reconciler: what is awaited in between may bring the object's deletion.
    """

    def __init__(self, reconciler: Reconciler[Any], daemons: ObjectDaemons) -> None:
        self._reconciler, self._daemons = reconciler, daemons

    async def reconcile(self, request: Request) -> Result | None:
        """Raise what the reconciler raises."""
        if request.cluster == self._daemons.cluster:
            await self._daemons.follow(request)
        return await self._reconciler.reconcile(request)


def or_goes(predicate: Predicate) -> Predicate:
    """Return a predicate that lets through what ``predicate`` does, and every event of an object that goes."""

    def lets(event: Event) -> bool:
        entry = entry_of(event)
        goes = entry is not None and entry.deletion_timestamp is not None
        return goes or isinstance(event, DeleteEvent) or predicate(event)

    return lets


def check_daemon(daemon: object) -> None:
    """Raise TypeError, naming the fix, for what is no coroutine function."""
    if not is_coroutine_function(daemon):
        raise TypeError(
            f"daemon is a coroutine function of the request, as async def watch(request: Request) -> None, not {daemon!r}"
        )
