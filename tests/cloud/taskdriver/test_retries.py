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
from tests.cloud.taskdriver.harness import PLAIN, Life, TaskDriverHarness, run_of

ONCE = replace(PLAIN, once=True)


async def attempt(harness: TaskDriverHarness) -> int:
    return run_of((await harness.read()).status).attempt


async def fail_all(life: Life) -> None:
    """Every attempt that there is fails."""
    harness = life.harness
    await life.drive()
    for _ in range(PLAIN.retries.limit):
        progress = await life.finish(RunState.FAILED, message="no quota")
        harness.clock.advance(progress.requeue_after or 0)
        await life.drive()


@pytest.mark.criterion("SG-29")
async def test_a_failed_run_is_tried_again_later_and_later_up_to_the_limit(
    harness: TaskDriverHarness,
) -> None:
    await harness.make()
    delays = []
    async with harness.life() as life:
        await life.drive()
        for number in (1, 2):
            progress = await life.finish(RunState.FAILED, message="no quota")
            status = (await harness.read()).status
            assert (status.phase, await attempt(harness)) == (Phase.RETRYING, number)
            assert "no quota" in status.message
            assert f"Attempt {number + 1} follows" in status.message
            assert progress.requeue_after is not None
            delays.append(progress.requeue_after)
            harness.clock.advance(progress.requeue_after - 1)
            await life.drive()
            assert await attempt(harness) == number, "not before its time"
            harness.clock.advance(1)
            await life.drive()
            assert await attempt(harness) == number + 1
        progress = await life.finish(RunState.FAILED, message="no quota")
    assert delays == [30.0, 60.0]
    status = (await harness.read()).status
    assert (status.phase, progress.requeue_after) == (Phase.FAILED, None)
    assert RETRY in status.message
    assert list(harness.outside.begun.values()) == [1, 1, 1]


