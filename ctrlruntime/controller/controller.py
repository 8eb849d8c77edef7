"""A controller: sources fill its queue, workers empty it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Protocol

import structlog
from structlog.typing import FilteringBoundLogger

from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.api.resource import KindRef
from ctrlruntime.controller.event_dispatch import EventDispatcher
from ctrlruntime.controller.loop_yielder import LoopYielder
from ctrlruntime.controller.metrics import ControllerMetrics, NoMetrics
from ctrlruntime.controller.object_daemons import ObjectDaemons
from ctrlruntime.controller.object_timer import ObjectTimer
from ctrlruntime.controller.options import ControllerOptions, Settings
from ctrlruntime.controller.permissions import Permission
from ctrlruntime.controller.reconcile import BlockingReconciler, Reconciler, check_reconciler
from ctrlruntime.controller.slot_gate import SlotGate, SlotOf
from ctrlruntime.controller.sources import Source
from ctrlruntime.controller.threads import as_asynchronous
from ctrlruntime.controller.worker import Worker
from ctrlruntime.queue import PriorityQueue, QueueShutDown, RequestT
from ctrlruntime.side_by_side import all_to_end
from ctrlruntime.tracing import Tracing

if TYPE_CHECKING:
    from ctrlruntime.cluster.cluster import Cluster


class Parts(Protocol):
    """A controller's parts in engaged clusters; :class:`ClusterControllers`."""

    def engage(self, cluster: Cluster) -> None: ...

    async def disengage(self, name: str, grace: float | None) -> None: ...

    async def run(self) -> None: ...

    def shutdown(self) -> None: ...

    def parts(self) -> Mapping[str, Controller[Any]]: ...


class SourceSyncTimeout(TimeoutError):
    """A source did not start or sync within the controller's cache sync timeout."""


