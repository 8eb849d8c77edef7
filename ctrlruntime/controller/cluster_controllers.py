"""A controller in several clusters: each has a queue, sources and workers of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypedDict, Unpack

from ctrlruntime.cluster.cluster import Cluster
from ctrlruntime.cluster.selection import ClusterNotFound
from ctrlruntime.controller.controller import Controller
from ctrlruntime.controller.reconcile import Reconciler, Result, logger_from_context
from ctrlruntime.controller.sources import Source
from ctrlruntime.queue import Ageing, Observer, PriorityQueue, Request, RequestT
from ctrlruntime.queue.limiters import Limiter

QueueOf = Callable[[str], PriorityQueue[Any] | None]
"""Returns the queue of a cluster by its name; None where a controller has none."""


class AddOptions(TypedDict, total=False):
    """The options of :meth:`PriorityQueue.add`."""

    priority: int
    after: float | None
    rate_limited: bool
    reason: str
    link: object
    scheduled: bool


class ClusterQueue(PriorityQueue[RequestT]):
    """The queue of one cluster. What is added for another cluster goes to the queue of that one.

    Requests of a cluster without a queue are dropped: it was disengaged, or is not selected. Requests
    of a type of one's own name no cluster, and stay.
    """

    def __init__(
        self,
        cluster: str,
        queue_of: QueueOf,
        *,
        limiter: Limiter | None = None,
        ageing: Ageing | None = None,
        observer: Observer | None = None,
    ) -> None:
        super().__init__(limiter=limiter, ageing=ageing, observer=observer)
        self._cluster = cluster
        self._queue_of = queue_of

    def add(self, request: RequestT, **options: Unpack[AddOptions]) -> None:
        """Queue ``request`` in its cluster's queue; see :meth:`PriorityQueue.add`."""
        if not isinstance(request, Request) or request.cluster == self._cluster:
            super().add(request, **options)
        elif (queue := self._queue_of(request.cluster)) is not None:
            queue.add(request, **options)


class ClusterController(Controller[RequestT]):
    """A controller's part in one engaged cluster. It waits for a silent server without a limit."""

    async def _start_source(self, source: Source) -> None:
        await source.start(self._intake)
        await source.wait_synced()


class DropGoneCluster:
    """Wraps a reconciler: a request ends without a retry when its cluster is not engaged any more."""

    def __init__(self, reconciler: Reconciler[RequestT]) -> None:
        self._reconciler: Reconciler[Any] = reconciler

    async def reconcile(self, request: RequestT) -> Result | None:
        """Raise what the reconciler raises, but for ClusterNotFound of the request's own cluster."""
        try:
            return await self._reconciler.reconcile(request)
        except ClusterNotFound as error:
            if error.name != getattr(request, "cluster", None):
                raise
            logger_from_context().info("Request dropped: its cluster is gone")
            return None


class ClusterControllers:
    """A controller's parts in the clusters that it selects, from engagement to disengagement."""

    def __init__(
        self,
        selects: Callable[[str], bool],
        make: Callable[[Cluster], ClusterController[Any]],
        *,
        on_end: Callable[[str, PriorityQueue[Any]], None],
    ) -> None:
        """`make` returns the part for one cluster, `on_end` receives the name and queue of one that has ended."""
        self._selects = selects
        self._make = make
        self._on_end = on_end
        self._parts: dict[str, ClusterController[Any]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ended: asyncio.Future[None] | None = None
        self._shutting_down = False

    def queue_of(self, cluster: str) -> PriorityQueue[Any] | None:
        """Return the queue of an engaged cluster."""
        part = self._parts.get(cluster)
        return None if part is None else part.queue

    def parts(self) -> dict[str, ClusterController[Any]]:
        """Return the parts by the names of their clusters."""
        return dict(self._parts)

    def engage(self, cluster: Cluster) -> None:
        """Declare what the controller watches there; the part runs as soon as the controller does."""
        if self._shutting_down or not self._selects(cluster.name):
            return
        part = self._parts[cluster.name] = self._make(cluster)
        if self._ended is not None:
            self._launch(cluster.name, part)

    async def disengage(self, name: str, grace: float | None) -> None:
        """Drop the cluster's requests. Reconciles in progress are cancelled after ``grace`` seconds."""
        part, task = self._parts.pop(name, None), self._tasks.pop(name, None)
        if part is None:
            return
        part.shutdown()
        if task is not None:
            try:
                await asyncio.wait({task}, timeout=grace)
            finally:
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._on_end(name, part.queue)

    async def run(self) -> None:
        """Run the parts until :meth:`shutdown` has ended all.

        Raises what stops one of them: a bug in the reconciler when recovery is off.
        """
        self._ended = asyncio.get_running_loop().create_future()
        try:
            for name, part in self._parts.items():
                self._launch(name, part)
            self._check()
            await self._ended
        finally:
            self._shutting_down = True
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def shutdown(self) -> None:
        """Start no further reconcile; :meth:`run` returns when those in progress have ended."""
        self._shutting_down = True
        for part in self._parts.values():
            part.shutdown()
        self._check()

    def _launch(self, name: str, part: ClusterController[Any]) -> None:
        task = self._tasks[name] = asyncio.create_task(part.start(), name=f"{part!r} in {name}")

        def ended(task: asyncio.Task[None]) -> None:
            error = None if task.cancelled() else task.exception()
            if self._tasks.get(name) is task:
                del self._tasks[name]
            if error is not None and self._ended is not None and not self._ended.done():
                self._ended.set_exception(error)
            self._check()

        task.add_done_callback(ended)

    def _check(self) -> None:
        if self._ended is None or self._ended.done():
            return
        if self._shutting_down and not self._tasks:
            self._ended.set_result(None)
