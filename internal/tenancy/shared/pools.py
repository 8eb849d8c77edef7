"""Worker pools per resource type: a level's writes run side by side, in bounded batches."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.controller.loop_yielder import LoopYielder
from ctrlruntime.fast_dataclass import fast_dataclass

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@fast_dataclass(frozen=True, slots=True)
class Job(Generic[T_co]):
    """One write, and the type of resource whose pool it runs in."""

    kind: GroupKind
    run: Callable[[], Awaitable[T_co]]


class WorkerPools:
    """Bounds how many writes are under way, per resource type and altogether.

    Pools are shared by all tenants, so that 10 tenants with 50 Deployments each do not send 500
    requests at once, and a slow type does not hold up the others. Jobs that find nothing to write,
    as nearly all do after a restart, never wait for an answer: `pace` keeps them from holding the loop.
    """

    def __init__(
        self, *, per_type: int = 16, total: int = 64, pace: LoopYielder | None = None
    ) -> None:
        self._pace = pace or LoopYielder()
        self._per_type = per_type
        self._total = asyncio.Semaphore(total)
        self._pools: dict[GroupKind, asyncio.Semaphore] = {}

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
            try:
                return await job.run()
            except Exception as error:  # noqa: BLE001 - the caller decides, job by job
                return error
