"""A controller: sources fill its queue, workers empty it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any

import structlog
from structlog.typing import FilteringBoundLogger

from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.controller.intake import Intake
from ctrlruntime.controller.metrics import ControllerMetrics, NoMetrics
from ctrlruntime.controller.options import ControllerOptions, Settings
from ctrlruntime.controller.pace import Pace
from ctrlruntime.controller.permissions import Permission
from ctrlruntime.controller.reconcile import Reconciler
from ctrlruntime.controller.sources import Source
from ctrlruntime.controller.worker import Worker
from ctrlruntime.queue import PriorityQueue, QueueShutDown
from ctrlruntime.tracing import Tracing


class SourceSyncTimeout(TimeoutError):
    """A source did not start or sync within the controller's cache sync timeout."""


class Controller:
    """Runs a reconciler for what its sources report.

    ``start`` first starts all sources and waits until each has delivered its initial list, then
    runs ``settings.workers`` reconciles at a time, never two for one request. It returns only by
    an exception or when cancelled, after every run in progress has ended.
    """

    def __init__(
        self,
        name: str,
        reconciler: Reconciler,
        *,
        settings: Settings | None = None,
        kind: GroupKind | None = None,
        sources: Iterable[Source] = (),
        metrics: ControllerMetrics | None = None,
        logger: FilteringBoundLogger | None = None,
        tracing: Tracing | None = None,
        pace: Pace | None = None,
        permissions: Iterable[Permission] = (),
    ) -> None:
        if not name:
            raise ValueError("a controller needs a name")
        if not isinstance(reconciler, Reconciler):
            raise TypeError(f"controller {name!r} needs a reconciler: {reconciler!r} is none")
        self.name = name
        self.settings = settings if settings is not None else ControllerOptions().settings()
        metrics = metrics if metrics is not None else NoMetrics()
        tracing = tracing if tracing is not None else Tracing()
        base = logger if logger is not None else structlog.get_logger()
        bound = {"controller": name}
        if kind is not None:
            bound |= {"controllerGroup": kind.group, "controllerKind": kind.kind}
        self.logger: FilteringBoundLogger = base.bind(**bound)
        self.queue = PriorityQueue(
            limiter=self.settings.limiter(), ageing=self.settings.ageing, observer=metrics
        )
        self._permissions = tuple(permissions)
        self._pace = pace if pace is not None else Pace()
        self._intake = Intake(self.queue, self.logger, tracing)
        self._worker = Worker(
            name, kind, reconciler, self.queue, self.settings, metrics, self.logger, tracing
        )
        self._pending: list[Source] = list(sources)
        self._sources: list[Source] = []
        self._syncing: asyncio.Task[None] | None = None
        self._watching: set[asyncio.Task[None]] = set()
        self._started = False
        self._closed = False

    def __repr__(self) -> str:
        return f"Controller({self.name!r})"

    @property
    def needs_leader_election(self) -> bool:
        """Read by the manager."""
        return self.settings.needs_leader_election

    @property
    def needs_warmup(self) -> bool:
        """Read by the manager: whether :meth:`warmup` is to run before the election."""
        return self.settings.enable_warmup

    def permissions(self) -> tuple[Permission, ...]:
        """What the declared watches need: ``(group, plural, verbs)``, for generating RBAC."""
        return self._permissions

    def watch(self, source: Source) -> None:
        """Adds a source: it starts with the controller, or at once if that is running.

        A source added to a running controller that fails to start is logged; the controller goes on.
        """
        if self._closed:
            raise RuntimeError(f"controller {self.name!r} has stopped: it takes no more sources")
        if self._syncing is None:
            self._pending.append(source)
            return
        self._sources.append(source)
        task = asyncio.create_task(self._start_late(source), name=f"{self.name}: {source}")
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)

    async def unwatch(self, source: Source) -> None:
        """Stops and forgets a source. One that is not watched is ignored."""
        for sources in (self._pending, self._sources):
            if source in sources:
                sources.remove(source)
                await source.stop()

    async def warmup(self) -> None:
        """Starts the sources, so that the queue fills, without reconciling. Runs until cancelled."""
        try:
            await self._sync()
            await asyncio.Event().wait()
        finally:
            if not self._started:
                await self._close()

    async def start(self) -> None:
        """Runs the controller. Raises RuntimeError when called twice, SourceSyncTimeout, or what a
        source raised when it started."""
        if self._started:
            raise RuntimeError(
                f"controller {self.name!r} was started more than once; make a new one instead"
            )
        self._started = True
        try:
            self.logger.info("Starting controller", workers=self.settings.workers)
            await self._sync()
            await self._work()
        finally:
            await self._close()
            self.logger.info("Controller stopped")

    async def _sync(self) -> None:
        """Starts the sources once, whoever asks first; all callers see the same outcome."""
        if self._syncing is None:
            self._sources, self._pending = self._pending, []
            starts = [self._start_source(source) for source in self._sources]
            self._syncing = asyncio.create_task(_all(starts), name=f"{self.name}: sources")
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
                "sync; does the server have this kind, and may this user list and watch it?"
            ) from error

    async def _start_late(self, source: Source) -> None:
        try:
            await source.start(self._intake)
        except Exception:
            self.logger.exception("Source failed to start", source=str(source))

    async def _work(self) -> None:
        self.logger.info("Starting workers", workers=self.settings.workers)
        await _all(self._serve() for _ in range(self.settings.workers))

    async def _serve(self) -> None:
        task = asyncio.current_task()
        while task is None or not task.cancelling():  # a reconciler may have swallowed it
            try:
                item = await self.queue.get()
            except QueueShutDown:
                return
            try:
                await self._worker.process(item)
            finally:
                self.queue.done(item.request)
            await self._pace.breathe()

    async def _close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.queue.shutdown()
        tasks = [*self._watching, *([self._syncing] if self._syncing is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        stopped = await asyncio.gather(
            *(source.stop() for source in self._sources), return_exceptions=True
        )
        for source, error in zip(self._sources, stopped, strict=True):
            if isinstance(error, Exception):
                self.logger.error("Source failed to stop", source=str(source), error=str(error))


async def _all(jobs: Iterable[Awaitable[Any]]) -> None:
    """Runs all; the first exception cancels the others, which are awaited, and is raised as it is."""
    tasks = [asyncio.ensure_future(job) for job in jobs]
    if not tasks:
        return
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
