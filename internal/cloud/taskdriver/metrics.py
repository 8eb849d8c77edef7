"""Metrics of the driver: one set for all types of tasks, with no series per instance."""

from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from apis.cloud import Phase, TaskOutcome, TaskRun, TaskStatus
from internal.cloud.taskdriver.record import is_live

SECONDS = (1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400)
SHOWN = (Phase.FAILED, Phase.RETRYING, Phase.PAUSED)


class TaskMetrics:
    """The series of all tasks in one registry. The label `task` is the type of the task."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._running: dict[str, set[str]] = {}
        self._waiting: dict[str, set[str]] = {}
        self._phases: dict[tuple[str, str], set[str]] = {}

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, ("task", *labels), registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, ("task", *labels), registry=registry)

        def histogram(name: str, text: str) -> Histogram:
            return Histogram(name, text, ("task",), registry=registry, buckets=SECONDS)

        self.dispatched = counter("cloud_task_dispatched_total", "Runs that were started.")
        self.retries = counter("cloud_task_retries_total", "Runs that were not the first attempt.")
        self.results = counter("cloud_task_results_total", "Runs that ended, by outcome.", "result")
        self.running = gauge("cloud_task_running", "Objects with a run under way.")
        self.waiting = gauge("cloud_task_waiting", "Objects that wait for their turn.")
        self.phases = gauge(
            "cloud_task_objects", "Objects that are Failed, Retrying or Paused.", "phase"
        )
        self.seconds = histogram(
            "cloud_task_duration_seconds", "Time from the record of a run to its end."
        )
        self.waited = histogram(
            "cloud_task_wait_seconds", "Time that a run waited for its turn before it was recorded."
        )

    def started(self, task: str, run: TaskRun) -> None:
        """Count a start."""
        self.dispatched.labels(task).inc()
        if run.attempt > 1:
            self.retries.labels(task).inc()

    def granted(self, task: str, since: datetime, now: datetime) -> None:
        """Note how long a run waited."""
        self.waited.labels(task).observe(max(0.0, (now - since).total_seconds()))

    def ended(self, task: str, run: TaskRun) -> None:
        """Count an end."""
        self.results.labels(task, (run.outcome or TaskOutcome.LOST).value).inc()
        if run.created_at is not None and run.finished_at is not None:
            self.seconds.labels(task).observe(
                max(0.0, (run.finished_at - run.created_at).total_seconds())
            )

    def show(self, task: str, uid: str, status: TaskStatus) -> None:
        """Count an object by where it stands."""
        self._put(self._running, self.running, task, uid, is_live(status.run))
        self._put(self._waiting, self.waiting, task, uid, status.waiting is not None)
        for phase in SHOWN:
            found = self._phases.setdefault((task, phase.value), set())
            (found.add if status.phase is phase else found.discard)(uid)
            self.phases.labels(task, phase.value).set(len(found))

    def forget(self, task: str, uid: str) -> None:
        """The object is gone."""
        self.show(task, uid, TaskStatus())

    @staticmethod
    def _put(groups: dict[str, set[str]], gauge: Gauge, task: str, uid: str, member: bool) -> None:
        found = groups.setdefault(task, set())
        (found.add if member else found.discard)(uid)
        gauge.labels(task).set(len(found))