@pytest.mark.criterion("SG-29")
async def test_newer_inputs_begin_anew_at_once(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life() as life:
        await fail_all(life)
        await harness.change(domain="new.example.com")
        await life.drive()
        assert await attempt(harness) == 1
        await life.finish()
    assert is_ready(await harness.read())


@pytest.mark.criterion("SG-29")
@pytest.mark.parametrize("how", ["task", "provider"])
async def test_what_is_rejected_is_not_tried_again(harness: TaskDriverHarness, how: str) -> None:
    await harness.make()
    async with harness.life() as life:
        if how == "provider":
            harness.outside.refuse = "the image name is empty"
            progress = await life.drive()
        else:
            await life.drive()
            progress = await life.finish(RunState.FAILED, message="bad zone", retryable=False)
        harness.clock.advance(86400)
        await life.drive()
    status = (await harness.read()).status
    assert (run_of(status).outcome, run_of(status).attempt) == (TaskOutcome.REJECTED, 1)
    assert (status.phase, progress.requeue_after) == (Phase.FAILED, None)
    assert status.task_conditions[0].status == "False"
    assert run_of(status).message in status.message


@pytest.mark.criterion("SG-29")
async def test_the_annotation_gives_one_more_attempt_once(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life() as life:
        await fail_all(life)
        assert await attempt(harness) == 3
        await harness.annotate_all("acme", {RETRY: "please"})
        await life.drive()
        assert await attempt(harness) == 4
        await life.finish(RunState.FAILED)
        harness.clock.advance(86400)
        await life.drive()
        assert await attempt(harness) == 4, "the same word counts once"
        await harness.annotate_all("acme", {RETRY: "again"})
        await life.drive()
        await life.finish()
    status = (await harness.read()).status
    assert (status.phase, status.last_handled_retry, run_of(status).attempt) == (
        Phase.READY,
        "again",
        5,
    )


async def test_the_annotation_hurries_an_attempt_and_a_success_needs_none(
    harness: TaskDriverHarness,
) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive()
        await life.finish(RunState.FAILED)
        await harness.annotate_all("acme", {RETRY: "now"})
        await life.drive()
        assert await attempt(harness) == 2
        await harness.annotate_all("acme", {RETRY: "more"})
        await life.drive()
        assert (await harness.read()).status.last_handled_retry == "now", "one is under way"
        await life.finish()
        await life.drive()
    status = (await harness.read()).status
    assert (status.last_handled_retry, run_of(status).attempt) == ("more", 2)
    assert sum(harness.outside.begun.values()) == 2


@pytest.mark.criterion("SG-30")
@pytest.mark.parametrize("heeds", [True, False])
async def test_a_run_beyond_its_deadline_is_cancelled_and_counts_as_too_long(
    harness: TaskDriverHarness, heeds: bool
) -> None:
    await harness.make()
    async with harness.life(told=True) as life:
        await life.drive()
        run = run_of((await harness.read()).status)
        harness.outside.move(run.run_id, RunState.RUNNING)
        progress = await life.drive()
        assert run.deadline is not None
        assert progress.requeue_after == (run.deadline - harness.clock()).total_seconds()
        harness.outside.heeds_cancel = heeds
        harness.clock.advance(progress.requeue_after)
        await life.drive()
        assert harness.outside.cancelled == [run.run_id]
        if not heeds:
            assert "being cancelled" in (await harness.read()).status.message
            harness.clock.advance(life.tools.pace.grace)
            await life.drive()
            assert harness.outside.deleted == [run.run_id], "it did not heed, so it is deleted"
        harness.clock.advance(30)
        await life.drive()
        status = (await harness.read()).status
        ended = next(item for item in [run_of(status), *status.history] if item.attempt == 1)
        assert ended.outcome is TaskOutcome.TIMED_OUT
        harness.clock.advance(PLAIN.retries.base)
        await life.drive()
        assert await attempt(harness) == 2


async def test_a_run_that_cannot_be_started_is_given_up_at_its_deadline(
    harness: TaskDriverHarness,
) -> None:
    await harness.make()
    async with harness.life() as life:
        for _ in range(4):
            harness.outside.fail.add("start")
            with pytest.raises(Exception, match="start did not get through"):
                await life.drive()
        assert run_of((await harness.read()).status).state is TaskState.CREATING
        harness.clock.advance(PLAIN.timeout)
        harness.outside.fail.clear()
        await life.drive()
    status = (await harness.read()).status
    assert run_of(status).outcome is TaskOutcome.TIMED_OUT
    assert not harness.outside.begun


async def test_paused_starts_nothing_and_awaits_what_runs(harness: TaskDriverHarness) -> None:
    await harness.make(annotations={PAUSED: "true"})
    async with harness.life() as life:
        await life.drive()
        status = (await harness.read()).status
        assert (status.phase, status.run) == (Phase.PAUSED, None)
        assert PAUSED in status.message
        await harness.annotate_all("acme", {PAUSED: None})
        await life.drive()
        await harness.annotate_all("acme", {PAUSED: "true"})
        await harness.change(domain="new.example.com")
        await life.finish()
        status = (await harness.read()).status
        assert status.succeeded is not None, "what ran was awaited"
        assert status.phase is Phase.PAUSED
        assert len(harness.outside.begun) == 1
        await harness.annotate_all("acme", {PAUSED: None})
        await life.drive()
        await life.finish()
    assert is_ready(await harness.read())


async def test_held_starts_nothing_and_reports_why(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive(held=Hold(reason="Test", message="The spec was changed by hand."))
        status = (await harness.read()).status
        assert status.message == "The spec was changed by hand."
        assert not harness.outside.begun


@pytest.mark.criterion("SIM-F9")
async def test_what_is_held_by_the_time_its_place_is_granted_starts_nothing_and_keeps_no_place(
    harness: TaskDriverHarness,
) -> None:
    await harness.make()
    async with harness.life() as life:
        hold = Hold(reason="VersionLeft", message="The data were upgraded meanwhile.")
        await life.drive(version_hold=lambda: hold)
        found = await harness.read()
        assert found.status.message == hold.message
        assert not harness.outside.begun
        assert not life.tools.limiter.holds(found.metadata.uid or "")  # type: ignore[attr-defined]
        await life.drive()
        assert len(harness.outside.begun) == 1


async def test_once_is_once_whatever_becomes_of_the_inputs(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive(definition=ONCE)
        await harness.change(domain="new.example.com")
        await life.drive(definition=ONCE)
        assert not run_of((await harness.read()).status).superseded
        await life.finish(RunState.FAILED, definition=ONCE)
        await harness.change(domain="newer.example.com")
        await life.drive(definition=ONCE)
        assert await attempt(harness) == 1, "it waits for its second attempt"
        harness.clock.advance(30)
        await life.drive(definition=ONCE)
        assert await attempt(harness) == 2
        await life.finish(definition=ONCE)
        await harness.change(domain="newest.example.com")
        progress = await life.drive(definition=ONCE)
        assert progress.requeue_after is None
    assert len(harness.outside.begun) == 2
    assert is_ready(await harness.read(), once=True)


async def test_a_periodic_task_runs_once_in_each_slot(harness: TaskDriverHarness) -> None:
    await harness.make()
    period = 600.0
    async with harness.life() as life:
        await life.drive(period=period)
        progress = await life.finish(period=period)
        slots = {run_of((await harness.read()).status).slot}
        for _ in range(3):
            assert progress.requeue_after is not None
            assert progress.requeue_after <= period
            before = sum(harness.outside.begun.values())
            progress = await life.drive(period=period)
            assert sum(harness.outside.begun.values()) == before
            harness.clock.advance(progress.requeue_after or 0)
            await life.drive(period=period)
            resource = await harness.read()
            assert is_ready(resource), "the inputs are still carried out"
            slots.add(run_of(resource.status).slot)
            progress = await life.finish(period=period)
    assert len(slots) == 4
    assert list(harness.outside.begun.values()) == [1, 1, 1, 1]


async def test_a_periodic_task_that_failed_begins_anew_in_the_next_slot(
    harness: TaskDriverHarness,
) -> None:
    await harness.make()
    tries = replace(PLAIN, retries=replace(PLAIN.retries, limit=1))
    async with harness.life() as life:
        await life.drive(period=600.0, definition=tries)
        progress = await life.finish(RunState.FAILED, period=600.0, definition=tries)
        status = (await harness.read()).status
        assert status.phase is Phase.FAILED
        assert progress.requeue_after is not None
        harness.clock.advance(progress.requeue_after)
        await life.drive(period=600.0, definition=tries)
        assert await attempt(harness) == 1
        await life.finish(period=600.0, definition=tries)
    assert is_ready(await harness.read())


@pytest.mark.criterion("SG-53")
async def test_old_runs_are_deleted_from_the_provider(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life() as life:
        for number in range(5):
            await harness.change(domain=f"d{number}.example.com")
            await life.drive()
            await life.finish()
    resource = await harness.read()
    kept = [run.run_id for run in harness.outside.of(resource.metadata.uid)]
    recorded = [run_of(resource.status), *resource.status.history]
    assert kept == [run.run_id for run in reversed(recorded)]
    assert len(kept) == PLAIN.history
    last, first = recorded[0].finished_at, recorded[-1].finished_at
    assert last is not None
    assert first is not None
    assert last - first >= timedelta(0)
