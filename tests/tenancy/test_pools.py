"""Worker pools: jobs that wait for nothing leave the loop to others."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.controller import ControllerOptions, Result
from ctrlruntime.controller.loop_yielder import LoopYielder
from ctrlruntime.controller.reconcile import FuncReconciler
from ctrlruntime.queue import Request
from internal.tenancy.shared.pools import SLOW, Job, TypeIsSlow, WorkerPools
from tests.controller.support import controller as controller_of


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


CONFIG_MAP, SERVICE = GroupKind("", "ConfigMap"), GroupKind("", "Service")
WRITE = 10.0
"""Seconds that a write of a ConfigMap takes."""


@pytest.mark.looptime
@pytest.mark.criterion("R-F15")
@pytest.mark.parametrize("tenants", [60, 2000])
async def test_a_slow_type_holds_up_its_own_tenants_alone(tenants: int) -> None:
    """After the first writes, which show that it is slow, five of ten workers are for the others, however many wait."""
    now = asyncio.get_running_loop().time
    pools = WorkerPools(slow_passes=5, clock=now)
    done: dict[str, float] = {}
    passes = 0

    async def reconcile(request: Request) -> Result | None:
        nonlocal passes
        passes += 1
        kind = SERVICE if request.name.startswith("quick") else CONFIG_MAP
        job = partial(asyncio.sleep, 0.01 if kind == SERVICE else WRITE)
        try:
            with pools.taking_part([kind]):
                await pools.run([Job(kind, job)])
        except TypeIsSlow as slow:
            return Result(requeue_after=slow.after)
        done[request.name] = now()
        return None

    controller = controller_of(
        FuncReconciler(reconcile), ControllerOptions(max_concurrent_reconciles=10)
    )
    for number in range(tenants):
        controller.queue.add(Request(f"slow-{number}", namespace="default"))
    running = asyncio.create_task(controller.start())
    waits = []
    for number in range(20):
        await asyncio.sleep(WRITE / 3)
        began = now()
        controller.queue.add(Request(f"quick-{number}", namespace="default"))
        while f"quick-{number}" not in done:  # noqa: ASYNC110 - virtual time costs nothing
            await asyncio.sleep(0.01)
        waits.append(now() - began)
    seconds, looked = now(), passes
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert max(waits) <= WRITE
    assert max(waits[3:]) < SLOW
    assert looked <= tenants + 25 * seconds, "passes that are put back are paced"
    assert len(done) >= 20 + 5 * (seconds // WRITE - 1), "the slow ones go on"
