"""A run that a person cancelled ends, and no other follows by itself. In virtual time."""

from __future__ import annotations

from dataclasses import replace

from apis.cloud import InstanceTerraform, Phase, TaskOperation, TaskOutcome
from internal.cloud.labels import CANCEL, PAUSED, RETRY
from internal.cloud.runs import RunState
from tests.cloud.taskdriver.harness import NAMESPACE, PLAIN, Life, TaskDriverHarness, run_of

TEARS_DOWN = replace(PLAIN, teardown=True)
DAY = 86400.0


async def cancelled(harness: TaskDriverHarness, life: Life) -> str:
    """Start a run, cancel it, and return its id."""
    await life.drive(definition=TEARS_DOWN)
    run_id = run_of((await harness.read()).status).run_id
    harness.outside.move(run_id, RunState.RUNNING)
    await harness.annotate_all("acme", {CANCEL: run_id})
    await life.drive(definition=TEARS_DOWN)
    await life.drive(definition=TEARS_DOWN)
    return run_id


async def test_it_ends_at_once_and_nothing_follows(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life() as life:
        run_id = await cancelled(harness, life)
        status = (await harness.read()).status
        assert set(harness.outside.cancelled) == {run_id}
        assert run_of(status).outcome is TaskOutcome.CANCELLED
        assert run_of(status).retry_at is None
        assert status.phase is Phase.FAILED
        assert "Nothing more is tried: to go on, change the spec" in status.message
        for _ in range(3):
            harness.clock.advance(DAY)
            await life.drive(definition=TEARS_DOWN)
    async with harness.life() as restarted:
        await restarted.drive(definition=TEARS_DOWN)
    assert harness.outside.begun == {run_id: 1}


async def test_a_retry_goes_on_and_the_next_run_is_not_cancelled(
    harness: TaskDriverHarness,
) -> None:
    await harness.make()
    async with harness.life() as life:
        run_id = await cancelled(harness, life)
        await harness.annotate_all("acme", {RETRY: "now"})
        await life.drive(definition=TEARS_DOWN)
        assert run_of((await harness.read()).status).attempt == 2
        await life.finish(definition=TEARS_DOWN)
        assert (await harness.read()).status.phase is Phase.READY
    assert set(harness.outside.cancelled) == {run_id}


async def test_newer_inputs_go_on(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life() as life:
        await cancelled(harness, life)
        await harness.change(domain="new.example.com")
        await life.drive(definition=TEARS_DOWN)
        await life.finish(definition=TEARS_DOWN)
        assert (await harness.read()).status.phase is Phase.READY
    assert len(harness.outside.begun) == 2


async def test_without_the_annotation_the_next_attempt_is_scheduled(
    harness: TaskDriverHarness,
) -> None:
    await harness.make()
    async with harness.life() as life:
        await cancelled(harness, life)
        await harness.annotate_all("acme", {CANCEL: None})
        await life.drive(definition=TEARS_DOWN)
        assert (await harness.read()).status.phase is Phase.RETRYING
        harness.clock.advance(DAY)
        await life.drive(definition=TEARS_DOWN)
    assert len(harness.outside.begun) == 2


async def test_it_is_cancelled_while_paused_too(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive()
        await harness.annotate_all("acme", {PAUSED: "true"})
        run_id = await cancelled(harness, life)
    assert set(harness.outside.cancelled) == {run_id}


async def test_one_that_heeds_no_cancel_is_deleted(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life() as life:
        harness.outside.heeds_cancel = False
        run_id = await cancelled(harness, life)
        message = (await harness.read()).status.message
        assert message == "The run under way is being cancelled; no other follows by itself."
        assert harness.outside.deleted == []
        harness.clock.advance(life.tools.pace.grace + 1)
        await life.drive(definition=TEARS_DOWN)
        await life.drive(definition=TEARS_DOWN)
        assert harness.outside.deleted == [run_id]
        assert run_of((await harness.read()).status).outcome is TaskOutcome.CANCELLED
        harness.clock.advance(DAY)
        await life.drive(definition=TEARS_DOWN)
    assert harness.outside.begun == {run_id: 1}


async def test_one_that_succeeded_meanwhile_counts(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive()
        run_id = run_of((await harness.read()).status).run_id
        await harness.annotate_all("acme", {CANCEL: run_id})
        harness.outside.move(run_id, RunState.SUCCEEDED)
        await life.drive()
        assert (await harness.read()).status.phase is Phase.READY
    assert harness.outside.cancelled == []


async def test_another_id_cancels_nothing(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive()
        await harness.annotate_all("acme", {CANCEL: "terraform-000000000000"})
        await life.drive()
        await life.finish()
        assert (await harness.read()).status.phase is Phase.READY
    assert harness.outside.cancelled == []


async def test_a_manager_that_starts_afterwards_cancels_it(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive(definition=TEARS_DOWN)
        run_id = run_of((await harness.read()).status).run_id
        harness.outside.move(run_id, RunState.RUNNING)
    await harness.annotate_all("acme", {CANCEL: run_id})
    async with harness.life() as restarted:
        await restarted.drive(definition=TEARS_DOWN)
        await restarted.drive(definition=TEARS_DOWN)
        assert run_of((await harness.read()).status).outcome is TaskOutcome.CANCELLED
    assert harness.outside.begun == {run_id: 1}


async def test_a_teardown_that_is_cancelled_keeps_the_object(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive(definition=TEARS_DOWN)
        await life.finish(definition=TEARS_DOWN)
        await harness.admin.delete(InstanceTerraform, "acme", namespace=NAMESPACE)
        await life.drive(definition=TEARS_DOWN)
        run = run_of((await harness.read()).status)
        assert run.operation is TaskOperation.TEARDOWN
        await cancelled(harness, life)
        harness.clock.advance(DAY)
        await life.drive(definition=TEARS_DOWN)
        left = await harness.read()
        assert left.status.phase is Phase.DELETING
        assert "Nothing more is tried: to go on, give the annotation" in left.status.message
        await harness.annotate_all("acme", {RETRY: "now"})
        await life.drive(definition=TEARS_DOWN)
        assert run_of((await harness.read()).status).attempt == 2
