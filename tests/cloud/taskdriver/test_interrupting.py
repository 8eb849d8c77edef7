"""A run under way is cancelled some time after a deletion, newer inputs or a retry. In virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from apis.cloud import InstanceTerraform, Phase, TaskOperation, TaskOutcome
from ctrlruntime.controller import annotations as annotation_keys
from internal.cloud.labels import PAUSED, RETRY, SUPERSEDED
from internal.cloud.pace import Pace
from internal.cloud.runs import RunState
from tests.cloud.taskdriver.harness import NAMESPACE, PLAIN, TaskDriverHarness, run_of

pytestmark = pytest.mark.criterion("H-B9")

TEARS_DOWN = replace(PLAIN, teardown=True)
ONCE = replace(PLAIN, once=True)
GRACE = 30.0
Cause = Callable[[TaskDriverHarness], Awaitable[None]]


async def change(harness: TaskDriverHarness) -> None:
    await harness.change(domain="new.example.com")


async def delete(harness: TaskDriverHarness) -> None:
    await harness.admin.delete(InstanceTerraform, "acme", namespace=NAMESPACE)


async def retry(harness: TaskDriverHarness) -> None:
    await harness.annotate_all("acme", {RETRY: "now"})


CAUSES = pytest.mark.parametrize("cause", [change, delete, retry])


@CAUSES
async def test_h_b9_it_is_cancelled_after_the_grace_and_then_the_next_begins(
    harness: TaskDriverHarness, cause: Cause
) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive(definition=TEARS_DOWN)
        first = run_of((await harness.read()).status)
        harness.outside.move(first.run_id, RunState.RUNNING)
        harness.outside.heeds_cancel = False
        await cause(harness)
        await life.drive(definition=TEARS_DOWN)
        status = (await harness.read()).status
        assert run_of(status).interrupt_at is not None
        assert "cancelled at" in status.message
        harness.clock.advance(GRACE - 2)
        await life.drive(definition=TEARS_DOWN)
        assert harness.outside.cancelled == []
        harness.clock.advance(3)
        await life.drive(definition=TEARS_DOWN)
        assert set(harness.outside.cancelled) == {first.run_id}
        assert "is being cancelled" in (await harness.read()).status.message
        assert [run.run_id for run in harness.outside.live()] == [first.run_id], "none beside it"

        harness.outside.move(first.run_id, RunState.CANCELLED)
        await life.drive(definition=TEARS_DOWN)
        status = (await harness.read()).status
        before = next(run for run in status.history if run.run_id == first.run_id)
        assert before.outcome is TaskOutcome.CANCELLED
        run = run_of(status)
        operation = TaskOperation.TEARDOWN if cause is delete else TaskOperation.APPLY
        assert (run.operation, run.interrupt_at) == (operation, None)
        assert harness.outside.live()
    assert harness.outside.most_live == 1


@CAUSES
async def test_h_b9_one_that_heeds_no_cancel_is_deleted(
    harness: TaskDriverHarness, cause: Cause
) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive(definition=TEARS_DOWN)
        first = run_of((await harness.read()).status).run_id
        harness.outside.heeds_cancel = False
        await cause(harness)
        await life.drive(definition=TEARS_DOWN)
        harness.clock.advance(GRACE + life.tools.pace.grace + 1)
        await life.drive(definition=TEARS_DOWN)
        assert first in harness.outside.deleted
        await life.drive(definition=TEARS_DOWN)
        status = (await harness.read()).status
        before = next(run for run in status.history if run.run_id == first)
        assert before.outcome is TaskOutcome.CANCELLED


@CAUSES
async def test_h_b9_the_next_pass_comes_when_the_grace_is_over(
    harness: TaskDriverHarness, cause: Cause
) -> None:
    """A provider that reports changes is not polled: the driver wakes itself."""
    await harness.make()
    async with harness.life(told=True) as life:
        await life.drive(definition=TEARS_DOWN)
        run_id = run_of((await harness.read()).status).run_id
        harness.outside.move(run_id, RunState.RUNNING)
        await life.drive(definition=TEARS_DOWN)
        await cause(harness)
        progress = await life.drive(definition=TEARS_DOWN)
        assert progress.requeue_after is not None
        assert progress.requeue_after <= GRACE


async def test_h_b9_a_run_that_ends_in_the_grace_counts(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive()
        await retry(harness)
        await life.drive()
        await life.finish()
        status = (await harness.read()).status
        assert status.succeeded is not None
        assert status.last_handled_retry == "now"
    assert harness.outside.cancelled == []
    assert len(harness.outside.begun) == 1


async def test_h_b9_a_change_that_is_taken_back_interrupts_nothing(
    harness: TaskDriverHarness,
) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive()
        await change(harness)
        await life.drive()
        await harness.change(domain=None)
        await life.drive()
        assert run_of((await harness.read()).status).interrupt_at is None
        harness.clock.advance(GRACE * 2)
        await life.drive()
    assert harness.outside.cancelled == []


async def test_h_b9_while_paused_a_run_is_awaited(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive()
        await harness.annotate_all("acme", {PAUSED: "true", RETRY: "now"})
        await change(harness)
        await life.drive()
        harness.clock.advance(GRACE * 2)
        await life.drive()
    assert harness.outside.cancelled == []


async def test_h_b9_a_retry_interrupts_what_is_carried_out_once(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive(definition=ONCE)
        first = run_of((await harness.read()).status).run_id
        await retry(harness)
        await life.drive(definition=ONCE)
        harness.clock.advance(GRACE + 1)
        await life.drive(definition=ONCE)
        await life.drive(definition=ONCE)
        assert harness.outside.cancelled[:1] == [first]
        assert run_of((await harness.read()).status).attempt == 2


async def test_h_b9_an_upgrade_is_interrupted_when_another_version_is_wanted(
    harness: TaskDriverHarness,
) -> None:
    """Its Instance pauses it with the mark; that is no wish of a person that it may end."""
    await harness.make()
    async with harness.life() as life:
        await life.drive(definition=ONCE)
        first = run_of((await harness.read()).status).run_id
        harness.outside.move(first, RunState.RUNNING)
        harness.outside.heeds_cancel = False
        await harness.annotate_all("acme", {SUPERSEDED: "true", PAUSED: "true"})
        await life.drive(definition=ONCE)
        message = (await harness.read()).status.message
        assert "cancelled at" in message
        assert "the upgrade that is wanted now is carried out" in message
        harness.clock.advance(GRACE - 2)
        await life.drive(definition=ONCE)
        assert harness.outside.cancelled == []
        harness.clock.advance(3)
        await life.drive(definition=ONCE)
        assert set(harness.outside.cancelled) == {first}
        harness.outside.move(first, RunState.CANCELLED)
        await life.drive(definition=ONCE)
        status = (await harness.read()).status
        assert run_of(status).outcome is TaskOutcome.CANCELLED
        assert status.phase is Phase.SUPERSEDED
        harness.clock.advance(7200)
        await life.drive(definition=ONCE)
    assert len(harness.outside.begun) == 1, "no attempt follows"


@pytest.mark.parametrize("of_instance", [PAUSED, annotation_keys.PAUSED])
async def test_h_b9_while_its_instance_is_paused_a_superseded_upgrade_is_awaited(
    harness: TaskDriverHarness, of_instance: str
) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive(definition=ONCE)
        await harness.annotate_all("acme", {SUPERSEDED: "true", PAUSED: "true"})
        await life.drive(definition=ONCE, paused_by=of_instance)
        harness.clock.advance(GRACE * 2)
        await life.drive(definition=ONCE, paused_by=of_instance)
        assert run_of((await harness.read()).status).interrupt_at is None
    assert harness.outside.cancelled == []


async def test_h_b9_the_grace_is_an_option(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life(pace=Pace(interrupt=0.0)) as life:
        await life.drive(definition=PLAIN)
        first = run_of((await harness.read()).status).run_id
        await change(harness)
        await life.drive(definition=PLAIN)
    assert harness.outside.cancelled[:1] == [first]
