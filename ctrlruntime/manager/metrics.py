"""Prometheus metrics with controller-runtime's names, in a registry of the manager's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.observe import InformerStats
from ctrlruntime.events.recorder import DropReason
from ctrlruntime.manager.controller_series import (
    ControllerCollector,
    ControllerSeries,
    ControllerStore,
    QueueCollector,
)
from ctrlruntime.manager.durations import Durations as Durations
from ctrlruntime.manager.durations import add_durations
from ctrlruntime.manager.queue_states import QueueState, queue_states
from ctrlruntime.queue import QueueCore
from ctrlruntime.webhook.metrics import CertificateMetrics

REQUEST_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
SIZE_BUCKETS = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)
STALL_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class _VerbSeries:
    """The requests of one method to one host."""

    __slots__ = ("codes", "received", "seconds", "sent")

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}
        self.seconds = Durations(REQUEST_BUCKETS)
        self.sent = Durations(SIZE_BUCKETS)
        self.received = Durations(SIZE_BUCKETS)


class _RequestCollector:
    def __init__(self, verbs: Mapping[tuple[str, str], _VerbSeries]) -> None:
        self._verbs = verbs

    def collect(self) -> Iterable[Metric]:
        requests = CounterMetricFamily(
            "rest_client_requests", "Requests by answer.", labels=["code", "method", "host"]
        )
        labels = ["verb", "host"]
        seconds = HistogramMetricFamily(
            "rest_client_request_duration_seconds", "Length of a request.", labels=labels
        )
        sent = HistogramMetricFamily("rest_client_request_size_bytes", "Bytes sent.", labels=labels)
        received = HistogramMetricFamily(
            "rest_client_response_size_bytes", "Bytes received.", labels=labels
        )
        for (method, host), series in list(self._verbs.items()):
            for code, count in list(series.codes.items()):
                requests.add_metric([code, method, host], count)
            add_durations(seconds, [method, host], series.seconds)
            add_durations(sent, [method, host], series.sent)
            add_durations(received, [method, host], series.received)
        return [requests, seconds, sent, received]


class RequestSeries:
    """``rest_client_*`` metrics, fed by the transport."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._retries = Counter(
            "rest_client_request_retries", "Repeated requests.", ["code", "verb", "host"],
            registry=registry,
        )  # fmt: skip
        self._lost_warnings = Counter(
            "ctrlruntime_client_lost_warnings", "Warnings of the server whose handler raised.",
            registry=registry,
        )  # fmt: skip
        self._verbs: dict[tuple[str, str], _VerbSeries] = {}
        registry.register(_RequestCollector(self._verbs))

    def requested(
        self, method: str, host: str, code: str, seconds: float, sent: int, received: int
    ) -> None:
        series = self._verbs.get((method, host))
        if series is None:
            series = self._verbs[method, host] = _VerbSeries()
        codes = series.codes
        codes[code] = codes.get(code, 0) + 1
        series.seconds.observe(seconds)
        series.sent.observe(sent)
        series.received.observe(received)

    def retried(self, method: str, host: str, code: str) -> None:
        self._retries.labels(code, method, host).inc()

    def warning_lost(self) -> None:
        self._lost_warnings.inc()


