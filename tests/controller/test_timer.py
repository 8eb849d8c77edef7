"""A pass for each object that is there, every so many seconds."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from ctrlruntime.cache.entry import EntryDecoder
from ctrlruntime.controller import Builder, Result, TerminalError, reconcile_context
from ctrlruntime.controller.object_timer import JITTER, ObjectTimer
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.eventually import eventually_gone, eventually_holds
from ctrlruntime.queue import Request
from tests.client.support import CONFIG_MAP, config_map
from tests.support.manager_harness import make_manager

from .support import A, B, Outcome, Script, controller, running, settled

pytestmark = pytest.mark.criterion("D-30")

EVERY = 10.0
ENTRY = EntryDecoder(CONFIG_MAP).decode_manifest(config_map("a"))


@pytest.mark.looptime
@pytest.mark.parametrize(
    "outcomes",
    [
        [],
        [Result(requeue_after=3600)],
        [TerminalError("no such plan")],
        [OSError(str(index)) for index in range(15)],
    ],
    ids=["success", "requeued", "terminal", "retried"],
)
async def test_a_pass_begins_at_least_every_so_many_seconds(outcomes: list[Outcome]) -> None:
    script = Script(*outcomes)
    subject = controller(script, timer=ObjectTimer(EVERY, {A: ENTRY}.get))
    async with running(subject):
        subject.queue.add(A)
        await asyncio.sleep(10 * EVERY)
    gaps = [later - earlier for earlier, later in pairwise(script.times)]
    assert max(gaps) <= EVERY + 0.01
    assert len(gaps) >= 9
    if not any(isinstance(each, OSError) for each in outcomes):
        assert min(gaps) >= EVERY * (1 - JITTER) - 0.01


@pytest.mark.looptime
async def test_an_event_or_a_shorter_requeue_moves_the_timer_and_is_no_pass_more() -> None:
    reasons: list[frozenset[str]] = []

    async def note() -> Result | None:
        reasons.append(reconcile_context().reasons)
        return Result(requeue_after=2) if len(reasons) == 1 else None

    script = Script(*[note] * 9)
    subject = controller(script, timer=ObjectTimer(EVERY, {A: ENTRY}.get))
    async with running(subject):
        subject.queue.add(A, reason="listed")
        await script.until(2)
        await asyncio.sleep(5)
        subject.queue.add(A, reason="updated")
        await script.until(4)
    assert [set(each) for each in reasons[:4]] == [
        {"listed"},
        {"requeued by the reconciler"},
        {"updated"},
        {"every 10 s"},
    ]
    assert script.times[3] - script.times[2] >= EVERY * (1 - JITTER) - 0.01


@pytest.mark.looptime
async def test_it_ends_with_the_object_also_where_its_deletion_led_to_no_pass() -> None:
    there = {A: ENTRY}
    script = Script()
    subject = controller(script, timer=ObjectTimer(EVERY, there.get))
    async with running(subject):
        subject.queue.add(A)
        await script.until(2)
        await settled()
        there.clear()
        await asyncio.sleep(5 * EVERY)
        subject.queue.add(B)  # which never was there
        await asyncio.sleep(5 * EVERY)
        assert script.runs == [A, A, B]
        assert subject.ready_in() is None
        subject.queue.add(A, reason="deleted")
        await script.until(4)
        await settled()
        assert subject.ready_in() is None


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf"), True, "60"], ids=repr)
async def test_what_is_no_interval_is_refused(wrong: float) -> None:
    async with Environment() as environment:
        builder = Builder(make_manager(environment.config("manager")))
        with pytest.raises(ValueError, match="every=60"):
            builder.for_(CONFIG_MAP, every=wrong)


async def test_passes_of_a_manager_cost_no_request_and_end_with_the_object(
    environment: Environment,
) -> None:
    runs: dict[str, int] = {"a": 0, "b": 0}

    async def reconcile(request: Request) -> None:
        runs[request.name] = runs.get(request.name, 0) + 1

    client = environment.client("envtest")
    manager = make_manager(environment.config("manager"))
    Builder(manager).for_(CONFIG_MAP, labels="mine=yes", every=0.02).build(reconcile)
    for name in ("a", "b"):
        await client.create(config_map(name, labels={"mine": "yes"}))
    async with manager.running():
        await eventually_holds(lambda: min(runs.values()) >= 1)
        mark = environment.proxy.log.mark()
        before = dict(runs)
        await eventually_holds(lambda: all(runs[each] >= before[each] + 5 for each in runs))
        assert environment.proxy.log.since(mark).select(user="manager").total == 0
        await client.delete(CONFIG_MAP, "a", namespace="default")
        await eventually_gone(client, CONFIG_MAP, "a", namespace="default")
        await eventually_holds(
            lambda: manager.cache.get(CONFIG_MAP, "a", namespace="default") is None
        )
        after = runs["b"]
        await eventually_holds(lambda: runs["b"] >= after + 3)  # those of the deletion are over
        ended = runs["a"]
        await eventually_holds(lambda: runs["b"] >= after + 8)
        assert runs["a"] == ended