class Controller(Generic[RequestT]):
    """Runs a reconciler for what its sources report.

    ``start`` first starts all sources and waits until each has delivered its initial list, then
    runs ``settings.workers`` reconciles at a time, never two for one request. It returns only by
    an exception or when cancelled, after every run in progress has ended.
    """

    def __init__(
        self,
        name: str,
        reconciler: Reconciler[RequestT] | BlockingReconciler[RequestT],
        *,
        settings: Settings | None = None,
        kind: GroupKind | None = None,
        sources: Iterable[Source] = (),
        metrics: ControllerMetrics | None = None,
        logger: FilteringBoundLogger | None = None,
        tracing: Tracing | None = None,
        pace: LoopYielder | None = None,
        permissions: Iterable[Permission] = (),
        primary: KindRef | None = None,
        queue: PriorityQueue[RequestT] | None = None,
        clusters: Parts | None = None,
        gate: SlotGate[RequestT] | None = None,
        timer: ObjectTimer | None = None,
        daemons: ObjectDaemons | None = None,
    ) -> None:
        """`clusters`: its parts in engaged clusters, for a controller that selects any. `gate`: of a sharded one. `daemons` end with it."""
        if not name:
            raise ValueError("a controller needs a name")
        if not isinstance(reconciler, Reconciler):
            raise TypeError(f"controller {name!r} needs a reconciler: {reconciler!r} is none")
        check_reconciler(reconciler)
        self.name = name
        self.primary = primary
        """The kind whose objects it reconciles, as it was given to the builder."""
        self.settings = settings if settings is not None else ControllerOptions().settings()
        metrics = metrics if metrics is not None else NoMetrics()
        tracing = tracing if tracing is not None else Tracing()
        base = logger if logger is not None else structlog.get_logger()
        bound = {"controller": name}
        if kind is not None:
            bound |= {"controllerGroup": kind.group, "controllerKind": kind.kind}
        self.logger: FilteringBoundLogger = base.bind(**bound)
        self.queue: PriorityQueue[RequestT] = (
            queue
            if queue is not None
            else PriorityQueue(
                limiter=self.settings.limiter(), ageing=self.settings.ageing, observer=metrics
            )
        )
        self._gate = self.queue.gate = gate
        self._clusters = clusters
        self._permissions = tuple(permissions)
        self._pace = pace if pace is not None else LoopYielder()
        self._intake = EventDispatcher(self.queue, self.logger, tracing, metrics)
        self._daemons = daemons
        self._worker = self._new_worker(kind, as_asynchronous(reconciler), metrics, tracing, timer)
        self._pending: list[Source] = list(sources)
        self._sources: list[Source] = []
        self._syncing: asyncio.Task[None] | None = None
        self._watching: dict[asyncio.Task[None], None] = {}  # in the order they began
        self._started = self._closed = False
        self._running: asyncio.Task[None] | None = None
        self._working = False
        self._shutting_down = False

    def __repr__(self) -> str:
        return f"Controller({self.name!r})"

    def _new_worker(
        self,
        kind: GroupKind | None,
        reconciler: Reconciler[RequestT],
        metrics: ControllerMetrics,
        tracing: Tracing,
        timer: ObjectTimer | None,
    ) -> Worker:
        return Worker(
            self.name,
            kind,
            reconciler,
            self.queue,
            self.settings,
            metrics,
            self.logger,
            tracing,
            slot_of=None if self._gate is None else self._gate.slot_of,
            timer=timer,
        )

    @property
    def needs_leader_election(self) -> bool:
        """Read by the manager."""
        return self.settings.needs_leader_election

    @property
    def needs_warmup(self) -> bool:
        """Read by the manager: whether :meth:`warmup` is to run before the election."""
        return self.settings.enable_warmup

    @property
    def starting(self) -> bool:
        """Whether it was started and its workers were not, or a source was added that has not started."""
        return (self._started and not self._working and not self._closed) or bool(self._watching)

    @property
    def busy(self) -> bool:
        """Whether requests are ready or being reconciled, or work of event handlers runs; delayed requests aside."""
        queue = self.queue
        return bool(len(queue) or queue.core.processing or self._intake.deferred.busy)

    def ready_in(self) -> float | None:
        """Return the seconds until the next delayed request is ready; None if none is delayed."""
        delays = (self.queue.ready_in(), self._intake.deferred.ready_in())
        return min((each for each in delays if each is not None), default=None)

    def by_cluster(self) -> dict[str, Controller[Any]]:
        """Return this controller under "", and its parts in engaged clusters under their names."""
        parts = {} if self._clusters is None else self._clusters.parts()
        return {"": self, **parts}

    def permissions(self) -> tuple[Permission, ...]:
        """Return what the declared watches need: ``(group, plural, verbs)``, for generating RBAC."""
        return self._permissions

    def engage(self, cluster: Cluster) -> None:
        """Watch in a cluster what was declared for it, with a queue and workers of its own there.

        Called by the manager; does nothing if the controller does not select the cluster. Raises what
        declaring its kinds raises.
        """
        if self._clusters is not None:
            self._clusters.engage(cluster)

    async def disengage(self, cluster: str, grace: float | None = None) -> None:
        """Drop the requests of a cluster; reconciles in progress are cancelled after ``grace`` seconds."""
        if self._clusters is not None:
            await self._clusters.disengage(cluster, grace)

    def expect_slots(self, slots: frozenset[int]) -> None:
        """Keep requests of slots that come, in every cluster. A controller that is not sharded does nothing."""
        for each in self.by_cluster().values():
            if each._gate is not None:
                each._gate.expect(slots)

    def begin_slots(self, slots: frozenset[int]) -> None:
        """Queue what was kept of slots that are held now."""
        for each in self.by_cluster().values():
            if each._gate is not None:
                each._gate.begin(slots, each.queue)

    async def release_slots(self, slots: frozenset[int]) -> None:
        """Take no more requests of slots, drop those that are queued, and wait for passes and daemons to end."""
        await asyncio.gather(*(each._release(slots) for each in self.by_cluster().values()))

    async def _release(self, slots: frozenset[int]) -> None:
        gate = self._gate
        if gate is None:
            return
        await gate.release(slots, self.queue)
        if self._daemons is not None:
            of: SlotOf = gate.slot_of
            await self._daemons.end(lambda request: of(request) in slots)

    def watch(self, source: Source) -> None:
        """Add a source: it starts with the controller, or at once if that is running.

        For kinds that are known only while it runs: keep the source, and :meth:`unwatch` it when its events are
        no longer needed. A source added to a running controller that fails to start is logged; the controller
        goes on. Raises RuntimeError when the controller has stopped.

            source = KindSource(manager.cache, "apps/v1/StatefulSet", enqueue_owner(Website))
            controller.watch(source)
        """
        if self._closed:
            raise RuntimeError(f"controller {self.name!r} has stopped: it takes no more sources")
        if self._syncing is None:
            self._pending.append(source)
            return
        self._sources.append(source)
        task = asyncio.create_task(self._start_late(source), name=f"{self.name}: {source}")
        self._watching[task] = None
        task.add_done_callback(self._watching.pop)

    async def unwatch(self, source: Source) -> None:
        """Stop and forget a source that :meth:`watch` or the builder added; what it has enqueued still runs.

        Its informer is released, and ends with its last use. One that is not watched is ignored.
        """
        for sources in (self._pending, self._sources):
            if source in sources:
                sources.remove(source)
                await source.stop()

    async def warmup(self) -> None:
        """Start the sources, so that the queue fills, without reconciling. Runs until cancelled."""
        try:
            await self._sync()
            await asyncio.Event().wait()
        finally:
            if not self._started:
                await self._close()

    async def start(self) -> None:
        """Run the controller.

        Raises RuntimeError when called twice, SourceSyncTimeout, or what a source raised when it started.
        """
        if self._started:
            raise RuntimeError(
                f"controller {self.name!r} was started more than once; make a new one instead"
            )
        self._started = True
        self._running = asyncio.current_task()
        try:
            self.logger.info("Starting controller", workers=self.settings.workers)
            if not self._shutting_down:
                await self._sync()
                await self._work()
        finally:
            await self._close()
            self.logger.info("Controller stopped")

    def shutdown(self) -> None:
        """Start no further reconcile; :meth:`start` returns when those in progress have ended.

        What is queued is dropped. A controller that has not started its workers is cancelled.
        """
        self._shutting_down = True
        if self._working:
            self.queue.shutdown()
            if self._clusters is not None:
                self._clusters.shutdown()
        elif self._running is not None:
            self._running.cancel()

    async def _sync(self) -> None:
        """Start the sources once, on the first call; all callers see the same outcome."""
        if self._syncing is None:
            self._sources, self._pending = self._pending, []
            starts = [self._start_source(source) for source in self._sources]
            self._syncing = asyncio.create_task(all_to_end(starts), name=f"{self.name}: sources")
        await asyncio.shield(self._syncing)

    async def _start_source(self, source: Source) -> None:
        timeout = self.settings.cache_sync_timeout
        self.logger.debug("Starting source", source=str(source))
        scope = asyncio.timeout(timeout)
        starting = True
        try:
            async with scope:
                await source.start(self._intake)
                starting = False
                await source.wait_synced()
        except TimeoutError as error:
            if not scope.expired():
                raise
            if starting:
                raise SourceSyncTimeout(
                    f"controller {self.name!r}: timed out after {timeout:g} s waiting for {source} "
                    "to start; its start() must return without blocking"
                ) from error
            raise SourceSyncTimeout(
                f"controller {self.name!r}: timed out after {timeout:g} s waiting for {source} to "
                f"sync; {_reason(source)}"
            ) from error

    async def _start_late(self, source: Source) -> None:
        try:
            await source.start(self._intake)
        except Exception:
            self.logger.exception("Source failed to start", source=str(source))

    async def _work(self) -> None:
        self.logger.info("Starting workers", workers=self.settings.workers)
        self._working = True
        jobs: list[Awaitable[None]] = [self._serve() for _ in range(self.settings.workers)]
        if self._clusters is not None:
            jobs.append(self._clusters.run())
        await all_to_end(jobs)

    async def _serve(self) -> None:
        task = asyncio.current_task()
        while task is None or not task.cancelling():  # a reconciler may have swallowed it
            try:
                item = await self.queue.get()
            except QueueShutDown:
                return
            if self._shutting_down:
                return
            try:
                await self._pace.wait_turn()
                if self._shutting_down:
                    return
                await self._worker.process(item)
            finally:
                self.queue.done(item.request)
            if self._pace.used_up:
                await self._pace.maybe_yield()

    async def _close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._worker.close()
        self.queue.shutdown()
        if self._daemons is not None:
            await self._daemons.end()
        tasks = [*self._watching, *([self._syncing] if self._syncing is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._intake.close()
        stopped = await asyncio.gather(
            *(source.stop() for source in self._sources), return_exceptions=True
        )
        for source, error in zip(self._sources, stopped, strict=True):
            if isinstance(error, Exception):
                self.logger.error("Source failed to stop", source=str(source), error=str(error))


def _reason(source: Source) -> str:
    """Return why a source does not sync, as far as it is known."""
    reason = getattr(source, "unsynced_reason", "")
    return reason or "does the server have this kind, and may this user list and watch it?"
