"""Series of controllers and their queues, by cluster where a controller has several."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from ctrlruntime.controller.metrics import Outcome
from ctrlruntime.manager.durations import Durations, add_durations
from ctrlruntime.queue import QueueCore
from ctrlruntime.queue.core import Stats

RECONCILE_BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8),
    *(0.9, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30),
    *(40, 50, 60),
)
QUEUE_BUCKETS = tuple(1e-8 * 10**power for power in range(12))
MAX_PRIORITIES = 25
"""Distinct values of the ``priority`` label of one queue; further ones share one value."""
PRIORITY_OVERFLOW = "exceeded_cardinality_limit"

MAX_CLUSTERS: Final = 50
"""Distinct values of the ``cluster`` label; further clusters share one value."""
OTHER_CLUSTERS: Final = "other"
"""The ``cluster`` label of what is above the limit, and of clusters that have ended."""

OUTCOMES: tuple[Outcome, ...] = ("error", "requeue", "requeue_after", "success")


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

    def add(self, other: ControllerSeries) -> None:
        """Add what another series has counted; its workers are not taken over."""
        for outcome, count in other.outcomes.items():
            self.outcomes[outcome] += count
        self.errors += other.errors
        self.terminal_errors += other.terminal_errors
        self.panics += other.panics
        self.timeouts += other.timeouts
        self.lost_events += other.lost_events
        self.retried_events += other.retried_events
        self.reconcile_time.add(other.reconcile_time)
        self.queue_time.add(other.queue_time)
        self.work_time.add(other.work_time)


class EndedQueues:
    """What queues counted that have ended: counters do not fall."""

    def __init__(self, stats: Iterable[Stats]) -> None:
        self.stats = Stats()
        for each in stats:
            self.stats.adds += each.adds
            self.stats.retries += each.retries

    def running_for(self) -> Iterable[float]:
        return ()


class ClusterLabels:
    """Values of the label ``cluster``: names of clusters in use, at most `MAX_CLUSTERS`."""

    def __init__(self) -> None:
        self._users: Tally[str] = Tally()

    def take(self, cluster: str) -> str:
        """Return the label of a cluster for one controller, to be released."""
        if not cluster:
            return ""
        if cluster not in self._users and len(self._users) >= MAX_CLUSTERS - 1:
            return OTHER_CLUSTERS
        self._users[cluster] += 1
        return cluster

    def release(self, label: str) -> None:
        """End the use of a label."""
        self._users -= Tally({label: 1})


LABELS: Final = ["controller", "cluster"]
Key = tuple[str, str]
"""Name of a controller, and label of a cluster; the manager's own has none."""


class ControllerStore:
    """Series and queues by controller and cluster.

    Dictionaries are replaced, not changed, when a cluster ends: a rendering in another thread sees all or none.
    """

    def __init__(self) -> None:
        self.series: dict[Key, tuple[ControllerSeries, ...]] = {}
        self.queues: dict[Key, tuple[QueueCore | EndedQueues, ...]] = {}
        self._labels = ClusterLabels()
        self._parts: dict[tuple[str, str], tuple[str, ControllerSeries]] = {}

    def controller(self, name: str, workers: int, cluster: str) -> ControllerSeries:
        """Return the series of a controller in a cluster, made on first use."""
        part = self._parts.get((name, cluster))
        if part is None:
            part = self._labels.take(cluster), ControllerSeries(name, workers)
            self._parts[name, cluster] = part
            key = name, part[0]
            self.series = {**self.series, key: (*self.series.get(key, ()), part[1])}
        return part[1]

    def watch_queue(self, name: str, queue: QueueCore, cluster: str) -> None:
        """Read the counts of a queue; those of one label add up."""
        key = name, self._label(name, cluster)
        self.queues = {**self.queues, key: (*self.queues.get(key, ()), queue)}

    def forget(self, name: str, queue: QueueCore) -> None:
        """Leave out a queue of the manager's own cluster whose controller was replaced by one of its name."""
        queues = {
            key: tuple(each for each in found if each is not queue or key[0] != name)
            for key, found in self.queues.items()
        }
        self.queues = {key: found for key, found in queues.items() if found}

    def end(self, name: str, queue: QueueCore, cluster: str) -> None:
        """Move what was counted in a cluster that has ended to the label of the others."""
        key = name, self._label(name, cluster)
        others = name, OTHER_CLUSTERS
        queues = {**self.queues, key: tuple(q for q in self.queues[key] if q is not queue)}
        running = tuple(q for q in queues.get(others, ()) if not isinstance(q, EndedQueues))
        ended = [q.stats for q in queues.get(others, ()) if isinstance(q, EndedQueues)]
        queues[others] = (*running, EndedQueues([*ended, queue.stats]))
        self.queues = {each: found for each, found in queues.items() if found}
        self._end_series(name, cluster)

    def _end_series(self, name: str, cluster: str) -> None:
        part = self._parts.pop((name, cluster), None)
        if part is None:
            return
        label, series = part
        self._labels.release(label)
        others = name, OTHER_CLUSTERS
        left = {**self.series, (name, label): without(self.series[name, label], series)}
        folded = ControllerSeries(name, 0)
        for each in (series, *(each for each in left.get(others, ()) if not each.workers)):
            folded.add(each)
        left[others] = (*(each for each in left.get(others, ()) if each.workers), folded)
        self.series = {each: found for each, found in left.items() if found}

    def _label(self, name: str, cluster: str) -> str:
        part = self._parts.get((name, cluster))
        return cluster if part is None else part[0]


