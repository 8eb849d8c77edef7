"""What the driver works with, whatever the task."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from ctrlruntime.cache.cached import CachedClient
from ctrlruntime.client.fence import Fence
from ctrlruntime.events import EventRecorder
from ctrlruntime.tracing import Tracing
from internal.cloud.concurrency import ConcurrencyChecker
from internal.cloud.taskdriver.metrics import TaskMetrics
from internal.cloud.taskdriver.opening import OpenRuns
from internal.cloud.taskdriver.situation import Pace


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Shared by all objects of one type, mostly by all types."""

    client: CachedClient
    """Own writes go through it to the cache."""
    open_runs: OpenRuns
    limiter: ConcurrencyChecker
    recorder: EventRecorder
    metrics: TaskMetrics
    fence: Fence
    """Asked before every effect outside the API server; raises when another may lead."""
    tracing: Tracing = field(default_factory=Tracing)
    told: bool = False
    """Whether the provider tells of changes (`RunProvider.subscribe` said so)."""
    clock: Callable[[], datetime] = _now
    pace: Pace = field(default_factory=Pace)
