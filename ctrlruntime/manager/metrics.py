"""Prometheus metrics with controller-runtime's names, in a registry of the manager's own."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.observe import InformerStats
from ctrlruntime.controller.metrics import Outcome
from ctrlruntime.queue import QueueCore
from ctrlruntime.queue.core import Stats
from ctrlruntime.webhook.metrics import CertificateMetrics

RECONCILE_BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8),
    *(0.9, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30),
    *(40, 50, 60),
)
QUEUE_BUCKETS = tuple(1e-8 * 10**power for power in range(12))
REQUEST_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
SIZE_BUCKETS = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)
STALL_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

MAX_PRIORITIES = 25
"""Distinct values of the ``priority`` label of one queue; further ones share one value."""
PRIORITY_OVERFLOW = "exceeded_cardinality_limit"

OUTCOMES: tuple[Outcome, ...] = ("error", "requeue", "requeue_after", "success")


class Durations:
    """A histogram that costs a fraction of a microsecond to feed."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative counts as Prometheus wants them."""
        running = 0
        result: list[tuple[str, float]] = []
        for bound, count in zip(self.bounds, self.counts, strict=False):
            running += count
            result.append((repr(float(bound)), float(running)))
        result.append(("+Inf", float(running + self.counts[-1])))
        return result


class ControllerSeries:
    """The series of one controller; all exist, with 0, from the start."""

    def __init__(self, name: str, workers: int) -> None:
        self.name = name
        self.workers = workers
        self.outcomes: dict[Outcome, int] = dict.fromkeys(OUTCOMES, 0)
        self.errors = 0
        self.terminal_errors = 0
        self.panics = 0
        self.timeouts = 0
        self.active_workers = 0
        self.lost_events = 0
        self.retried_events = 0
        self.reconcile_time = Durations(RECONCILE_BUCKETS)
        self.queue_time = Durations(QUEUE_BUCKETS)
        self.work_time = Durations(QUEUE_BUCKETS)

    def waited(self, seconds: float) -> None:
        self.queue_time.observe(seconds)

    def worked(self, seconds: float) -> None:
        self.work_time.observe(seconds)

    def reconciled(self, outcome: Outcome, seconds: float) -> None:
        self.outcomes[outcome] += 1
        self.reconcile_time.observe(seconds)

    def failed(self, *, terminal: bool) -> None:
        self.errors += 1
        self.terminal_errors += terminal

    def panicked(self) -> None:
        self.panics += 1

    def timed_out(self) -> None:
        self.timeouts += 1

    def active(self, change: int) -> None:
        self.active_workers += change

    def event_failed(self) -> None:
        self.lost_events += 1

    def event_retried(self) -> None:
        self.retried_events += 1


class _ControllerCollector:
    def __init__(self) -> None:
        self.series: dict[str, ControllerSeries] = {}

    def collect(self) -> Iterable[Metric]:
        prefix = "controller_runtime_"
        total = CounterMetricFamily(
            f"{prefix}reconcile", "Reconciliations by outcome.", labels=["controller", "result"]
        )
        counters = {
            "reconcile_errors": "Reconciliations that failed.",
            "terminal_reconcile_errors": "Reconciliations that failed for good.",
            "reconcile_panics": "Reconciliations that met a bug.",
            "reconcile_timeouts": "Reconciliations ended by their time limit.",
        }
        families = {
            name: CounterMetricFamily(prefix + name, text, labels=["controller"])
            for name, text in counters.items()
        }
        seconds = HistogramMetricFamily(
            f"{prefix}reconcile_time_seconds", "Length of a reconcile.", labels=["controller"]
        )
        limit = GaugeMetricFamily(
            f"{prefix}max_concurrent_reconciles", "Workers.", labels=["controller"]
        )
        active = GaugeMetricFamily(
            f"{prefix}active_workers", "Workers at work.", labels=["controller"]
        )
        lost = CounterMetricFamily(
            "ctrlruntime_controller_lost_events",
            "Events lost to a handler, map function or predicate that raised.",
            labels=["controller"],
        )
        retried = CounterMetricFamily(
            "ctrlruntime_controller_retried_events",
            "Further attempts of map functions that await, after one that raised.",
            labels=["controller"],
        )
        for name, series in list(self.series.items()):
            retried.add_metric([name], series.retried_events)
            lost.add_metric([name], series.lost_events)
            for outcome, count in series.outcomes.items():
                total.add_metric([name, outcome], count)
            families["reconcile_errors"].add_metric([name], series.errors)
            families["terminal_reconcile_errors"].add_metric([name], series.terminal_errors)
            families["reconcile_panics"].add_metric([name], series.panics)
            families["reconcile_timeouts"].add_metric([name], series.timeouts)
            _add_durations(seconds, [name], series.reconcile_time)
            limit.add_metric([name], series.workers)
            active.add_metric([name], series.active_workers)
        return [total, *families.values(), seconds, limit, active, lost, retried]


