"""How many requests are under way at once."""

from __future__ import annotations

import asyncio

import pytest

from ctrlruntime.client.request_slots import RequestSlots

pytestmark = pytest.mark.criterion("PF-2")


async def test_no_more_are_taken_than_there_are() -> None:
    slots = RequestSlots(2)
    assert [slots.take() for _ in range(3)] == [True, True, False]
    slots.release()
    assert slots.take()


async def test_those_who_wait_come_in_order_and_before_later_ones() -> None:
    slots, order = RequestSlots(1), []
    assert slots.take()

    async def work(name: str) -> None:
        await slots.wait()
        order.append(name)

    tasks = [asyncio.create_task(work(name)) for name in "ab"]
    await asyncio.sleep(0)
    slots.release()
    assert not slots.take()
    await tasks[0]
    slots.release()
    await tasks[1]
    assert order == ["a", "b"]


@pytest.mark.parametrize("released_before", [True, False])
async def test_a_slot_is_not_lost_with_a_request_that_is_cancelled(released_before: bool) -> None:
    slots = RequestSlots(1)
    assert slots.take()
    waiting = asyncio.create_task(slots.wait())
    await asyncio.sleep(0)
    if released_before:
        slots.release()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    if not released_before:
        slots.release()
    assert slots.take()


def test_there_is_one_at_least() -> None:
    with pytest.raises(ValueError, match="one request"):
        RequestSlots(0)
