"""The asyncio front on virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from ctrlruntime.queue import PriorityQueue, QueueShutDown, Request

pytestmark = pytest.mark.looptime

A, B = Request("a", namespace="default"), Request("b", namespace="default")


@pytest.mark.criterion("WQ-03")
async def test_two_workers_never_hold_the_same_key() -> None:
    queue = PriorityQueue()
    held: set[Request] = set()
    runs: Counter[Request] = Counter()

    async def producer(number: int) -> None:
        for index in range(50):
            queue.add(Request(str(index % 10), namespace="default"), priority=number % 3)
            await asyncio.sleep(0.001 * (number % 7))

    async def worker() -> None:
        while True:
            item = await queue.get()
            assert item.request not in held
            held.add(item.request)
            await asyncio.sleep(0.002)
            runs[item.request] += 1
            held.remove(item.request)
            queue.done(item.request)

    workers = [asyncio.create_task(worker()) for _ in range(10)]
    await asyncio.gather(*(producer(number) for number in range(50)))
    await queue.shutdown(drain=True)
    results = await asyncio.gather(*workers, return_exceptions=True)
    assert {type(result) for result in results} == {QueueShutDown}
    assert set(runs) == {Request(str(index), namespace="default") for index in range(10)}
    assert not held


@pytest.mark.criterion("WQ-04")
async def test_queued_keys_are_delivered_then_get_reports_shutdown() -> None:
    queue = PriorityQueue()
    queue.add(A)
    queue.shutdown()
    queue.add(B)
    item = await queue.get()
    assert item.request == A
    queue.done(A)
    with pytest.raises(QueueShutDown):
        await queue.get()


@pytest.mark.criterion("WQ-05")
async def test_drain_waits_for_processing_and_is_not_blocked_by_re_adds() -> None:
    queue = PriorityQueue()
    queue.add(A)
    await queue.get()
    drained = queue.shutdown(drain=True)
    queue.add(A)
    await asyncio.sleep(10)
    assert not drained.done()
    queue.done(A)
    await asyncio.wait_for(drained, 1)


@pytest.mark.criterion("WQ-06")
async def test_a_plain_shutdown_releases_a_drain() -> None:
    queue = PriorityQueue()
    queue.add(A)
    await queue.get()
    drained = queue.shutdown(drain=True)
    queue.shutdown()
    await asyncio.wait_for(drained, 1)


@pytest.mark.criterion("WQ-09")
async def test_a_blocked_getter_wakes_when_a_delayed_item_is_due() -> None:
    queue = PriorityQueue()
    loop = asyncio.get_running_loop()
    started = loop.time()
    getter = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add(A, after=100)
    queue.add(B, after=20)
    item = await getter
    assert item.request == B
    assert loop.time() - started == pytest.approx(20, abs=0.1)
    item = await queue.get()
    assert item.request == A
    assert loop.time() - started == pytest.approx(100, abs=0.1)


@pytest.mark.criterion("PQ-09")
async def test_shutdown_wakes_all_blocked_getters() -> None:
    queue = PriorityQueue()
    getters = [asyncio.create_task(queue.get()) for _ in range(10)]
    await asyncio.sleep(0)
    queue.add(A)
    queue.shutdown()
    done, pending = await asyncio.wait(getters, timeout=1)
    assert len(pending) == 0
    delivered = [getter for getter in done if getter.exception() is None]
    assert len(delivered) == 1


@pytest.mark.criterion("PQ-09")
async def test_getters_waiting_for_a_held_item_end_when_it_was_delivered() -> None:
    queue = PriorityQueue()
    queue.add(A)
    await queue.get()
    queue.add(A)
    queue.shutdown()
    getters = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.done(A)
    done, pending = await asyncio.wait(getters, timeout=1)
    assert len(pending) == 0
    assert sum(isinstance(getter.exception(), QueueShutDown) for getter in done) == 2
    assert [g.result().request for g in done if g.exception() is None] == [A]


async def test_a_cancelled_getter_passes_its_wake_up_on() -> None:
    queue = PriorityQueue()
    first, second = (asyncio.create_task(queue.get()) for _ in range(2))
    await asyncio.sleep(0)
    queue.add(A)
    first.cancel()
    item = await asyncio.wait_for(second, 1)
    assert item.request == A


async def test_retries_are_counted_and_forgotten() -> None:
    queue = PriorityQueue()
    for _ in range(3):
        queue.add(A, rate_limited=True)
    assert queue.retries(A) == 3
    queue.forget(A)
    assert queue.retries(A) == 0