class _EndedQueues:
    """What queues counted that have ended: counters do not fall."""

    def __init__(self, stats: Iterable[Stats]) -> None:
        self.stats = Stats()
        for each in stats:
            self.stats.adds += each.adds
            self.stats.retries += each.retries

    def running_for(self) -> Iterable[float]:
        return ()


class _QueueCollector:
    def __init__(self, controllers: dict[str, ControllerSeries]) -> None:
        self.queues: dict[str, list[QueueCore | _EndedQueues]] = {}
        self.running: dict[str, tuple[float, float]] = {}
        self._controllers = controllers

    def end(self, name: str, queue: QueueCore) -> None:
        """Count a queue among those that have ended, at once for a rendering in another thread."""
        ended = [each for each in self.queues[name] if isinstance(each, _EndedQueues)]
        running = [each for each in self.queues[name] if each is not queue and each not in ended]
        stats = [each.stats for each in ended] + [queue.stats]
        self.queues[name] = [*running, _EndedQueues(stats)]

    def refresh(self) -> None:
        """Take, on the loop, what must not be read while the loop changes it."""
        for name, queues in self.queues.items():
            seconds = [running for queue in queues for running in queue.running_for()]
            self.running[name] = (sum(seconds), max(seconds, default=0.0))

    def collect(self) -> Iterable[Metric]:
        labels = ["name", "controller"]
        depth = GaugeMetricFamily(
            "workqueue_depth", "Items that are ready.", labels=[*labels, "priority"]
        )
        adds = CounterMetricFamily("workqueue_adds", "Items that became ready.", labels=labels)
        retries = CounterMetricFamily("workqueue_retries", "Retries.", labels=labels)
        waited = HistogramMetricFamily(
            "workqueue_queue_duration_seconds", "Time an item is ready.", labels=labels
        )
        worked = HistogramMetricFamily(
            "workqueue_work_duration_seconds", "Time an item is processed.", labels=labels
        )
        unfinished = GaugeMetricFamily(
            "workqueue_unfinished_work_seconds", "Work in progress, summed up.", labels=labels
        )
        longest = GaugeMetricFamily(
            "workqueue_longest_running_processor_seconds", "Longest run in progress.", labels=labels
        )
        for name, queues in list(self.queues.items()):
            key = [name, name]
            total: Tally[int] = Tally()
            for queue in queues:
                total.update(dict(queue.stats.depth))
            for priority, count in depth_labels(total):
                depth.add_metric([*key, priority], count)
            adds.add_metric(key, sum(queue.stats.adds for queue in queues))
            retries.add_metric(key, sum(queue.stats.retries for queue in queues))
            series = self._controllers[name]
            _add_durations(waited, key, series.queue_time)
            _add_durations(worked, key, series.work_time)
            in_progress, oldest = self.running.get(name, (0.0, 0.0))
            unfinished.add_metric(key, in_progress)
            longest.add_metric(key, oldest)
        return [depth, adds, retries, waited, worked, unfinished, longest]


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
            _add_durations(seconds, [method, host], series.seconds)
            _add_durations(sent, [method, host], series.sent)
            _add_durations(received, [method, host], series.received)
        return [requests, seconds, sent, received]


class RequestSeries:
    """``rest_client_*`` metrics, fed by the transport."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._retries = Counter(
            "rest_client_request_retries", "Repeated requests.", ["code", "verb", "host"],
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
        self._controllers = _ControllerCollector()
        self._queues = _QueueCollector(self._controllers.series)
        self._refreshers: list[Callable[[], None]] = [self._queues.refresh]
        self.registry.register(self._controllers)
        self.registry.register(self._queues)
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

    def controller(self, name: str, workers: int) -> ControllerSeries:
        """Return the series of the controller ``name``, made on first use."""
        series = self._controllers.series.get(name)
        if series is None:
            series = self._controllers.series[name] = ControllerSeries(name, workers)
        return series

    def watch_queue(self, name: str, queue: QueueCore) -> None:
        """Read the counts of ``queue`` whenever metrics are rendered. Queues of one name add up."""
        self._queues.queues.setdefault(name, []).append(queue)

    def unwatch_queue(self, name: str, queue: QueueCore) -> None:
        """Forget a queue that has ended; what it counted stays in the totals."""
        self._queues.end(name, queue)

    def before_render(self, refresh: Callable[[], None]) -> None:
        """Has ``refresh`` called on the loop before each rendering, to set gauges."""
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


def depth_labels(depth: dict[int, int]) -> list[tuple[str, int]]:
    """Label and count of each priority, in the order they appeared, bounded in number."""
    pairs = [(str(priority), count) for priority, count in depth.items()]
    if len(pairs) <= MAX_PRIORITIES:
        return pairs or [("0", 0)]
    rest = sum(count for _, count in pairs[MAX_PRIORITIES:])
    return [*pairs[:MAX_PRIORITIES], (PRIORITY_OVERFLOW, rest)]


def _add_durations(family: HistogramMetricFamily, labels: list[str], durations: Durations) -> None:
    family.add_metric(labels, durations.buckets(), durations.total)
