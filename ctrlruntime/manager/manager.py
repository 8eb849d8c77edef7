"""The manager: one process's client, cache, controllers, servers and leadership."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from aiohttp import web
from structlog.typing import FilteringBoundLogger

from ctrlruntime.cache.cache import Cache, CacheOptions
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.controller.controller import Controller
from ctrlruntime.controller.options import ControllerOptions
from ctrlruntime.controller.pace import Pace
from ctrlruntime.controller.permissions import Permission, combine
from ctrlruntime.events.recorder import EVENT, DropReason, EventRecorder
from ctrlruntime.manager import diagnostics
from ctrlruntime.manager.election import LeaderElector, default_identity
from ctrlruntime.manager.health import Check, Checks
from ctrlruntime.manager.http import HTTPServer, listen
from ctrlruntime.manager.lease import LEASE, LeaseLock
from ctrlruntime.manager.logs import make_logger
from ctrlruntime.manager.metrics import Metrics
from ctrlruntime.manager.options import ManagerOptions, check_election, lease_namespace
from ctrlruntime.manager.runnables import Group, Runnable, RunnableGroup, group_of
from ctrlruntime.manager.signals import stop_on_signals
from ctrlruntime.manager.tracing import request_spans
from ctrlruntime.manager.watchdog import GCDiscipline, LoopWatchdog
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
LOST_FLUSH = 0.5
"""The same when leadership is lost and the process has to go."""


class LeaderElectionLost(RuntimeError):
    """The lease could not be renewed. The process must exit: another leader may be at work."""

    def __init__(self) -> None:
        super().__init__("leader election lost")


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

    ``client`` reads live and its writes show in the cache at once; ``live_client`` bypasses the
    cache altogether. ``elected`` is set once this process leads, or at once without an election.
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
        self.logger: FilteringBoundLogger = logger if logger is not None else make_logger()
        self.tracing = Tracing(self.options.tracer_provider)
        self.metrics = Metrics()
        self.pace = Pace()
        self.elected = asyncio.Event()
        self.live_client = self._connect()
        self.cache = Cache(
            self.live_client,
            cache_options if cache_options is not None else self._cache_options(),
            self.metrics.informers,
        )
        self.client = self.cache.client()
        self.metrics.before_render(lambda: self.metrics.informers.show(self.cache.stats()))
        self.recorder = EventRecorder(
            self.live_client,
            self.options.name,
            options=self.options.events,
            metrics=_EventDrops(self.metrics),
            logger=self.logger,
        )
        self.health = Checks(self.options.liveness_path, self.logger)
        self.readiness = Checks(self.options.readiness_path, self.logger)
        self._names: set[str] = set()
        self._controllers: list[Controller] = []
        self._groups = {
            group: RunnableGroup(group, self._runnable_failed, self.logger) for group in Group
        }
        self._gc = GCDiscipline(
            self.options.gc,
            lambda generation, s: self.metrics.gc_pause.labels(generation).observe(s),
        )
        self._metrics_routes: list[web.AbstractRouteDef] = []
        self._stop = asyncio.Event()
        self._error: Exception | None = None
        self._lease_lost = False
        self._stopping = False
        self._started = False
        self._elector: LeaderElector | None = None
        self._election_client: Client | None = None
        self._election: asyncio.Task[None] | None = None
        self._leading: asyncio.Task[None] | None = None
        self._servers = self._bind()
        self.add(CacheRunnable(self.cache))
        self.add(LoopWatchdog(self.metrics.loop_stall.observe, self.logger))
        self.readiness.add("caches", self._caches_ready)
        if self.options.leader_election:
            self.health.add("leader-election", self._check_election)

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
        return self._port("metrics")

    @property
    def health_port(self) -> int | None:
        """The port of the health endpoints; None if they are off."""
        return self._port("health")

    @property
    def diagnostics_port(self) -> int | None:
        return self._port("diagnostics")

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
            needed.append((LEASE.group, "leases", ("create", "get", "update")))
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
        self._before_start("health checks")
        self.health.add(name, check)

    def add_readyz_check(self, name: str, check: Check) -> None:
        self._before_start("readiness checks")
        self.readiness.add(name, check)

    def add_metrics_handler(
        self, path: str, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> None:
        """Serves ``path`` next to ``/metrics``, which it cannot replace."""
        self._before_start("metrics handlers")
        if path.rstrip("/") == "/metrics":
            raise ValueError("/metrics cannot be replaced")
        self._metrics_routes.append(web.get(path, handler))

    def stop(self) -> None:
        """Asks a running manager to stop; :meth:`start` then returns."""
        self._stop.set()

    def close(self) -> None:
        """Gives back the ports of a manager that is never started."""
        for server in self._servers.values():
            server.close()

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

    # -- starting --------------------------------------------------------------------------------

    async def _start_groups(self) -> None:
        try:
            self._add_servers()
            await self._groups[Group.HTTP_SERVERS].start()
            await self._groups[Group.WEBHOOKS].start()
            self._gc.before_caches()
            await self._groups[Group.CACHES].start()
            self._gc.after_caches()
            await self._groups[Group.OTHERS].start()
            await self._groups[Group.WARMUP].start()
            if self.options.leader_election:
                self._election = asyncio.create_task(self._elect(), name="leader election")
            else:
                await self._lead()
        except Exception as error:  # noqa: BLE001 - it is raised by start() after an orderly stop
            self._fail(error)

    async def _elect(self) -> None:
        options = self.options
        namespace = lease_namespace(options)
        self._election_client = self._connect(intercept=False)
        lock = LeaseLock(
            self._election_client,
            options.leader_election_id,
            namespace,
            options.leader_election_labels,
        )
        self._elector = LeaderElector(
            lock,
            options.leader_election_identity or default_identity(),
            options.election,
            _Leadership(self, lock),
            self.logger,
            metrics=_LeaderGauge(self.metrics, options.leader_election_id),
        )
        try:
            await self._elector.run()
        except Exception as error:  # noqa: BLE001 - nothing but a mistake of ours gets here
            self._fail(error)
        else:
            self._lease_lost = True
            self._fail(LeaderElectionLost())

    def _start_leading(self) -> None:
        self._leading = asyncio.create_task(self._lead(), name="leader start")

    async def _lead(self) -> None:
        await self._groups[Group.LEADER_ELECTION].start()
        self.elected.set()

    def _add_servers(self) -> None:
        routes: dict[str, web.Application] = {
            name: server.app for name, server in self._servers.items()
        }
        if "metrics" in routes:
            routes["metrics"].add_routes([web.get("/metrics", self._serve_metrics)])
            routes["metrics"].add_routes(self._metrics_routes)
        if "health" in routes:
            routes["health"].add_routes([*self.health.routes(), *self.readiness.routes()])
        for server in self._servers.values():
            self.add(server)

    # -- stopping --------------------------------------------------------------------------------

    async def _shut_down(self) -> None:
        self._stopping = True
        self.logger.info("Stopping")
        timeout = 0.0 if self._lease_lost else self.options.graceful_shutdown_timeout
        ended = await self._stop_groups(timeout)
        await self._end_election(release=ended)
        await self.recorder.stop(LOST_FLUSH if self._lease_lost else FLUSH)
        self._gc.end()
        self.close()
        await self.live_client.close()
        if not ended and timeout > 0:
            first = self._error
            self._error = GracePeriodExceeded(
                "failed waiting for all runnables to end within grace period of "
                f"{timeout:g} s; still running: {', '.join(self._running())}"
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

    async def _end_election(self, *, release: bool) -> None:
        """The lease is held until nothing needs it any more."""
        if self._leading is not None:
            self._leading.cancel()
        if self._election is not None:
            if not release and self._elector is not None:
                self._elector.keep()
            self._election.cancel()
        tasks = [task for task in (self._leading, self._election) if task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._election_client is not None:
            await self._election_client.close()

    def _running(self) -> list[str]:
        return [name for group in self._groups.values() for name in group.running]

    def _runnable_failed(self, error: Exception) -> None:
        self._fail(error)

    def _fail(self, error: Exception) -> None:
        if self._stopping or self._error is not None:
            self.logger.error("Error while stopping", error=repr(error))
            return
        self.logger.error("Stopping because of an error", error=repr(error), exc_info=error)
        self._error = error
        self._stop.set()

    # -- parts -------------------------------------------------------------------------------------

    def _connect(self, *, intercept: bool = True) -> Client:
        client = Client.connect(self.config, observer=self.metrics.requests)
        if intercept and self.tracing.enabled:
            return client.intercepted(request_spans(self.tracing))
        return client

    def _cache_options(self) -> CacheOptions:
        return CacheOptions(namespaces=self.options.namespaces)

    def _bind(self) -> dict[str, HTTPServer]:
        addresses = {
            "metrics": (self.options.metrics_bind_address, web.Application()),
            "health": (self.options.health_bind_address, web.Application()),
            "diagnostics": (self.options.diagnostics_bind_address, diagnostics.application()),
        }
        servers: dict[str, HTTPServer] = {}
        try:
            for name, (address, app) in addresses.items():
                listener = listen(address, f"the {name} endpoint")
                if listener is not None:
                    servers[name] = HTTPServer(name, app, listener)
        except Exception:
            for server in servers.values():
                server.close()
            raise
        return servers

    def _port(self, name: str) -> int | None:
        server = self._servers.get(name)
        return server.port if server is not None else None

    def _before_start(self, what: str) -> None:
        if self._started:
            raise RuntimeError(f"{what} cannot be added after the manager was started")

    def _caches_ready(self) -> bool:
        return self.cache.synced

    def _check_election(self) -> None:
        if self._elector is not None:
            self._elector.check()

    async def _serve_metrics(self, _request: web.Request) -> web.Response:
        body, content_type = await self.metrics.scrape()
        return web.Response(body=body, headers={"Content-Type": content_type})


class _Leadership:
    """The manager's side of an election."""

    def __init__(self, manager: Manager, lock: LeaseLock) -> None:
        self._manager = manager
        self._lock = lock

    def started_leading(self) -> None:
        self._tell("became leader")
        self._manager._start_leading()

    def stopped_leading(self) -> None:
        elector = self._manager._elector
        if elector is not None and self._manager.elected.is_set():
            self._tell("stopped leading")

    def new_leader(self, identity: str) -> None:
        self._manager.logger.info("New leader", leader=identity)

    def _tell(self, what: str) -> None:
        if not self._manager.options.leader_election_events:
            return
        elector = self._manager._elector
        identity = elector.identity if elector is not None else ""
        self._manager.recorder.event(
            self._lock.reference, "Normal", "LeaderElection", "LeaderElection", f"{identity} {what}"
        )


class _LeaderGauge:
    def __init__(self, metrics: Metrics, name: str) -> None:
        self._metrics = metrics
        self._name = name

    def leading(self, leading: bool) -> None:
        self._metrics.leader.labels(self._name).set(leading)

    def slow_path(self) -> None:
        self._metrics.slow_renewals.labels(self._name).inc()


class _EventDrops:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def dropped(self, reason: DropReason) -> None:
        self._metrics.events_dropped.labels(reason).inc()
