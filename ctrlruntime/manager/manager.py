"""The manager: one process's client, cache, controllers, servers and leadership."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import structlog
from structlog.typing import FilteringBoundLogger

from ctrlruntime.cache.cache import Cache, CacheOptions
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.fence import Fence
from ctrlruntime.controller.controller import Controller
from ctrlruntime.controller.options import ControllerOptions
from ctrlruntime.controller.pace import Pace
from ctrlruntime.controller.permissions import Permission, combine
from ctrlruntime.events.recorder import EVENT, DropReason, EventRecorder
from ctrlruntime.manager.endpoints import Endpoints, Handler
from ctrlruntime.manager.health import Check
from ctrlruntime.manager.leadership import Leadership
from ctrlruntime.manager.lease import LEASE
from ctrlruntime.manager.logs import make_logger
from ctrlruntime.manager.metrics import Metrics
from ctrlruntime.manager.options import ManagerOptions, check_election
from ctrlruntime.manager.runnables import Group, Runnable, RunnableGroup, group_of
from ctrlruntime.manager.signals import stop_on_signals
from ctrlruntime.manager.tracing import request_spans
from ctrlruntime.manager.watchdog import GCDiscipline, LoopWatchdog
from ctrlruntime.manager.webhooks import Webhooks
from ctrlruntime.tracing import Tracing

STOP_ORDER = (
    (Group.WARMUP, Group.OTHERS),
    (Group.LEADER_ELECTION,),
    (Group.CACHES,),
    (Group.WEBHOOKS,),
    (Group.HTTP_SERVERS,),
)

FLUSH = 5.0
"""Seconds for events recorded during the shutdown."""
LEADER_FLUSH = 1.0
"""The same for a leader, whose successor waits."""
LOST_FLUSH = 0.5
"""The same when leadership is lost and the process has to go."""


class GracePeriodExceeded(TimeoutError):
    """Runnables had not ended when the graceful shutdown timeout was over."""


class CacheRunnable:
    """A cluster's cache in the group of caches: everything later waits for its first lists."""

    runnable_group = Group.CACHES
    needs_leader_election = False

    def __init__(self, cache: Cache, name: str = "") -> None:
        self.cache = cache
        self._name = name

    def __repr__(self) -> str:
        return f"CacheRunnable({self._name!r})"

    async def start(self) -> None:
        await self.cache.run()

    async def wait_ready(self) -> None:
        await self.cache.wait_synced(None)


