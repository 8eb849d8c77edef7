"""Plain functions as reconcilers: they run in threads, and a pass is over when its thread is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from ctrlruntime.controller import (
    Builder,
    BuilderError,
    ControllerOptions,
    Result,
    as_reconciler,
    logger_from_context,
    reconcile_context,
)
from ctrlruntime.controller.threads import WORKS_ON, ThreadReconciler
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.eventually import eventually_holds
from ctrlruntime.kinds.core.v1 import ConfigMap
from ctrlruntime.manager.pool_threads import working_threads
from ctrlruntime.queue import Request
from tests.client.support import CONFIG_MAP, config_map
from tests.support.manager_harness import make_manager

from .support import A, B, controller, running, series

pytestmark = pytest.mark.criterion("D-31")

LIMIT = 120


class Blocking:
    """A reconciler whose threads go on when they may."""

    def __init__(self) -> None:
        self.runs: list[Request] = []
        self.ended = 0
        self.at_once = 0
        self.begun = threading.Event()
        self.may_end = threading.Event()
        self._busy: set[Request] = set()

    def reconcile(self, request: Request) -> Result | None:
        assert request not in self._busy, "two passes of one object"
        self._busy.add(request)
        self.at_once = max(self.at_once, len(self._busy))
        self.runs.append(request)
        self.begun.set()
        assert self.may_end.wait(LIMIT)
        self._busy.discard(request)
        self.ended += 1
        return None


@pytest.fixture
async def blocking() -> AsyncIterator[Blocking]:
    subject = Blocking()
    yield subject
    subject.may_end.set()  # no thread outlives a test that failed


async def test_two_objects_run_side_by_side_and_one_never_twice(blocking: Blocking) -> None:
    subject = controller(blocking, ControllerOptions(max_concurrent_reconciles=3))
    async with running(subject):
        subject.queue.add(A)
        await asyncio.to_thread(blocking.begun.wait, LIMIT)
        for request in (A, B, A):
            subject.queue.add(request)
        await eventually_holds(lambda: blocking.at_once == 2)
        blocking.may_end.set()
        await eventually_holds(lambda: blocking.ended == 3)
    assert sorted(blocking.runs) == [A, A, B]


async def test_a_timed_out_pass_lasts_until_its_thread_ends(blocking: Blocking) -> None:
    counts = series()
    options = ControllerOptions(max_concurrent_reconciles=2, reconciliation_timeout=0.01)
    subject = controller(blocking, options, metrics=counts)
    with capture_logs() as logs:
        async with running(subject):
            subject.queue.add(A)
            await eventually_holds(lambda: any(each["event"] == WORKS_ON for each in logs))
            subject.queue.add(A)
            subject.queue.add(B)  # a turn of the other worker: it had the chance to take A as well
            await eventually_holds(lambda: B in blocking.runs)
            assert blocking.runs.count(A) == 1
            assert counts.outcomes["error"] == 0
            blocking.may_end.set()
            await eventually_holds(lambda: blocking.runs.count(A) >= 2)
    errors = [each["error"] for each in logs if each["event"] == "Reconciler error"]
    assert errors[0].startswith("ReconcileTimeout: reconcile took longer than 0.01 s")


async def test_a_cancelled_controller_ends_after_its_threads(blocking: Blocking) -> None:
    subject = controller(blocking)
    task = asyncio.create_task(subject.start())
    subject.queue.add(A)
    await asyncio.to_thread(blocking.begun.wait, LIMIT)
    with capture_logs() as logs:
        for _ in range(3):  # whoever stops it may insist
            task.cancel()
            await asyncio.sleep(0)
        await eventually_holds(lambda: any(each["event"] == WORKS_ON for each in logs))
    assert not task.done()
    assert working_threads()
    blocking.may_end.set()
    await asyncio.wait([task], timeout=LIMIT)
    assert task.cancelled()
    assert blocking.ended == 1


async def test_a_pass_that_is_cancelled_before_it_has_a_thread_calls_nothing() -> None:
    called, free = threading.Event(), threading.Event()
    pool = [asyncio.create_task(asyncio.to_thread(free.wait, LIMIT)) for _ in range(64)]
    await asyncio.sleep(0)
    waiting = asyncio.create_task(ThreadReconciler(lambda _: called.set()).reconcile(A))
    await asyncio.sleep(0)
    waiting.cancel()
    try:
        await asyncio.wait([waiting], timeout=LIMIT)
        assert waiting.cancelled()
    finally:
        free.set()
    await asyncio.gather(*pool)
    await asyncio.to_thread(called.is_set)  # what was queued before it has run
    assert not called.is_set()


@pytest.mark.parametrize("error", [OSError, KeyError, StopIteration, asyncio.CancelledError])
async def test_what_it_raises_is_retried_as_of_a_coroutine(error: type[BaseException]) -> None:
    seen: list[tuple[object, ...]] = []

    def reconcile(request: Request) -> Result | None:
        run = reconcile_context()
        seen.append((run.request, run.attempt, threading.current_thread()))
        logger_from_context().info("in the thread")
        if len(seen) == 1:
            raise error("first")
        return Result(requeue_after=0.001) if len(seen) == 2 else None

    with capture_logs() as logs:
        subject = controller(ThreadReconciler(reconcile))
        async with running(subject):
            subject.queue.add(A)
            await eventually_holds(lambda: len(seen) == 3)
    assert [each[:2] for each in seen] == [(A, 0), (A, 1), (A, 0)]
    assert threading.main_thread() not in {each[2] for each in seen}
    line = next(each for each in logs if each["event"] == "in the thread")
    assert (line["name"], bool(line["reconcileID"])) == ("a", True)


async def coroutine(request: Request) -> None: ...


def generator(request: Request) -> Iterator[Request]:
    yield request


async def asynchronous_generator(request: Request) -> AsyncIterator[Request]:
    yield request


async def test_a_plain_function_that_returns_an_awaitable_fails_with_the_fix() -> None:
    with capture_logs() as logs:
        subject = controller(ThreadReconciler(lambda request: coroutine(request)))
        async with running(subject):
            subject.queue.add(A)
            await eventually_holds(
                lambda: any(each["event"] == "Reconciler error" for each in logs)
            )
    assert "write `async def`" in str(logs)


@pytest.mark.parametrize("wrong", [generator, asynchronous_generator])
async def test_a_generator_is_refused(wrong: Callable[[Request], Any]) -> None:
    async with Environment() as environment:
        builder = Builder(make_manager(environment.config("manager"))).for_(CONFIG_MAP)
        with pytest.raises(BuilderError, match="is a generator: return None or a Result"):
            builder.build(wrong)


async def test_a_function_of_the_object_writes_through_the_loop_of_the_manager() -> None:
    async with Environment() as environment:
        manager = make_manager(environment.config("manager"))
        loop = asyncio.get_running_loop()

        def reconcile(found: ConfigMap) -> None:
            if found.data != {"seen": "yes"}:
                patch = manager.client.patch(
                    CONFIG_MAP, "a", {"data": {"seen": "yes"}}, namespace="default"
                )
                asyncio.run_coroutine_threadsafe(patch, loop).result(LIMIT)

        by_object = as_reconciler(manager.client, ConfigMap, reconcile)
        Builder(manager).for_(ConfigMap).build(by_object)
        client = environment.client("envtest")

        async def written() -> bool:
            found = await client.get(CONFIG_MAP, "a", namespace="default")
            return bool(found["data"] == {"seen": "yes"})

        async with manager.running():
            await client.create(config_map("a"))
            assert await eventually_holds(written)
