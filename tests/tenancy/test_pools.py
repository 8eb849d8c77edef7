"""Worker pools: jobs that wait for nothing leave the loop to others."""

from __future__ import annotations

import asyncio
from functools import partial

from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.controller.loop_yielder import LoopYielder
from internal.tenancy.shared.pools import Job, WorkerPools


async def test_jobs_of_all_kinds_share_one_slice_of_each_turn() -> None:
    """With a slice that each job uses up, no turn of the loop has two of them."""
    turn = 0

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def job() -> int:
        return turn

    kinds = [GroupKind("", kind) for kind in ("ConfigMap", "Secret", "Service")]
    pools = WorkerPools(pace=LoopYielder(slice_seconds=0.0))
    counting = asyncio.create_task(count_turns())
    try:
        turns = await pools.run(Job(kind, partial(job)) for kind in kinds * 4)
    finally:
        counting.cancel()
    assert len(set(turns)) == 12
