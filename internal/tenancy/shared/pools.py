"""Worker pools per resource type: a level's writes run side by side, in bounded batches."""

import asyncio
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable
from contextlib import contextmanager
from typing import Final, Generic, TypeVar

from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.clock import monotonic
from ctrlruntime.controller.loop_yielder import LoopYielder
from ctrlruntime.fast_dataclass import fast_dataclass

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

SLOW: Final = 1.0
"""Seconds after which a write makes its type a slow one."""
_REMEMBERED: Final = 4.0
"""For how many times as long as such a write took its type counts as slow."""
_PUT_BACK: Final = 0.05
"""Seconds between two passes that come back: however many they are, they cost little."""


class TypeIsSlow(Exception):
    """Enough passes wait for types whose writes are slow: this one comes back after some seconds."""

    def __init__(self, after: float) -> None:
        super().__init__(f"writes of its types are slow; it comes back after {after:.1f} s")
        self.after = after


@fast_dataclass(frozen=True, slots=True)
class Job(Generic[T_co]):
    """One write, and the type of resource whose pool it runs in."""

    kind: GroupKind
    run: Callable[[], Awaitable[T_co]]


class WorkerPools:
    """Bounds how many writes are under way, per resource type and altogether.

    Pools are shared by all tenants, so that 10 tenants with 50 Deployments each do not send 500
    requests at once. Jobs that find nothing to write, as nearly all do after a restart, never wait for
    an answer: `pace` keeps them from holding the loop. Nor does a slow type hold up tenants without it:
    `slow_passes` at a time may wait for such types, which leaves workers for all others.
    """

    def __init__(
        self,
        *,
        per_type: int = 16,
        total: int = 64,
        slow_passes: int | None = None,
        pace: LoopYielder | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`slow_passes`: None for any number."""
        self._pace = pace or LoopYielder()
        self._clock = clock
        self._slow_passes = slow_passes
        self._waiting = 0
        """Passes that write to slow types."""
        self._comes_back = 0.0
        """When the last pass that was put back comes again."""
        self._slow_until: dict[GroupKind, float] = {}
        self._under_way: dict[int, tuple[GroupKind, float]] = {}
        """Type and beginning of writes, the oldest first."""
        self._numbers = itertools.count()
        self._per_type = per_type
        self._total = asyncio.Semaphore(total)
        self._pools: dict[GroupKind, asyncio.Semaphore] = {}

    def slow_types(self) -> set[GroupKind]:
        """Return the types of which a write takes long, or did a while ago."""
        now = self._clock()
        self._slow_until = {each: until for each, until in self._slow_until.items() if until > now}
        old = itertools.takewhile(lambda begun: begun[1] < now - SLOW, self._under_way.values())
        return {*self._slow_until, *(kind for kind, _ in old)}

    @contextmanager
    def taking_part(self, types: Collection[GroupKind]) -> Generator[None]:
        """Be a pass that writes to these types. Raises TypeIsSlow if it would wait with too many others."""
        if self._slow_passes is None or self.slow_types().isdisjoint(types):
            yield
            return
        if self._waiting >= self._slow_passes:
            now = self._clock()
            self._comes_back = max(self._comes_back + _PUT_BACK, now + SLOW)
            raise TypeIsSlow(self._comes_back - now)
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    async def run(self, jobs: Iterable[Job[T]]) -> list[T | Exception]:
        """Run all jobs; results in their order. An exception of one job is its result.

        No more tasks are made than can run: a sync of 100,000 tenants is a list, not as many tasks.
        """
        waiting: dict[GroupKind, deque[tuple[int, Job[T]]]] = {}
        count = 0
        for count, job in enumerate(jobs, 1):
            waiting.setdefault(job.kind, deque()).append((count - 1, job))
        results: dict[int, T | Exception] = {}
        if count == 1:
            return [await self._one(job) for queue in waiting.values() for _, job in queue]
        async with asyncio.TaskGroup() as group:
            for queue in waiting.values():
                for _ in range(min(self._per_type, len(queue))):
                    group.create_task(self._work_off(queue, results))
        return [results[place] for place in range(count)]

    async def _work_off(
        self, queue: deque[tuple[int, Job[T]]], results: dict[int, T | Exception]
    ) -> None:
        while queue:
            place, job = queue.popleft()
            results[place] = await self._one(job)

    async def _one(self, job: Job[T]) -> T | Exception:
        pool = self._pools.setdefault(job.kind, asyncio.Semaphore(self._per_type))
        # The type's pool first: who waits there must not hold one of the places all types share.
        async with pool, self._total:
            await self._pace.wait_turn()
            number, begun = next(self._numbers), self._clock()
            self._under_way[number] = job.kind, begun
            try:
                return await job.run()
            except Exception as error:  # noqa: BLE001 - the caller decides, job by job
                return error
            finally:
                del self._under_way[number]
                if (took := self._clock() - begun) > SLOW:
                    self._slow_until[job.kind] = begun + (1 + _REMEMBERED) * took