class InformerSeries:
    """``ctrlruntime_informer_*``, fed by the informers; gauges are read when rendered."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str) -> Counter:
            return Counter(f"ctrlruntime_informer_{name}", text, ["kind"], registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"ctrlruntime_informer_{name}", text, ["kind"], registry=registry)

        self._relists = counter("relists", "Lists read again after the first.")
        self._restarts = counter("watch_restarts", "Watches taken up again.")
        self._failures = counter("handler_failures", "Events lost to a handler that raised.")
        self._index_failures = counter(
            "index_failures", "Objects without a value in an index whose function raised."
        )
        self._transform_failures = counter(
            "transform_failures", "States of objects left out as the transform raised."
        )
        self._unreadable = counter(
            "unreadable", "States of objects that cannot be read and are kept with their metadata."
        )
        self._unexpected = counter(
            "restarts", "Lists and watches started again after an unexpected error."
        )
        self._sync = gauge("sync_seconds", "Length of the initial list.")
        self._objects = gauge("objects", "Objects in the cache.")
        self._bytes = gauge("bytes", "Bytes of JSON in the cache, metadata not counted.")
        self._age = gauge("last_event_age_seconds", "Time since the watch last said anything.")

    def relisted(self, gvk: GroupVersionKind) -> None:
        self._relists.labels(str(gvk.group_kind)).inc()

    def watch_restarted(self, gvk: GroupVersionKind) -> None:
        self._restarts.labels(str(gvk.group_kind)).inc()

    def synced(self, gvk: GroupVersionKind, seconds: float) -> None:
        self._sync.labels(str(gvk.group_kind)).set(seconds)

    def handler_failed(self, gvk: GroupVersionKind) -> None:
        self._failures.labels(str(gvk.group_kind)).inc()

    def index_failed(self, gvk: GroupVersionKind) -> None:
        self._index_failures.labels(str(gvk.group_kind)).inc()

    def unreadable(self, gvk: GroupVersionKind) -> None:
        self._unreadable.labels(str(gvk.group_kind)).inc()

    def transform_failed(self, gvk: GroupVersionKind) -> None:
        self._transform_failures.labels(str(gvk.group_kind)).inc()

    def restarted(self, gvk: GroupVersionKind) -> None:
        self._unexpected.labels(str(gvk.group_kind)).inc()

    def show(self, stats: Iterable[InformerStats]) -> None:
        """Set the gauges; informers of one kind with different selectors add up."""
        for gauge in (self._objects, self._bytes, self._age):
            gauge.clear()
        for informer in stats:
            kind = str(informer.gvk.group_kind)
            self._objects.labels(kind).inc(informer.objects)
            self._bytes.labels(kind).inc(informer.bytes)
            self._age.labels(kind).set(informer.last_event_age)


class Metrics:
    """All metrics of one manager. ``registry`` takes further collectors of the user's."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._controllers = ControllerStore()
        queues = QueueCollector(self._controllers)
        self._refreshers: list[Callable[[], None]] = [queues.refresh]
        self.registry.register(ControllerCollector(self._controllers))
        self.registry.register(queues)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.requests = RequestSeries(self.registry)
        self.informers = InformerSeries(self.registry)
        self.certificates = CertificateMetrics(self.registry)
        self.leader = Gauge(
            "leader_election_master_status", "1 while this process is the leader.", ["name"],
            registry=self.registry,
        )  # fmt: skip
        self.slow_renewals = Counter(
            "leader_election_slowpath", "Renewals that had to read the lease first.", ["name"],
            registry=self.registry,
        )  # fmt: skip
        self.loop_stall = Histogram(
            "ctrlruntime_loop_stall_seconds", "How late the event loop ran a timer.",
            buckets=STALL_BUCKETS, registry=self.registry,
        )  # fmt: skip
        self.gc_pause = Histogram(
            "ctrlruntime_gc_pause_seconds", "Length of a garbage collection.", ["generation"],
            buckets=(0.001, *STALL_BUCKETS), registry=self.registry,
        )  # fmt: skip
        self.events_dropped = Counter(
            "ctrlruntime_events_dropped", "Events of the recorder that were not sent, by reason.",
            ["reason"], registry=self.registry,
        )  # fmt: skip

    def controller(self, name: str, workers: int, cluster: str = "") -> ControllerSeries:
        """Return the series of the controller ``name``, made on first use.

        ``cluster``: the further cluster that they are of; of these 49 have a label of their own name, and
        the rest share the label "other".
        """
        return self._controllers.controller(name, workers, cluster)

    def watch_queue(self, name: str, queue: QueueCore, cluster: str = "") -> None:
        """Read the counts of ``queue`` whenever metrics are rendered. Queues of one label add up."""
        self._controllers.watch_queue(name, queue, cluster)

    def unwatch_queue(self, name: str, queue: QueueCore, cluster: str) -> None:
        """Forget a cluster that has ended; what was counted there stays in the totals, as "other"."""
        self._controllers.end(name, queue, cluster)

    def forget_queue(self, name: str, queue: QueueCore) -> None:
        """Leave out the queue of a controller that was replaced by one of its name."""
        self._controllers.forget(name, queue)

    def queue_states(self) -> list[QueueState]:
        """Return the state of every controller's queue, by name and cluster. Call it on the loop."""
        return queue_states(self._controllers)

    def before_render(self, refresh: Callable[[], None]) -> None:
        """Have ``refresh`` called on the loop before each rendering, to set gauges."""
        self._refreshers.append(refresh)

    def render(self) -> bytes:
        """Return the text for Prometheus. Call :meth:`refresh` on the loop before."""
        return generate_latest(_WithoutCreated(self.registry))

    def refresh(self) -> None:
        for refresh in self._refreshers:
            refresh()

    async def scrape(self) -> tuple[bytes, str]:
        """Body and content type of ``/metrics``, rendered in a thread."""
        self.refresh()
        return await asyncio.to_thread(self.render), CONTENT_TYPE_LATEST


class _WithoutCreated(CollectorRegistry):
    """A registry without the ``_created`` samples, which Go's client does not have."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__()
        self._registry = registry

    def collect(self) -> Iterable[Metric]:
        for metric in self._registry.collect():
            metric.samples = [s for s in metric.samples if not s.name.endswith("_created")]
            yield metric


class EventDrops:
    """Counts events that were not sent, for a recorder."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def dropped(self, reason: DropReason) -> None:
        self._metrics.events_dropped.labels(reason).inc()
