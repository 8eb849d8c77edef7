"""A run of inputs that are carried out already, on request. In virtual time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from apis.cloud import InstanceTerraform, Phase
from internal.cloud.labels import PAUSED, RECONCILE
from internal.cloud.runs import RunState
from tests.cloud.taskdriver.harness import PLAIN, Life, TaskDriverHarness, run_of

ONCE = replace(PLAIN, once=True)
DAY = 86400.0


async def carried_out(harness: TaskDriverHarness, life: Life) -> None:
    """An object whose task succeeded."""
    await harness.make()
    await life.drive()
    await life.finish()


async def test_it_runs_once_for_a_value_also_across_a_restart(harness: TaskDriverHarness) -> None:
    async with harness.life() as life:
        await carried_out(harness, life)
        await harness.annotate_all("acme", {RECONCILE: "1"})
        await life.drive()
        assert (await harness.read()).status.phase is Phase.RUNNING
        await life.finish()
        status = (await harness.read()).status
        assert (status.phase, status.last_handled_reconcile) == (Phase.READY, "1")
        assert run_of(status).attempt == 2
    async with harness.life() as restarted:
        harness.clock.advance(DAY)
        await restarted.drive()
        assert len(harness.outside.begun) == 2
        await harness.annotate_all("acme", {RECONCILE: "2"})
        await restarted.drive()
    assert len(harness.outside.begun) == 3
    assert harness.outside.most_live == 1


async def test_it_stays_ready_while_it_runs_and_is_not_after_a_failure(
    harness: TaskDriverHarness,
) -> None:
    async with harness.life() as life:
        await carried_out(harness, life)
        await harness.annotate_all("acme", {RECONCILE: "1"})
        await life.drive()
        assert ready(await harness.read()) == "True"
        await life.finish(RunState.FAILED)
        status = (await harness.read()).status
        assert status.phase is Phase.RETRYING
        assert ready(await harness.read()) == "False"
        harness.clock.advance(DAY)
        await life.drive()
        await life.finish()
        assert (await harness.read()).status.phase is Phase.READY
    assert len(harness.outside.begun) == 3


async def test_a_run_under_way_is_awaited_and_another_follows(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive()
        await harness.annotate_all("acme", {RECONCILE: "1"})
        await life.drive()
        assert len(harness.outside.begun) == 1
        assert harness.outside.cancelled == []
        await life.finish()
        await life.drive()
    assert len(harness.outside.begun) == 2
    assert harness.outside.most_live == 1


async def test_a_failure_is_tried_again_at_once(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive()
        await life.finish(RunState.FAILED)
        assert (await harness.read()).status.phase is Phase.RETRYING
        await harness.annotate_all("acme", {RECONCILE: "1"})
        await life.drive()
    assert len(harness.outside.begun) == 2


async def test_while_paused_it_waits(harness: TaskDriverHarness) -> None:
    async with harness.life() as life:
        await carried_out(harness, life)
        await harness.annotate_all("acme", {RECONCILE: "1", PAUSED: "true"})
        await life.drive()
        assert len(harness.outside.begun) == 1
        await harness.annotate_all("acme", {PAUSED: None})
        await life.drive()
    assert len(harness.outside.begun) == 2


@pytest.mark.parametrize("value", ["", "1"])
async def test_what_runs_once_does_not_run_again(harness: TaskDriverHarness, value: str) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive(definition=ONCE)
        await life.finish(definition=ONCE)
        await harness.annotate_all("acme", {RECONCILE: value})
        await life.drive(definition=ONCE)
    assert len(harness.outside.begun) == 1


def ready(found: InstanceTerraform) -> str:
    """The status of the condition Ready."""
    conditions = found.status.conditions
    return next(item.status for item in conditions if item.type == "Ready")
