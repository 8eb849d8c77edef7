"""Workers that never wait let other tasks run; those that wait have no need to yield."""

from __future__ import annotations

import asyncio
import time

import pytest

from ctrlruntime.controller.loop_yielder import LoopYielder


async def test_a_slice_is_that_of_one_turn_of_the_loop() -> None:
    yielder = LoopYielder(slice_seconds=0.0)
    yielder.begin()
    assert yielder.used_up
    await asyncio.sleep(0)
    assert not yielder.used_up, "the wait ended the turn"


@pytest.mark.parametrize("begun", [True, False])
async def test_only_a_slice_that_is_begun_and_not_used_up_costs_no_turn(begun: bool) -> None:
    """Who has not begun a slice may have worked for long."""
    yielder, turns = LoopYielder(slice_seconds=1000.0), list[None]()
    asyncio.get_running_loop().call_soon(turns.append, None)
    if begun:
        yielder.begin()
    await yielder.maybe_yield()
    assert len(turns) == (0 if begun else 1)


async def test_each_step_that_uses_the_slice_up_is_followed_by_a_turn() -> None:
    yielder, turns = LoopYielder(slice_seconds=0.0), 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    for _ in range(10):
        await yielder.maybe_yield()
    task.cancel()
    assert turns >= 10


async def test_however_many_tasks_wake_up_one_turn_has_one_slice() -> None:
    """Ten that get work at the same moment would otherwise hold the loop for ten slices."""
    yielder, begun = LoopYielder(slice_seconds=0.001), asyncio.Event()
    turn, worked_in = 0, []

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def work() -> None:
        await begun.wait()
        await yielder.wait_turn()
        worked_in.append(turn)
        until = time.monotonic() + 0.002
        while time.monotonic() < until:
            pass

    counting = asyncio.create_task(count_turns())
    working = [asyncio.create_task(work()) for _ in range(10)]
    await asyncio.sleep(0)
    begun.set()
    await asyncio.gather(*working)
    counting.cancel()
    assert len(worked_in) == len(set(worked_in)) == 10
