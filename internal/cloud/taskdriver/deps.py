"""What the driver works with, whatever the task: clients, the limiter, and the provider of runs."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from apis.cloud import Phase, TaskOutcome, TaskPriority, TaskRun, TaskStatus, Waiting, WaitingReason
from ctrlruntime.cache.cached import CachedClient
from ctrlruntime.client.fence import Fence
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.clock import utc_now
from ctrlruntime.events import EventRecorder
from ctrlruntime.tracing import Tracing
from internal.cloud.change_holds import waits_for_people
from internal.cloud.concurrency import ConcurrencyChecker
from internal.cloud.pace import Pace
from internal.cloud.runs import RunOwner, RunProvider
from internal.cloud.taskdriver.record import is_live
from internal.cloud.taskdriver.writes import RunCluster

SECONDS = (1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400)
SHOWN = (Phase.FAILED, Phase.RETRYING, Phase.PAUSED)


class TaskMetrics:
    """The series of all tasks in one registry. The label `task` is the type of the task."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._running: dict[str, set[str]] = {}
        self._waiting: dict[str, set[str]] = {}
        self._unapproved: dict[str, set[str]] = {}
        self._priorities: dict[tuple[str, str], set[str]] = {}
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
        self.unapproved = gauge(
            "cloud_task_awaits_approval", "Objects with a plan that waits for an approval."
        )
        self.priorities = gauge(
            "cloud_task_waiting_by_priority",
            "Objects that wait for a place, by their priority.",
            "priority",
        )
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
        reason = None if status.waiting is None else status.waiting.reason
        asks = reason is WaitingReason.APPROVAL
        self._put(self._waiting, self.waiting, task, uid, reason is not None and not asks)
        self._put(self._unapproved, self.unapproved, task, uid, asks)
        self._show_priority(task, uid, status.waiting)
        for phase in SHOWN:
            found = self._phases.setdefault((task, phase.value), set())
            (found.add if status.phase is phase else found.discard)(uid)
            self.phases.labels(task, phase.value).set(len(found))

    def _show_priority(self, task: str, uid: str, waiting: Waiting | None) -> None:
        queued = waiting is not None and not waits_for_people(waiting)
        given = (waiting and waiting.priority) or TaskPriority.NORMAL
        for priority in TaskPriority:
            found = self._priorities.setdefault((task, priority.value), set())
            (found.add if queued and given is priority else found.discard)(uid)
            self.priorities.labels(task, priority.value).set(len(found))

    def forget(self, task: str, uid: str) -> None:
        """Forget an object that is gone."""
        self.show(task, uid, TaskStatus())

    @staticmethod
    def _put(groups: dict[str, set[str]], gauge: Gauge, task: str, uid: str, member: bool) -> None:
        found = groups.setdefault(task, set())
        (found.add if member else found.discard)(uid)
        gauge.labels(task).set(len(found))


OpenRuns = Callable[[RunOwner], Awaitable[RunProvider]]
"""Opens a provider for the runs of one object. Whoever opens it closes it (`aclose`)."""


class _Lent:
    """Passes everything on, but for the close: it belongs to someone else."""

    def __init__(self, provider: RunProvider) -> None:
        self.start = provider.start
        self.get = provider.get
        self.list = provider.list
        self.cancel = provider.cancel
        self.delete = provider.delete
        self.subscribe = provider.subscribe

    async def aclose(self) -> None:
        return


def shared(provider: RunProvider) -> OpenRuns:
    """One provider for all objects, whose owner closes it when the program ends."""
    lent = _Lent(provider)

    async def open_it(_owner: RunOwner) -> RunProvider:
        return lent

    return open_it


class Opened(Protocol):
    """The provider, opened when it is first needed."""

    async def __call__(self) -> RunProvider: ...


@asynccontextmanager
async def opening(open_runs: OpenRuns, owner: RunOwner) -> AsyncIterator[Opened]:
    """Yield a way to the provider for one pass; closed at its end, however that comes.

    A pass that needs no provider opens none.
    """
    opened: list[RunProvider] = []

    async def provider() -> RunProvider:
        if not opened:
            opened.append(await open_runs(owner))
        return opened[0]

    try:
        yield provider
    finally:
        for item in opened:
            await item.aclose()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Shared by all objects of one type, mostly by all types."""

    client: CachedClient
    """Own writes go through it to the cache."""
    patcher: ObjectPatcher
    """Writes statuses and finalizers of the objects."""
    open_runs: OpenRuns
    limiter: ConcurrencyChecker
    recorder: EventRecorder
    metrics: TaskMetrics
    fence: Fence
    """Asked before every effect outside the API server; raises when another may lead."""
    tracing: Tracing = field(default_factory=Tracing)
    told: bool = False
    """Whether the provider tells of changes (`RunProvider.subscribe` said so)."""
    clock: Callable[[], datetime] = utc_now
    pace: Pace = field(default_factory=Pace)
    run_cluster: RunCluster | None = None
    """Where runs and the Secrets with their outputs are; None: with the objects."""

    @property
    def runs(self) -> RunCluster:
        """Where runs and the Secrets with their outputs are."""
        return self.run_cluster or RunCluster(client=self.client.live)