class Manager:
    """Owns what controllers share, and starts and stops everything in order.

    Ports are bound, and options checked, when it is made; nothing is sent before :meth:`start`.
    Make it on the event loop it will run on.

    ``client`` reads from the cache and its writes show there at once; ``live_client`` bypasses the
    cache altogether. ``webhooks`` takes what is to be served to the API server. ``elected`` is set
    once this process leads, or at once without an election. Logs go to ``logger``, by default where
    ``structlog`` was configured to write, else as JSON to standard error.
    """

    def __init__(
        self,
        config: Config,
        options: ManagerOptions | None = None,
        *,
        logger: FilteringBoundLogger | None = None,
        cache_options: CacheOptions | None = None,
    ) -> None:
        if config is None:
            raise ValueError("a manager needs a Config: Config.load() finds one")
        self.config = config
        self.options = options if options is not None else ManagerOptions()
        check_election(self.options)
        self.logger: FilteringBoundLogger = logger if logger is not None else _default_logger()
        self.tracing = Tracing(self.options.tracer_provider)
        self.metrics = Metrics()
        self.pace = Pace()
        self.elected = asyncio.Event()
        self._endpoints = Endpoints(self.options, self.metrics, self.logger, self._connect)
        self._make_clients(cache_options)
        self._names: set[str] = set()
        self._controllers: list[Controller] = []
        self._groups = {group: RunnableGroup(group, self._fail, self.logger) for group in Group}
        self._gc = GCDiscipline(
            self.options.gc,
            lambda generation, seconds: self.metrics.gc_pause.labels(generation).observe(seconds),
        )
        self._stop = asyncio.Event()
        self._error: Exception | None = None
        self._stopping = False
        self._started = False
        self.webhooks = Webhooks(self.options.webhook, self.metrics, self.logger, self._connect)
        self.add(self.webhooks)
        self.add(CacheRunnable(self.cache))
        self.add(LoopWatchdog(self.metrics.loop_stall.observe, self.logger))
        self._endpoints.readiness.add("caches", lambda: self.cache.synced)
        self._leadership = self._make_leadership() if self.options.leader_election else None

    # -- what controllers and programs use ---------------------------------------------------

    @property
    def controller_defaults(self) -> ControllerOptions:
        return self.options.controller

    @property
    def controller_metrics(self) -> Metrics:
        return self.metrics

    @property
    def metrics_port(self) -> int | None:
        """The port ``/metrics`` is served on; None if it is off."""
        return self._endpoints.port("metrics")

    @property
    def health_port(self) -> int | None:
        """The port of the health endpoints; None if they are off."""
        return self._endpoints.port("health")

    @property
    def diagnostics_port(self) -> int | None:
        return self._endpoints.port("diagnostics")

    def claim_controller_name(self, name: str) -> None:
        """Raises ValueError if a controller of this name exists: their metrics would mix."""
        if name in self._names:
            raise ValueError(
                f"there is a controller {name!r} already: names must be unique, as they label "
                "metrics; name it with named(), or set skip_name_validation"
            )
        self._names.add(name)

    def add(self, runnable: Runnable) -> None:
        """Adds a runnable to its group; starts it at once if that group runs.

        Raises StoppingError when the manager is stopping.
        """
        if getattr(runnable, "needs_warmup", False):
            warmup: Callable[[], Awaitable[None]] = runnable.warmup  # type: ignore[attr-defined]
            self._groups[Group.WARMUP].add(runnable, warmup)
        self._groups[group_of(runnable)].add(runnable)
        if isinstance(runnable, Controller):
            self._controllers.append(runnable)

    def permissions(self) -> tuple[Permission, ...]:
        """What the controllers added so far declare, and what events and the election need."""
        needed: list[Permission] = [(EVENT.group, "events", ("create", "patch"))]
        if self.options.leader_election:
            needed.append((LEASE.group, "leases", ("create", "get", "update", "watch")))
        for controller in self._controllers:
            needed += controller.permissions()
        return combine(needed)

    def add_cluster(self, name: str, cache: Cache) -> None:
        """Adds the cache of a further cluster: it is synced before any controller starts.

        Sources on it take ``cluster=name``, and requests carry that name.
        """
        if not name:
            raise ValueError("a further cluster needs a name: the empty one is the manager's own")
        self.add(CacheRunnable(cache, name))

    def add_healthz_check(self, name: str, check: Check) -> None:
        """Adds a named check to the liveness endpoint, before the start."""
        self._before_start("health checks")
        self._endpoints.health.add(name, check)

    def add_readyz_check(self, name: str, check: Check) -> None:
        """Adds a named check to the readiness endpoint, before the start."""
        self._before_start("readiness checks")
        self._endpoints.readiness.add(name, check)

    def add_metrics_handler(self, path: str, handler: Handler) -> None:
        """Serves ``path`` next to ``/metrics``, which it cannot replace."""
        self._before_start("metrics handlers")
        self._endpoints.add_metrics_handler(path, handler)

    def fence(self) -> None:
        """Raises LeaderElectionLost once this process led and is no longer sure that it does.

        The manager's clients ask it about every write. Clients of further clusters should too:
        ``Client.connect(config, fence=manager.fence)``.
        """
        if self._leadership is not None:
            self._leadership.fence()

    def stop(self) -> None:
        """Asks a running manager to stop; :meth:`start` then returns."""
        self._stop.set()

    def close(self) -> None:
        """Gives back the ports of a manager that is never started."""
        self._endpoints.close()

    async def start(self) -> None:
        """Runs until cancelled or stopped, or until a runnable fails, whose error it raises.

        Raises LeaderElectionLost when the lease is lost, GracePeriodExceeded (with the first error
        as its cause) when runnables do not end in time, RuntimeError when called twice.
        """
        if self._started:
            raise RuntimeError("the manager was started already; make a new one instead")
        self._started = True
        signals = (
            stop_on_signals(self.stop) if self.options.handle_signals else contextlib.nullcontext()
        )
        with signals:
            starting = asyncio.create_task(self._start_groups(), name="manager start")
            cancelled: asyncio.CancelledError | None = None
            try:
                await self._stop.wait()
            except asyncio.CancelledError as error:
                cancelled = error
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            await self._shut_down()
        if self._error is not None:
            raise self._error
        if cancelled is not None:
            raise cancelled

    # -- starting ----------------------------------------------------------------------------

    async def _start_groups(self) -> None:
        try:
            if self.webhooks.enabled:
                self._endpoints.readiness.add("webhooks", self.webhooks.check)
            for server in self._endpoints.servers():
                self.add(server)
            await self._groups[Group.HTTP_SERVERS].start()
            await self._groups[Group.WEBHOOKS].start()
            self._gc.before_caches()
            await self._groups[Group.CACHES].start()
            self._gc.after_caches()
            await self._groups[Group.OTHERS].start()
            await self._groups[Group.WARMUP].start()
            if self._leadership is not None:
                self._leadership.start()
            else:
                await self._lead()
        except Exception as error:  # noqa: BLE001 - it is raised by start() after an orderly stop
            self._fail(error)

    async def _lead(self) -> None:
        await self._groups[Group.LEADER_ELECTION].start()
        self.elected.set()

    # -- stopping ----------------------------------------------------------------------------

    async def _shut_down(self) -> None:
        self._stopping = True
        self.logger.info("Stopping")
        lost = self._leadership is not None and self._leadership.lost
        timeout = 0.0 if lost else self.options.graceful_shutdown_timeout
        ended = await self._stop_groups(timeout)
        if self._leadership is None:
            await self.recorder.stop(FLUSH)
        else:  # the lease is held until nothing needs it any more, events included
            self._leadership.step_down()
            await self.recorder.stop(LOST_FLUSH if lost else LEADER_FLUSH)
            await self._leadership.end(release=ended)
        self._gc.end()
        self.close()
        await self.live_client.close()
        await self._event_client.close()
        if not ended and timeout > 0:
            running = [name for group in self._groups.values() for name in group.running]
            first, self._error = (
                self._error,
                GracePeriodExceeded(
                    "failed waiting for all runnables to end within grace period of "
                    f"{timeout:g} s; still running: {', '.join(running)}"
                ),
            )
            self._error.__cause__ = first
        self.logger.info("Stopped")

    async def _stop_groups(self, timeout: float) -> bool:
        """True if everything ended within ``timeout`` seconds."""
        try:
            async with asyncio.timeout(timeout if timeout >= 0 else None):
                for groups in STOP_ORDER:
                    for group in groups:
                        self._groups[group].cancel()
                    for group in groups:
                        await self._groups[group].wait()
        except TimeoutError:
            for runnables in self._groups.values():
                runnables.cancel()
            return False
        return True

    def _fail(self, error: Exception) -> None:
        if self._stopping or self._error is not None:
            self.logger.error("Error while stopping", error=repr(error))
            return
        self.logger.error("Stopping because of an error", error=repr(error), exc_info=error)
        self._error = error
        self._stop.set()

    # -- parts -------------------------------------------------------------------------------

    def _make_clients(self, cache_options: CacheOptions | None) -> None:
        self.live_client = self._connect(self.fence)
        self._event_client = self._connect(self._event_fence)
        if cache_options is None:
            cache_options = CacheOptions(namespaces=self.options.namespaces)
        self.cache = Cache(self.live_client, cache_options, self.metrics.informers)
        self.client = self.cache.client()
        self.metrics.before_render(lambda: self.metrics.informers.show(self.cache.stats()))
        self.recorder = EventRecorder(
            self._event_client,
            self.options.name,
            options=self.options.events,
            metrics=_EventDrops(self.metrics),
            logger=self.logger,
        )

    def _connect(self, fence: Fence | None = None) -> Client:
        client = Client.connect(
            self.config,
            observer=self.metrics.requests,
            fence=fence if self.options.leader_election else None,
        )
        return client.intercepted(request_spans(self.tracing)) if self.tracing.enabled else client

    def _event_fence(self) -> None:
        if self._leadership is not None:
            self._leadership.event_fence()

    def _make_leadership(self) -> Leadership:
        leadership = Leadership(
            self.config,
            self.options,
            self.metrics,
            self.recorder,
            self.logger,
            self._lead,
            self._fail,
        )
        self._endpoints.health.add("leader-election", leadership.check)
        return leadership

    def _before_start(self, what: str) -> None:
        if self._started:
            raise RuntimeError(f"{what} cannot be added after the manager was started")


class _EventDrops:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def dropped(self, reason: DropReason) -> None:
        self._metrics.events_dropped.labels(reason).inc()


def _default_logger() -> FilteringBoundLogger:
    if structlog.is_configured():
        configured: FilteringBoundLogger = structlog.get_logger()
        return configured
    return make_logger()
