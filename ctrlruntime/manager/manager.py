"""The manager: one process's client, cache, controllers, servers and leadership."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Self

from structlog.typing import FilteringBoundLogger

from ctrlruntime.api.resource import KindRef
from ctrlruntime.cache.cache import Cache, CacheOptions
from ctrlruntime.client.arguments import check_config, check_manager_options
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.fence import Fence, SlotNotHeld
from ctrlruntime.cluster.cluster import FLUSH, Cluster, ClusterDeps, ClusterOptions
from ctrlruntime.cluster.provider import Provider, ProviderRunnable
from ctrlruntime.cluster.selection import LOCAL_NAME
from ctrlruntime.controller.controller import Controller
from ctrlruntime.controller.loop_yielder import LoopYielder
from ctrlruntime.controller.options import ControllerOptions, Settings
from ctrlruntime.controller.permissions import Permission, combine, of_declared
from ctrlruntime.controller.reconcile import Reconciler
from ctrlruntime.events.recorder import EVENT
from ctrlruntime.manager.clusters import Clusters, failed_kinds, missing_kinds, unsynced_kinds
from ctrlruntime.manager.endpoints import Endpoints
from ctrlruntime.manager.health import Check, CheckFailed
from ctrlruntime.manager.http_message import HTTPHandler
from ctrlruntime.manager.leadership import LeaderElectionLost, Leadership
from ctrlruntime.manager.lease import LEASE
from ctrlruntime.manager.logs import default_logger
from ctrlruntime.manager.metrics import EventDrops, Metrics
from ctrlruntime.manager.options import ManagerOptions, check_election
from ctrlruntime.manager.pool_threads import working_threads
from ctrlruntime.manager.runnables import Group, Runnable, RunnableGroup, StoppingError, group_of
from ctrlruntime.manager.running import outlast, run_in_background
from ctrlruntime.manager.sharding import SHARD_VERBS, leader_options, make_shards
from ctrlruntime.manager.signals import mark_graceful, stop_on_signals
from ctrlruntime.manager.tracing import request_spans
from ctrlruntime.manager.watchdog import GCTuner, LoopWatchdog
from ctrlruntime.open_files import raise_open_files
from ctrlruntime.sharding.ownership import current_slot
from ctrlruntime.side_by_side import as_failure, first_to_end
from ctrlruntime.tracing import Tracing

if TYPE_CHECKING:
    from ctrlruntime.manager.webhooks import Webhooks

STOP_ORDER = (
    (Group.WARMUP, Group.OTHERS),
    (Group.LEADER_ELECTION,),
    (Group.CACHES,),
    (Group.WEBHOOKS,),
    (Group.HTTP_SERVERS,),
)

LEADER_FLUSH = 1.0
"""Seconds for events recorded during the shutdown of a leader, whose successor waits; for others FLUSH."""
LOST_FLUSH = 0.5
"""The same when leadership is lost and the process has to go."""


class GracePeriodExceeded(TimeoutError):
    """Runnables had not ended when the graceful shutdown timeout was over."""


class InformersFailed(RuntimeError):
    """Informers met unexpected errors, one after the other; a new process may do better."""


class CacheRunnable:
    """A cluster's cache in the group of caches: everything later waits for its first lists."""

    runnable_group = Group.CACHES
    needs_leader_election = False

    def __init__(self, cache: Cache, name: str = "", *, sync_timeout: float = 120.0) -> None:
        """`sync_timeout`: seconds for kinds that were declared without one of their own."""
        self.cache = cache
        self._name = name
        self._sync_timeout = sync_timeout

    def __repr__(self) -> str:
        return f"CacheRunnable({self._name!r})"

    async def start(self) -> None:
        await self.cache.run()

    async def wait_ready(self) -> None:
        """Raise CacheSyncTimeout."""
        await self.cache.wait_started(self._sync_timeout)