def without(
    series: tuple[ControllerSeries, ...], ended: ControllerSeries
) -> tuple[ControllerSeries, ...]:
    """Return the series but one."""
    return tuple(each for each in series if each is not ended)


def total_of(series: tuple[ControllerSeries, ...]) -> ControllerSeries:
    """Return the sum of series that have one label."""
    if len(series) == 1:
        return series[0]
    total = ControllerSeries(series[0].name, sum(each.workers for each in series))
    for each in series:
        total.add(each)
        total.active_workers += each.active_workers
    return total


def labelled(values: list[str], cluster: str) -> list[str]:
    """Return label values with the cluster's last; a series of the manager's own cluster has no such label."""
    return [*values, cluster] if cluster else values


class ControllerCollector:
    """Renders the series of controllers."""

    def __init__(self, store: ControllerStore) -> None:
        self._store = store

    def collect(self) -> Iterable[Metric]:
        prefix = "controller_runtime_"
        total = CounterMetricFamily(
            f"{prefix}reconcile",
            "Reconciliations by outcome.",
            labels=["controller", "result", "cluster"],
        )
        counters = {
            "reconcile_errors": "Reconciliations that failed.",
            "terminal_reconcile_errors": "Reconciliations that failed for good.",
            "reconcile_panics": "Reconciliations that met a bug.",
            "reconcile_timeouts": "Reconciliations ended by their time limit.",
        }
        families = {
            name: CounterMetricFamily(prefix + name, text, labels=LABELS)
            for name, text in counters.items()
        }
        seconds = HistogramMetricFamily(
            f"{prefix}reconcile_time_seconds", "Length of a reconcile.", labels=LABELS
        )
        limit = GaugeMetricFamily(f"{prefix}max_concurrent_reconciles", "Workers.", labels=LABELS)
        active = GaugeMetricFamily(f"{prefix}active_workers", "Workers at work.", labels=LABELS)
        lost = CounterMetricFamily(
            "ctrlruntime_controller_lost_events",
            "Events lost to a handler, map function or predicate that raised.",
            labels=LABELS,
        )
        retried = CounterMetricFamily(
            "ctrlruntime_controller_retried_events",
            "Further attempts of map functions that await, after one that raised.",
            labels=LABELS,
        )
        for (name, cluster), found in self._store.series.items():
            series, key = total_of(found), labelled([name], cluster)
            retried.add_metric(key, series.retried_events)
            lost.add_metric(key, series.lost_events)
            for outcome, count in series.outcomes.items():
                total.add_metric(labelled([name, outcome], cluster), count)
            families["reconcile_errors"].add_metric(key, series.errors)
            families["terminal_reconcile_errors"].add_metric(key, series.terminal_errors)
            families["reconcile_panics"].add_metric(key, series.panics)
            families["reconcile_timeouts"].add_metric(key, series.timeouts)
            add_durations(seconds, key, series.reconcile_time)
            limit.add_metric(key, series.workers)
            active.add_metric(key, series.active_workers)
        return [total, *families.values(), seconds, limit, active, lost, retried]


class QueueCollector:
    """Renders the counts of queues."""

    def __init__(self, store: ControllerStore) -> None:
        self._store = store
        self.running: dict[Key, tuple[float, float]] = {}

    def refresh(self) -> None:
        """Take, on the loop, what must not be read while the loop changes it."""
        for key, queues in self._store.queues.items():
            seconds = [running for queue in queues for running in queue.running_for()]
            self.running[key] = (sum(seconds), max(seconds, default=0.0))

    def collect(self) -> Iterable[Metric]:
        labels = ["name", *LABELS]
        depth = GaugeMetricFamily(
            "workqueue_depth",
            "Items that are ready.",
            labels=["name", "controller", "priority", "cluster"],
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
        for (name, cluster), queues in self._store.queues.items():
            key = labelled([name, name], cluster)
            total: Tally[int] = Tally()
            for queue in queues:
                total.update(dict(queue.stats.depth))
            for priority, count in depth_labels(total):
                depth.add_metric(labelled([name, name, priority], cluster), count)
            adds.add_metric(key, sum(queue.stats.adds for queue in queues))
            retries.add_metric(key, sum(queue.stats.retries for queue in queues))
            series = total_of(self._store.series[name, cluster])
            add_durations(waited, key, series.queue_time)
            add_durations(worked, key, series.work_time)
            in_progress, oldest = self.running.get((name, cluster), (0.0, 0.0))
            unfinished.add_metric(key, in_progress)
            longest.add_metric(key, oldest)
        return [depth, adds, retries, waited, worked, unfinished, longest]


def depth_labels(depth: dict[int, int]) -> list[tuple[str, int]]:
    """Label and count of each priority, in the order they appeared, bounded in number."""
    pairs = [(str(priority), count) for priority, count in depth.items()]
    if len(pairs) <= MAX_PRIORITIES:
        return pairs or [("0", 0)]
    rest = sum(count for _, count in pairs[MAX_PRIORITIES:])
    return [*pairs[:MAX_PRIORITIES], (PRIORITY_OVERFLOW, rest)]
