"""One API server as a manager uses it: clients, cache, REST mapper and event recorder."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog
from structlog.typing import FilteringBoundLogger

from ctrlruntime.cache.cache import Cache, CacheOptions
from ctrlruntime.cache.observe import InformerObserver
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.fence import Fence
from ctrlruntime.client.mapper import RESTMapper
from ctrlruntime.client.metrics import RequestObserver
from ctrlruntime.client.options import ClientOptions
from ctrlruntime.clock import monotonic
from ctrlruntime.events.correlator import EventOptions
from ctrlruntime.events.recorder import EventMetrics, EventRecorder
from ctrlruntime.queue.limiters import Bucket

FLUSH = 5.0
"""Seconds for recorded events to be sent when a cluster is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """Options of one cluster. Times in seconds."""

    client: ClientOptions = field(default_factory=ClientOptions)
    """Of its clients: ``transport.max_requests`` limits the requests under way at once, ``qps`` their rate."""
    cache: CacheOptions = field(default_factory=CacheOptions)
    events: EventOptions = field(default_factory=EventOptions)
    sync_timeout: float = 120.0
    """For the first lists. Afterwards an error is logged; a ``required`` cluster ends the start of the manager."""
    required: bool = False
    """Whether the manager's start and readiness wait for this cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDeps:
    """What the clusters of one manager share."""

    name: str = "ctrlruntime"
    """The program, as ``reportingController`` of events."""
    logger: FilteringBoundLogger | None = None
    requests: RequestObserver | None = None
    informers: InformerObserver | None = None
    events: EventMetrics | None = None
    event_fence: Fence | None = None
    """For writes of events, which may outlast those of controllers; by default the cluster's fence."""
    intercepted: Callable[[Client], Client] = lambda client: client
    """Returns the client to use instead: with spans for its requests, for example."""


class Cluster:
    """The clients, cache and event recorder of one API server.

    ``client`` reads from the cache and its writes show there at once; ``live_client`` bypasses the
    cache. ``fence`` is called before each write and raises to prevent it: pass the manager's, or use
    :meth:`Manager.new_cluster`, which does; None lets every write pass. Nothing is sent before
    :meth:`start`. A server that does not answer delays no other cluster: requests to it are retried until :meth:`close`.
    """

    def __init__(
        self,
        name: str,
        config: Config,
        options: ClusterOptions | None = None,
        *,
        fence: Fence | None,
        deps: ClusterDeps | None = None,
    ) -> None:
        """`name` is unique in its manager, whose own cluster has the empty name."""
        deps = deps if deps is not None else ClusterDeps()
        base: FilteringBoundLogger = (
            deps.logger if deps.logger is not None else structlog.get_logger()
        )
        self.name = name
        self.config = config
        self.options = options if options is not None else ClusterOptions()
        self.logger: FilteringBoundLogger = base.bind(cluster=name) if name else base
        self._deps = deps
        self._delay = _request_delay(self.options.client)
        self.live_client = self.connect(fence)
        self._event_client = self.connect(
            deps.event_fence if deps.event_fence is not None else fence
        )
        self.cache = Cache(self.live_client, self.options.cache, deps.informers, logger=self.logger)
        self.client = self.cache.client()
        self.recorder = EventRecorder(
            self._event_client,
            deps.name,
            options=self.options.events,
            metrics=deps.events,
            logger=self.logger,
        )
        self._reporting: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"Cluster({self.name!r})"

    @property
    def mapper(self) -> RESTMapper:
        """Resolves kinds by the server's discovery."""
        return self.live_client.mapper

    @property
    def under_way(self) -> int:
        """Requests of the clients, cache and recorder without an answer so far; watches are not counted."""
        return sum(each.transport.under_way for each in (self.live_client, self._event_client))

    @property
    def sent(self) -> int:
        """Requests sent so far by the clients, cache and recorder; watches are not counted."""
        return sum(each.transport.sent for each in (self.live_client, self._event_client))

    def connect(self, fence: Fence | None = None) -> Client:
        """Make a further client, with a transport of its own, under the same limit of requests a second."""
        options = self.options.client
        client = Client.connect(
            self.config,
            options.transport,
            observer=self._deps.requests,
            defaults=options.defaults(),
            fence=fence,
            delay=self._delay,
            on_warning=options.warning_handler,
            logger=self.logger,
        )
        return self._deps.intercepted(client)

    async def start(self) -> None:
        """Start the declared informers and return at once. Raises RuntimeError when called twice."""
        await self.cache.start()
        self._reporting = asyncio.create_task(self._report_sync(), name=f"{self!r} sync")

    async def wait_synced(self, timeout: float | None = None) -> None:
        """Wait for the first lists of all declared kinds. Raises TimeoutError naming those that miss."""
        await self.cache.wait_synced(timeout)

    def end_reporting(self) -> None:
        """Log no more about the first lists: those who wait for them are about to leave."""
        if self._reporting is not None:
            self._reporting.cancel()

    async def stop(self, flush: float = FLUSH) -> None:
        """End informers and send recorded events, at most for ``flush`` seconds. The caches stay readable."""
        self.end_reporting()
        if self._reporting is not None:
            await asyncio.gather(self._reporting, return_exceptions=True)
        await self.cache.stop()
        await self.recorder.stop(flush)

    async def close(self, flush: float = FLUSH) -> None:
        """Stop, and close all connections: later requests fail."""
        await self.stop(flush)
        await self.disconnect()

    async def disconnect(self) -> None:
        """Close the connections of a cluster that was stopped."""
        await self.live_client.close()
        await self._event_client.close()

    async def _report_sync(self) -> None:
        with contextlib.suppress(TimeoutError):
            await self.cache.wait_synced(self.options.sync_timeout)
            self.logger.info("Cluster synced")
            return
        self.logger.error(
            "Cluster has not synced; its own controllers wait for it, nothing else does",
            timeout=self.options.sync_timeout,
            kinds={
                str(kind): type(error).__name__ if error is not None else "no answer"
                for kind, error in self.cache.unsynced().items()
            },
        )
        await self.cache.wait_synced()
        self.logger.info("Cluster synced")


def _request_delay(options: ClientOptions) -> Callable[[], float] | None:
    """Return how long the next request waits, by one limit for all clients; None without a limit."""
    if options.qps is None:
        return None
    bucket = Bucket(options.qps, options.burst, monotonic)
    return lambda: bucket.when(None)