class Manager:
    """Owns what controllers share, and starts and stops everything in order.

    Ports are bound, and options checked, when it is made; nothing is sent before :meth:`start`.
    Make it on the event loop it will run on.

    ``cluster`` is its own cluster, of which ``client``, ``live_client``, ``cache`` and ``recorder`` are;
    :meth:`engage` takes further ones. ``client`` reads from the cache and its writes show there at once; ``live_client`` bypasses the
    cache altogether. ``webhooks`` takes what is to be served to the API server. ``elected`` is set
    once this process leads, or at once without an election; ``prepared`` once everything runs that
    needs no leadership, and ``stopped`` at the end. Logs go to ``logger``, by default where
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
        check_config(config)
        check_manager_options(options, ManagerOptions)
        self.config = config
        self.options = options if options is not None else ManagerOptions()
        check_election(self.options)
        self.logger: FilteringBoundLogger = logger if logger is not None else default_logger()
        self.tracing = Tracing(self.options.tracer_provider)
        self.metrics = Metrics()
        self.pace = LoopYielder()
        self.prepared = asyncio.Event()
        self.elected = asyncio.Event()
        self.stopped = asyncio.Event()
        self._endpoints = Endpoints(self.options, self.metrics, self.logger, self._connect)
        self._sync_timeout = self.options.controller.settings().cache_sync_timeout
        self._make_cluster(cache_options)
        self._names: set[str] = set()
        self._controllers: list[Controller] = []
        self._groups = {group: RunnableGroup(group, self._fail, self.logger) for group in Group}
        self._gc = GCTuner(
            self.options.gc,
            lambda generation, seconds: self.metrics.gc_pause.labels(generation).observe(seconds),
        )
        self._stop = asyncio.Event()
        self._error: Exception | None = None
        self._stopping = False
        self._lost = asyncio.Event()
        self._hurried = asyncio.Event()
        self._started = False
        self._webhooks: Webhooks | None = None
        self._clusters = Clusters(self.logger, self.options.protected)
        self._leaving: dict[str, asyncio.Task[None]] = {}
        self.add(CacheRunnable(self.cache, sync_timeout=self._sync_timeout))
        self.add(LoopWatchdog(self.metrics.loop_stall.observe, self.logger))
        self._endpoints.health.add("informers", self._check_informers)
        self._endpoints.readiness.add("caches", self._check_caches)
        self._leadership = self._make_leadership() if self.options.leader_election else None
        self.shards = make_shards(self, self._leadership, self._endpoints, self._fail)
        """The slots of this process; None without ``options.sharding``."""

    # -- what controllers and programs use ---------------------------------------------------

    @property
    def controller_defaults(self) -> ControllerOptions:
        return self.options.controller

    @property
    def controller_metrics(self) -> Metrics:
        return self.metrics

    @property
    def webhooks(self) -> Webhooks:
        """What is served to the API server; made, and what it imports loaded, when first used."""
        if self._webhooks is None:
            from ctrlruntime.manager.webhooks import Webhooks

            self._webhooks = Webhooks(
                self.options.webhook, self.metrics, self.logger, self._connect
            )
            self.add(self._webhooks)
        return self._webhooks

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

    @property
    def controllers(self) -> tuple[Controller, ...]:
        """The controllers added so far."""
        return tuple(self._controllers)

    def claim_controller_name(self, name: str) -> None:
        """Raise ValueError if a controller of this name exists: their metrics would mix."""
        if name in self._names:
            raise ValueError(
                f"there is a controller {name!r} already: names must be unique, as they label "
                "metrics; name it with named(), or set skip_name_validation"
            )
        self._names.add(name)

    def prepare_controller(
        self, name: str, settings: Settings, reconciler: Reconciler[Any]
    ) -> tuple[Settings, Reconciler[Any]]:
        """Return what a controller is made of, as given; managers for development change it."""
        return settings, reconciler

    def add(self, runnable: Runnable) -> None:
        """Add a runnable to its group, and start it at once if that group runs.

        Raises StoppingError when the manager is stopping.
        """
        if getattr(runnable, "needs_warmup", False):
            warmup: Callable[[], Awaitable[None]] = runnable.warmup  # type: ignore[attr-defined]
            self._groups[Group.WARMUP].add(runnable, warmup)
        self._groups[group_of(runnable)].add(runnable)
        if isinstance(runnable, Controller):
            self._controllers.append(runnable)
            for cluster in self._clusters:
                runnable.engage(cluster)

    def permissions(self) -> tuple[Permission, ...]:
        """Return what controllers and the cache declare, and what events and the election need."""
        needed: list[Permission] = [(EVENT.group, "events", ("create", "patch"))]
        for mapping in self.cache.declared():
            needed += of_declared(mapping)
        if self.options.leader_election:
            needed.append((LEASE.group, "leases", ("create", "get", "update", "watch")))
        if self.shards is not None:
            needed.append((LEASE.group, "leases", SHARD_VERBS))
        for controller in self._controllers:
            needed += controller.permissions()
        return combine(needed)

    def primary_kinds(self) -> tuple[KindRef, ...]:
        """Return the kinds that the controllers added so far are for."""
        return tuple(each.primary for each in self._controllers if each.primary is not None)

    def new_cluster(
        self, name: str, config: Config, options: ClusterOptions | None = None
    ) -> Cluster:
        """Make a further cluster with this manager's logger, metrics, traces and fence, to be engaged."""
        fence = self.fence if self.options.fenced else None
        return Cluster(name, config, options, fence=fence, deps=self._deps)

    async def engage(self, cluster: Cluster) -> None:
        """Start a further cluster, and the controllers that select it, now or with the manager.

        Nothing waits for its server, unless it is ``required``: then controllers start, and the
        manager is ready, when it has synced. It is closed when it is disengaged or the manager ends.
        Raises ValueError for an empty name and one in use, StoppingError, and what declaring the
        controllers' kinds raises, after which the cluster is closed.
        """
        if self._stopping:
            raise StoppingError(f"cannot engage {cluster!r}: the manager is stopping")
        first = not self._clusters.added
        self._clusters.add(cluster)
        if first:
            self.add(self._clusters)
        try:
            for controller in self._controllers:
                controller.engage(cluster)
        except BaseException:
            await self.disengage(cluster.name)
            raise
        await self._clusters.start_late(cluster)

    async def disengage(self, name: str) -> None:
        """Stop a further cluster: its queued requests are dropped, and it is closed.

        Reconciles in progress have ``graceful_shutdown_timeout`` seconds before they are cancelled.
        Returns when nothing of it runs any more; at once for a name that is not engaged.
        """
        if name not in self._leaving:
            if (cluster := self._clusters.remove(name)) is None:
                return
            task = asyncio.create_task(self._end_cluster(cluster), name=f"disengage {name}")
            self._leaving[name] = task
        await asyncio.shield(self._leaving[name])

    def get_cluster(self, name: str) -> Cluster:
        """Return a cluster by its name, with "" the manager's own. Raises ClusterNotFound."""
        return self.cluster if name == LOCAL_NAME else self._clusters.get(name)

    def engaged_clusters(self) -> tuple[Cluster, ...]:
        """Return the further clusters that are engaged."""
        return tuple(self._clusters)

    def client_of(self, cluster: str) -> Client:
        """Return the cached client of a cluster by its name. Raises ClusterNotFound."""
        return self.get_cluster(cluster).client

    def add_provider(self, provider: Provider) -> None:
        """Have a provider engage and disengage clusters as long as the manager runs."""
        self.add(ProviderRunnable(provider, self))

    def add_healthz_check(self, name: str, check: Check) -> None:
        """Add a named check to the liveness endpoint, before the start."""
        self._before_start("health checks")
        self._endpoints.health.add(name, check)

    def add_readyz_check(self, name: str, check: Check) -> None:
        """Add a named check to the readiness endpoint, before the start."""
        self._before_start("readiness checks")
        self._endpoints.readiness.add(name, check)

    def add_metrics_handler(self, path: str, handler: HTTPHandler) -> None:
        """Serve ``path`` next to ``/metrics``, which it cannot replace."""
        self._before_start("metrics handlers")
        self._endpoints.add_metrics_handler(path, handler)

    def fence(self) -> None:
        """Raise LeaderElectionLost once this process led and is no longer sure that it does.

        In a pass of a sharded controller its slot decides: SlotNotHeld once it may be another process's.

        The manager's clients call it before each write, as do those of :meth:`new_cluster`. Clients made
        elsewhere should too: ``Client.connect(config, fence=manager.fence)``.
        """
        if self.shards is not None and (slot := current_slot.get()) is not None:
            if not self.shards.may_write(slot):
                raise SlotNotHeld(slot)
        elif self._leadership is not None:
            self._leadership.fence()

    def stop(self) -> None:
        """Request that a running manager stops; :meth:`start` then returns."""
        self._stop.set()

    def close(self) -> None:
        """Give back the ports of a manager that is never started."""
        self._endpoints.close()

    async def start(self) -> None:
        """Run until cancelled or stopped, or until a runnable fails, whose error it raises.

        At the end no further reconcile is started; those in progress have ``graceful_shutdown_timeout``
        seconds before they are cancelled. The Lease is held until everything has ended, and then released.

        Raises LeaderElectionLost when the lease is lost, GracePeriodExceeded (with the first error as its cause)
        when runnables do not end in time, RuntimeError when called twice.
        """
        self._check_new()
        self._started = True
        raise_open_files()
        handled = self.options.handle_signals
        with stop_on_signals(self.stop) if handled else contextlib.nullcontext():
            starting = asyncio.create_task(self._start_groups(), name="manager start")
            cancelled: asyncio.CancelledError | None = None
            try:
                await self._stop.wait()
            except asyncio.CancelledError as error:
                cancelled = error
            stopping = asyncio.create_task(self._shut_down(starting), name="manager stop")
            cancelled = await outlast(stopping, self._hurried.set) or cancelled
            stopping.result()
        if self._error is not None:
            raise self._error
        if cancelled is not None:
            mark_graceful()
            raise cancelled

    @contextlib.asynccontextmanager
    async def running(self, *, leading: bool = True) -> AsyncIterator[Self]:
        """Run the manager for the length of a block, and stop it at its end as :meth:`start` does.

        The block is entered once the caches have synced and this process leads, or with ``leading=False`` once
        everything runs that needs no leadership. What :meth:`start` raises is raised here: before the block, or instead
        of the block's cancellation when the manager fails within it. Raises an ExceptionGroup when the block fails as
        well, and StoppedWhileStarting when it is stopped before the block is entered; RuntimeError if it was started already.
        """
        self._check_new()
        async with run_in_background(self, self.elected if leading else self.prepared):
            yield self

    # -- starting ----------------------------------------------------------------------------

    async def _start_groups(self) -> None:
        try:
            if self._webhooks is not None and self._webhooks.enabled:
                self._endpoints.readiness.add("webhooks", self._webhooks.check)
            for server in self._endpoints.servers():
                self.add(server)
            await self._groups[Group.HTTP_SERVERS].start()
            await self._groups[Group.WEBHOOKS].start()
            self._gc.before_caches()
            await self._groups[Group.CACHES].start()
            self._gc.after_caches()
            await self._groups[Group.OTHERS].start()
            await self._groups[Group.WARMUP].start()
            self.prepared.set()
            if self.shards is not None:
                self.shards.start()
            if self._leadership is not None:
                self._leadership.start()
            else:
                await self._lead()
        except BaseException as error:  # noqa: BLE001 - it is raised by start() after an orderly stop
            self._fail(as_failure(error))

    async def _lead(self) -> None:
        if self._leadership is not None:  # another process may have written until now
            await self._clusters.catch_up(self.cluster)
        await self._groups[Group.LEADER_ELECTION].start()
        self.elected.set()

    # -- stopping ----------------------------------------------------------------------------

    async def _shut_down(self, starting: asyncio.Task[None]) -> None:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        self._stopping = True
        self.logger.info("Stopping")
        timeout = self.options.graceful_shutdown_timeout
        drained = self._lost.is_set() or await self._drain(timeout)
        lost = self._lost.is_set()
        timeout = 0.0 if lost else timeout
        ended = await self._stop_groups(timeout)
        running = [name for group in self._groups.values() for name in group.running]
        if self._leadership is None:
            await self._stop_clusters(FLUSH)
        else:  # the lease is held until nothing needs it any more, events included
            self._leadership.step_down()
            await self._stop_clusters(LOST_FLUSH if lost else LEADER_FLUSH)
        # What a cancelled reconcile left in a thread works on: the next one waits until the lease runs out.
        over = ended and (drained or not working_threads())
        for each in (self.shards, self._leadership):
            if each is not None:
                await each.end(release=over)
        self._gc.end()
        self.close()
        await asyncio.gather(*(each.disconnect() for each in (self.cluster, *self._clusters.all())))
        if not ended and timeout > 0:
            first, self._error = (
                self._error,
                GracePeriodExceeded(
                    "failed waiting for all runnables to end within grace period of "
                    f"{timeout:g} s; still running: {', '.join(running)}"
                ),
            )
            self._error.__cause__ = first
        self.logger.info("Stopped")
        self.stopped.set()

    async def _stop_clusters(self, flush: float) -> None:
        """Send recorded events to all clusters at once, at most for ``flush`` seconds."""
        if leaving := list(self._leaving.values()):
            await asyncio.wait(leaving, timeout=flush)
            for task in leaving:
                task.cancel()
            await asyncio.gather(*leaving, return_exceptions=True)
        further = (each.stop(flush) for each in self._clusters.all())
        await asyncio.gather(self.recorder.stop(flush), *further)

    async def _drain(self, timeout: float) -> bool:
        """Let reconciles in progress end: for ``timeout`` seconds, until the lease is lost or the stop is hurried.

        Returns whether all have.
        """
        requested = {task for group in self._groups.values() for task in group.shutdown()}
        if requested and timeout != 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout if timeout > 0 else None):
                    await first_to_end(asyncio.wait(requested), self._hurried.wait())
        return all(task.done() for task in requested)

    async def _stop_groups(self, timeout: float) -> bool:
        """Return True if everything ended within ``timeout`` seconds."""
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
        lost = isinstance(error, LeaderElectionLost)
        if lost:
            self._lost.set()
            self._hurried.set()
        if self._error is not None or (self._stopping and not lost):
            self.logger.error("Error while stopping", error=repr(error))
            return
        self.logger.error("Stopping because of an error", error=repr(error), exc_info=error)
        self._error = error
        self._stop.set()

    # -- parts -------------------------------------------------------------------------------

    def _make_cluster(self, cache_options: CacheOptions | None) -> None:
        if cache_options is None:
            cache_options = CacheOptions(namespaces=self.options.namespaces)
        fenced = self.options.fenced
        self._deps = ClusterDeps(
            name=self.options.name,
            logger=self.logger,
            requests=self.metrics.requests,
            informers=self.metrics.informers,
            events=EventDrops(self.metrics),
            event_fence=self._event_fence if fenced else None,
            intercepted=self._intercepted,
        )
        options = ClusterOptions(
            client=self.options.client,
            cache=cache_options,
            events=self.options.events,
            sync_timeout=self._sync_timeout,
            required=True,
        )
        self.cluster = Cluster(
            LOCAL_NAME,
            self.config,
            options,
            fence=self.fence if fenced else None,
            deps=self._deps,
        )
        self.live_client = self.cluster.live_client
        self.cache = self.cluster.cache
        self.cache.protected = self.options.protected
        self.client = self.cluster.client
        self.recorder = self.cluster.recorder
        self.metrics.before_render(lambda: self.metrics.informers.show(self.cache.stats()))

    def _intercepted(self, client: Client) -> Client:
        return client.intercepted(request_spans(self.tracing)) if self.tracing.enabled else client

    def _connect(self, fence: Fence | None = None) -> Client:
        return self.cluster.connect(fence if self.options.fenced else None)

    async def _end_cluster(self, cluster: Cluster) -> None:
        grace = timeout if (timeout := self.options.graceful_shutdown_timeout) >= 0 else None
        try:
            await asyncio.gather(
                *(each.disengage(cluster.name, grace) for each in self._controllers)
            )
            await cluster.close()
            self._clusters.forget(cluster.name)
        finally:
            del self._leaving[cluster.name]

    def _event_fence(self) -> None:
        if self._leadership is not None:
            self._leadership.event_fence()

    def _make_leadership(self) -> Leadership:
        options, together = leader_options(self.options)
        leadership = Leadership(
            self.config,
            options,
            self.metrics,
            self.recorder,
            self.logger,
            self._lead,
            self._fail,
            together=together,
        )
        self._endpoints.add_check("leader-election", leadership.check)
        return leadership

    def _check_caches(self) -> str:
        """Return which kinds have no CRD yet. Raise CheckFailed, naming those not synced in required clusters."""
        clusters = [self.cluster, *self._clusters.required()]
        if waiting := unsynced_kinds(clusters):
            raise CheckFailed(f"not synced: {'; '.join(waiting)}")
        if not all(each.cache.synced for each in clusters):
            raise CheckFailed("not started")
        return missing_kinds(clusters)

    def _check_informers(self) -> None:
        """Raise InformersFailed if an informer keeps failing for reasons that no server gives.

        Clusters that are not required are left out: a new process would stop all the others.
        """
        if failed := failed_kinds([self.cluster, *self._clusters.required()]):
            raise InformersFailed("; ".join(failed))

    def _check_new(self) -> None:
        if self._started:
            raise RuntimeError("the manager was started already; make a new one instead")

    def _before_start(self, what: str) -> None:
        if self._started:
            raise RuntimeError(f"{what} cannot be added after the manager was started")
