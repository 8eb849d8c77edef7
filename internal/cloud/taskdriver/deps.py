"""What the driver works with, whatever the task: clients, the limiter, and the provider of runs."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from ctrlruntime.cache.cached import CachedClient
from ctrlruntime.client.fence import Fence
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.clock import utc_now
from ctrlruntime.events import EventRecorder
from ctrlruntime.tracing import Tracing
from internal.cloud.concurrency import ConcurrencyChecker
from internal.cloud.pace import Pace
from internal.cloud.runs import RunOwner, RunProvider
from internal.cloud.taskdriver.metrics import TaskMetrics

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
    """A way to the provider for one pass; closed at its end, however that comes. A pass that needs
    no provider opens none."""
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
