"""A run that repairs what others changed of what the last one left. In virtual time."""

from __future__ import annotations

from dataclasses import replace

from apis.cloud import Phase
from internal.cloud.labels import PAUSED
from internal.cloud.runs import RunState
from internal.cloud.taskdriver.context import Hold
from tests.cloud.taskdriver.harness import PLAIN, Life, TaskDriverHarness, run_of

DRIFT = "ConfigMap default/web was deleted."


async def carried_out(harness: TaskDriverHarness, life: Life) -> None:
    """An object whose task succeeded."""
    await harness.make()
    await life.drive()
    await life.finish()


async def test_it_is_repaired_by_one_run_also_across_a_restart(harness: TaskDriverHarness) -> None:
    async with harness.life() as life:
        await carried_out(harness, life)
        harness.clock.advance(3600.0)
        await life.drive(drift=DRIFT)
        assert run_of((await harness.read()).status).attempt == 2
    async with harness.life() as restarted:
        await restarted.drive(drift=DRIFT)
        await restarted.finish()
        assert (await harness.read()).status.phase is Phase.READY
        assert len(harness.outside.begun) == 2


async def test_each_repair_waits_twice_as_long_as_the_one_before(
    harness: TaskDriverHarness,
) -> None:
    waits = []
    async with harness.life() as life:
        await carried_out(harness, life)
        for _ in range(9):
            progress = await life.drive(drift=DRIFT)
            assert progress.requeue_after is not None
            waits.append(round(progress.requeue_after))
            harness.clock.advance(progress.requeue_after)
            await life.drive(drift=DRIFT)
            await life.finish()
    assert waits == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]


async def test_while_paused_or_held_nothing_is_repaired(harness: TaskDriverHarness) -> None:
    async with harness.life() as life:
        await carried_out(harness, life)
        harness.clock.advance(3600.0)
        await life.drive(drift=DRIFT, held=Hold(reason="NotOwned", message="It is another's."))
        await harness.annotate_all("acme", {PAUSED: "true"})
        await life.drive(drift=DRIFT)
        assert len(harness.outside.begun) == 1
        await harness.annotate_all("acme", {PAUSED: None})
        await life.drive(drift=DRIFT)
    assert len(harness.outside.begun) == 2


async def test_a_repair_that_fails_is_retried_as_any_run(harness: TaskDriverHarness) -> None:
    async with harness.life() as life:
        await carried_out(harness, life)
        harness.clock.advance(3600.0)
        await life.drive(drift=DRIFT)
        await life.finish(RunState.FAILED)
        status = (await harness.read()).status
        assert (status.phase, run_of(status).attempt) == (Phase.RETRYING, 2)
        harness.clock.advance(30.0)
        await life.drive(drift=DRIFT)
        assert run_of((await harness.read()).status).attempt == 3


async def test_what_runs_once_repairs_nothing(harness: TaskDriverHarness) -> None:
    once = replace(PLAIN, once=True)
    await harness.make()
    async with harness.life() as life:
        await life.drive(definition=once)
        await life.finish(definition=once)
        harness.clock.advance(3600.0)
        await life.drive(definition=once, drift=DRIFT)
    assert len(harness.outside.begun) == 1
