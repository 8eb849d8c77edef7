"""Worker pools per resource type: a level's writes run side by side, in bounded batches."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ctrlruntime.api.kinds import GroupKind

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Job(Generic[T_co]):
    """One write, and the type of resource whose pool it runs in."""

    kind: GroupKind
    run: Callable[[], Awaitable[T_co]]


class WorkerPools:
    """Bounds how many writes are under way, per resource type and altogether.

    Pools are shared by all tenants, so that 10 tenants with 50 Deployments each do not send 500
    requests at once, and a slow type does not hold up the others.
    """

    def __init__(self, *, per_type: int = 16, total: int = 64) -> None:
        self._per_type = per_type
        self._total = asyncio.Semaphore(total)
        self._pools: dict[GroupKind, asyncio.Semaphore] = {}

    async def run(self, jobs: Iterable[Job[T]]) -> list[T | Exception]:
        """Run all jobs; results in their order. An exception of one job is its result."""
        async with asyncio.TaskGroup() as group:
            tasks = [self._start(group, job) for job in jobs]
        return [task.result() for task in tasks]

    def _start(self, group: asyncio.TaskGroup, job: Job[T]) -> asyncio.Task[T | Exception]:
        return group.create_task(self._one(job))

    async def _one(self, job: Job[T]) -> T | Exception:
        pool = self._pools.setdefault(job.kind, asyncio.Semaphore(self._per_type))
        # The type's pool first: who waits there must not hold one of the places all types share.
        async with pool, self._total:
            try:
                return await job.run()
            except Exception as error:  # noqa: BLE001 - the caller decides, job by job
                return error
