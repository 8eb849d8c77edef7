"""Attempts: how often, when, and when not."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from apis.cloud import Phase, TaskOutcome, TaskState
from internal.cloud.labels import PAUSED, RETRY
from internal.cloud.runs import RunState
from internal.cloud.taskdriver import is_ready
from internal.cloud.taskdriver.context import Hold
from tests.cloud.taskdriver.harness import PLAIN, Life, World, run_of

ONCE = replace(PLAIN, once=True)


async def attempt(world: World) -> int:
    return run_of((await world.read()).status).attempt


async def fail_all(life: Life) -> None:
    """Every attempt that there is fails."""
    world = life.world
    await life.drive()
    for _ in range(PLAIN.retries.limit):
        progress = await life.finish(RunState.FAILED, message="no quota")
        world.clock.advance(progress.requeue_after or 0)
        await life.drive()


@pytest.mark.criterion("SG-29")
async def test_a_failed_run_is_tried_again_later_and_later_up_to_the_limit(world: World) -> None:
    await world.make()
    delays = []
    async with world.life() as life:
        await life.drive()
        for number in (1, 2):
            progress = await life.finish(RunState.FAILED, message="no quota")
            status = (await world.read()).status
            assert (status.phase, await attempt(world)) == (Phase.RETRYING, number)
            assert "no quota" in status.message
            assert f"Attempt {number + 1} follows" in status.message
            assert progress.requeue_after is not None
            delays.append(progress.requeue_after)
            world.clock.advance(progress.requeue_after - 1)
            await life.drive()
            assert await attempt(world) == number, "not before its time"
            world.clock.advance(1)
            await life.drive()
            assert await attempt(world) == number + 1
        progress = await life.finish(RunState.FAILED, message="no quota")
    assert delays == [30.0, 60.0]
    status = (await world.read()).status
    assert (status.phase, progress.requeue_after) == (Phase.FAILED, None)
    assert RETRY in status.message
    assert list(world.outside.begun.values()) == [1, 1, 1]


@pytest.mark.criterion("SG-29")
async def test_newer_inputs_begin_anew_at_once(world: World) -> None:
    await world.make()
    async with world.life() as life:
        await fail_all(life)
        await world.change(domain="new.example.com")
        await life.drive()
        assert await attempt(world) == 1
        await life.finish()
    assert is_ready(await world.read())


@pytest.mark.criterion("SG-29")
@pytest.mark.parametrize("how", ["task", "provider"])
async def test_what_is_rejected_is_not_tried_again(world: World, how: str) -> None:
    await world.make()
    async with world.life() as life:
        if how == "provider":
            world.outside.refuse = "the image name is empty"
            progress = await life.drive()
        else:
            await life.drive()
            progress = await life.finish(RunState.FAILED, message="bad zone", retryable=False)
        world.clock.advance(86400)
        await life.drive()
    status = (await world.read()).status
    assert (run_of(status).outcome, run_of(status).attempt) == (TaskOutcome.REJECTED, 1)
    assert (status.phase, progress.requeue_after) == (Phase.FAILED, None)
    assert status.task_conditions[0].status == "False"
    assert run_of(status).message in status.message


@pytest.mark.criterion("SG-29")
async def test_the_annotation_gives_one_more_attempt_once(world: World) -> None:
    await world.make()
    async with world.life() as life:
        await fail_all(life)
        assert await attempt(world) == 3
        await world.annotate_all("acme", {RETRY: "please"})
        await life.drive()
        assert await attempt(world) == 4
        await life.finish(RunState.FAILED)
        world.clock.advance(86400)
        await life.drive()
        assert await attempt(world) == 4, "the same word counts once"
        await world.annotate_all("acme", {RETRY: "again"})
        await life.drive()
        await life.finish()
    status = (await world.read()).status
    assert (status.phase, status.last_handled_retry, run_of(status).attempt) == (
        Phase.READY,
        "again",
        5,
    )


async def test_the_annotation_hurries_an_attempt_and_a_success_needs_none(world: World) -> None:
    await world.make()
    async with world.life() as life:
        await life.drive()
        await life.finish(RunState.FAILED)
        await world.annotate_all("acme", {RETRY: "now"})
        await life.drive()
        assert await attempt(world) == 2
        await world.annotate_all("acme", {RETRY: "more"})
        await life.drive()
        assert (await world.read()).status.last_handled_retry == "now", "one is under way"
        await life.finish()
        await life.drive()
    status = (await world.read()).status
    assert (status.last_handled_retry, run_of(status).attempt) == ("more", 2)
    assert sum(world.outside.begun.values()) == 2


@pytest.mark.criterion("SG-30")
@pytest.mark.parametrize("heeds", [True, False])
async def test_a_run_beyond_its_deadline_is_cancelled_and_counts_as_too_long(
    world: World, heeds: bool
) -> None:
    await world.make()
    async with world.life(told=True) as life:
        await life.drive()
        run = run_of((await world.read()).status)
        world.outside.move(run.run_id, RunState.RUNNING)
        progress = await life.drive()
        assert run.deadline is not None
        assert progress.requeue_after == (run.deadline - world.clock()).total_seconds()
        world.outside.heeds_cancel = heeds
        world.clock.advance(progress.requeue_after)
        await life.drive()
        assert world.outside.cancelled == [run.run_id]
        if not heeds:
            assert "being cancelled" in (await world.read()).status.message
            world.clock.advance(life.tools.pace.grace)
            await life.drive()
            assert world.outside.deleted == [run.run_id], "it did not heed, so it is deleted"
        world.clock.advance(30)
        await life.drive()
        status = (await world.read()).status
        ended = next(item for item in [run_of(status), *status.history] if item.attempt == 1)
        assert ended.outcome is TaskOutcome.TIMED_OUT
        world.clock.advance(PLAIN.retries.base)
        await life.drive()
        assert await attempt(world) == 2


async def test_a_run_that_cannot_be_started_is_given_up_at_its_deadline(world: World) -> None:
    await world.make()
    async with world.life() as life:
        for _ in range(4):
            world.outside.fail.add("start")
            with pytest.raises(Exception, match="start did not get through"):
                await life.drive()
        assert run_of((await world.read()).status).state is TaskState.CREATING
        world.clock.advance(PLAIN.timeout)
        world.outside.fail.clear()
        await life.drive()
    status = (await world.read()).status
    assert run_of(status).outcome is TaskOutcome.TIMED_OUT
    assert not world.outside.begun


async def test_paused_starts_nothing_and_awaits_what_runs(world: World) -> None:
    await world.make(annotations={PAUSED: "true"})
    async with world.life() as life:
        await life.drive()
        status = (await world.read()).status
        assert (status.phase, status.run) == (Phase.PAUSED, None)
        assert PAUSED in status.message
        await world.annotate_all("acme", {PAUSED: None})
        await life.drive()
        await world.annotate_all("acme", {PAUSED: "true"})
        await world.change(domain="new.example.com")
        await life.finish()
        status = (await world.read()).status
        assert status.succeeded is not None, "what ran was awaited"
        assert status.phase is Phase.PAUSED
        assert len(world.outside.begun) == 1
        await world.annotate_all("acme", {PAUSED: None})
        await life.drive()
        await life.finish()
    assert is_ready(await world.read())


async def test_held_starts_nothing_and_says_why(world: World) -> None:
    await world.make()
    async with world.life() as life:
        await life.drive(held=Hold(reason="Test", message="The spec was changed by hand."))
        status = (await world.read()).status
        assert status.message == "The spec was changed by hand."
        assert not world.outside.begun


async def test_once_is_once_whatever_becomes_of_the_inputs(world: World) -> None:
    await world.make()
    async with world.life() as life:
        await life.drive(definition=ONCE)
        await world.change(domain="new.example.com")
        await life.drive(definition=ONCE)
        assert not run_of((await world.read()).status).superseded
        await life.finish(RunState.FAILED, definition=ONCE)
        await world.change(domain="newer.example.com")
        await life.drive(definition=ONCE)
        assert await attempt(world) == 1, "it waits for its second attempt"
        world.clock.advance(30)
        await life.drive(definition=ONCE)
        assert await attempt(world) == 2
        await life.finish(definition=ONCE)
        await world.change(domain="newest.example.com")
        progress = await life.drive(definition=ONCE)
        assert progress.requeue_after is None
    assert len(world.outside.begun) == 2
    assert is_ready(await world.read(), once=True)


async def test_a_periodic_task_runs_once_in_each_slot(world: World) -> None:
    await world.make()
    period = 600.0
    async with world.life() as life:
        await life.drive(period=period)
        progress = await life.finish(period=period)
        slots = {run_of((await world.read()).status).slot}
        for _ in range(3):
            assert progress.requeue_after is not None
            assert progress.requeue_after <= period
            before = sum(world.outside.begun.values())
            progress = await life.drive(period=period)
            assert sum(world.outside.begun.values()) == before
            world.clock.advance(progress.requeue_after or 0)
            await life.drive(period=period)
            resource = await world.read()
            assert is_ready(resource), "the inputs are still carried out"
            slots.add(run_of(resource.status).slot)
            progress = await life.finish(period=period)
    assert len(slots) == 4
    assert list(world.outside.begun.values()) == [1, 1, 1, 1]


async def test_a_periodic_task_that_failed_begins_anew_in_the_next_slot(world: World) -> None:
    await world.make()
    tries = replace(PLAIN, retries=replace(PLAIN.retries, limit=1))
    async with world.life() as life:
        await life.drive(period=600.0, definition=tries)
        progress = await life.finish(RunState.FAILED, period=600.0, definition=tries)
        status = (await world.read()).status
        assert status.phase is Phase.FAILED
        assert progress.requeue_after is not None
        world.clock.advance(progress.requeue_after)
        await life.drive(period=600.0, definition=tries)
        assert await attempt(world) == 1
        await life.finish(period=600.0, definition=tries)
    assert is_ready(await world.read())


@pytest.mark.criterion("SG-53")
async def test_old_runs_are_deleted_from_the_provider(world: World) -> None:
    await world.make()
    async with world.life() as life:
        for number in range(5):
            await world.change(domain=f"d{number}.example.com")
            await life.drive()
            await life.finish()
    resource = await world.read()
    kept = [run.run_id for run in world.outside.of(resource.metadata.uid)]
    recorded = [run_of(resource.status), *resource.status.history]
    assert kept == [run.run_id for run in reversed(recorded)]
    assert len(kept) == PLAIN.history
    last, first = recorded[0].finished_at, recorded[-1].finished_at
    assert last is not None
    assert first is not None
    assert last - first >= timedelta(0)
