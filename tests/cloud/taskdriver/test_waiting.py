"""Waiting for a turn: what the status says, how rarely it is written, and that no place is lost."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from apis.cloud import Phase, TaskState, Waiting, WaitingReason
from internal.cloud.concurrency import ConcurrencyLimiter
from internal.cloud.runs import RunState
from internal.cloud.taskdriver.summary import next_look, refreshed
from internal.cloud.tasks.task import Concurrency
from tests.cloud.taskdriver.fake_provider import Lost
from tests.cloud.taskdriver.harness import PLAIN, Clock, TaskDriverHarness, run_of, states

ONE = replace(PLAIN, concurrency=Concurrency(limit=1))
NOW = Clock().now


def waiting(position: int, reason: WaitingReason = WaitingReason.LIMIT) -> Waiting:
    return Waiting(reason=reason, limit=50, position=position, since=NOW)


@pytest.mark.parametrize(
    ("position", "seconds", "written"),
    [
        (100, 3600, False),
        (81, 3600, False),
        (80, 29, False),
        (80, 30, True),
        (120, 30, True),
    ],
)
def test_a_position_is_written_when_it_moved_by_a_fifth_and_not_often(
    position: int, seconds: int, written: bool
) -> None:
    before = refreshed(None, waiting(100), NOW, 30)
    assert before.as_of == NOW
    later = NOW + timedelta(seconds=seconds)
    after = refreshed(before, waiting(position), later, 30)
    assert (after.position == position and after.as_of == later) is written


def test_another_reason_is_written_and_looks_grow_rare() -> None:
    before = refreshed(None, waiting(3), NOW, 30)
    later = NOW + timedelta(seconds=30)
    assert refreshed(before, waiting(3, WaitingReason.RATE), later, 30).reason is WaitingReason.RATE
    looks = [next_look(before, NOW + timedelta(seconds=s), 30) for s in (0, 20, 60, 600)]
    assert looks == [30, 30, 60, 600]


@pytest.mark.criterion("SG-40")
@pytest.mark.criterion("SG-42")
async def test_the_status_reports_what_is_waited_for(harness: TaskDriverHarness) -> None:
    for name in ("first", "second"):
        await harness.make(name)
    async with harness.life(told=True) as life:
        await life.drive("first", definition=ONE)
        harness.clock.advance(1)
        progress = await life.drive("second", definition=ONE)
        status = (await harness.read("second")).status
        assert (status.phase, status.run) == (Phase.WAITING, None)
        assert status.waiting is not None
        assert (status.waiting.reason, status.waiting.limit) == (WaitingReason.LIMIT, 1)
        assert (status.waiting.holder, status.waiting.position) == ("InstanceTerraform/first", 1)
        assert status.waiting.since == status.waiting.as_of
        assert "at most 1 of terraform" in status.message
        assert progress.requeue_after == 30
        mark = harness.env.proxy.log.mark()
        for _ in range(4):
            harness.clock.advance(30)
            await life.step("second", definition=ONE)
        assert harness.env.proxy.log.since(mark).select(user="manager").writes == 0
        assert harness.outside.calls["list"] == 1, "nobody outside is asked by who only waits"
        await life.finish(RunState.SUCCEEDED, "first", definition=ONE)
        assert [owner.name for owner in life.woken] == ["second"]
        await life.drive("second", definition=ONE)
        await life.finish(RunState.SUCCEEDED, "second", definition=ONE)
    status = (await harness.read("second")).status
    assert status.waiting is None
    assert states(status.task_conditions) == [item.value for item in TaskState]
    assert harness.outside.most_live == 1


@pytest.mark.criterion("SG-42")
@pytest.mark.parametrize("broken", ["list", "write"])
async def test_a_pass_that_fails_gives_its_place_back(
    harness: TaskDriverHarness, broken: str
) -> None:
    for name in ("first", "second"):
        await harness.make(name)
    async with harness.life() as life:
        if broken == "list":
            harness.outside.fail.add("list")
            with pytest.raises(Lost):
                await life.step("first", definition=ONE)
        else:
            old = await life.seen("first")
            await harness.change("first", domain="new.example.com")
            progress = await life.step("first", definition=ONE, resource=old)
            assert progress.status.run is None
        ledger = life.tools.limiter
        assert isinstance(ledger, ConcurrencyLimiter)
        assert ledger.running("terraform") == 0
        await life.drive("second", definition=ONE)
        assert run_of((await harness.read("second")).status).state is TaskState.CREATING


async def test_who_no_longer_wants_to_run_leaves_the_queue(harness: TaskDriverHarness) -> None:
    for name in ("first", "second", "third"):
        await harness.make(name)
    async with harness.life() as life:
        for name in ("first", "second", "third"):
            await life.drive(name, definition=ONE)
            harness.clock.advance(1)
        await life.drive("second", definition=ONE, paused_by="a test")
        assert (await harness.read("second")).status.waiting is None
        await life.finish(RunState.SUCCEEDED, "first", definition=ONE)
        assert [owner.name for owner in life.woken] == ["third"]
