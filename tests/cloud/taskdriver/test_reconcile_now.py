"""A run of inputs that are carried out already, on request. In virtual time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from apis.cloud import InstanceTerraform, Phase
from internal.cloud.labels import PAUSED, RECONCILE
from internal.cloud.runs import RunState
from tests.cloud.taskdriver.harness import PLAIN, Life, World, run_of

ONCE = replace(PLAIN, once=True)
DAY = 86400.0


async def carried_out(world: World, life: Life) -> None:
    """An object whose task succeeded."""
    await world.make()
    await life.drive()
    await life.finish()


async def test_it_runs_once_for_a_value_also_across_a_restart(world: World) -> None:
    async with world.life() as life:
        await carried_out(world, life)
        await world.annotate_all("acme", {RECONCILE: "1"})
        await life.drive()
        assert (await world.read()).status.phase is Phase.RUNNING
        await life.finish()
        status = (await world.read()).status
        assert (status.phase, status.last_handled_reconcile) == (Phase.READY, "1")
        assert run_of(status).attempt == 2
    async with world.life() as restarted:
        world.clock.advance(DAY)
        await restarted.drive()
        assert len(world.outside.begun) == 2
        await world.annotate_all("acme", {RECONCILE: "2"})
        await restarted.drive()
    assert len(world.outside.begun) == 3
    assert world.outside.most_live == 1


async def test_it_stays_ready_while_it_runs_and_is_not_after_a_failure(world: World) -> None:
    async with world.life() as life:
        await carried_out(world, life)
        await world.annotate_all("acme", {RECONCILE: "1"})
        await life.drive()
        assert ready(await world.read()) == "True"
        await life.finish(RunState.FAILED)
        status = (await world.read()).status
        assert status.phase is Phase.RETRYING
        assert ready(await world.read()) == "False"
        world.clock.advance(DAY)
        await life.drive()
        await life.finish()
        assert (await world.read()).status.phase is Phase.READY
    assert len(world.outside.begun) == 3


async def test_a_run_under_way_is_awaited_and_another_follows(world: World) -> None:
    await world.make()
    async with world.life() as life:
        await life.drive()
        await world.annotate_all("acme", {RECONCILE: "1"})
        await life.drive()
        assert len(world.outside.begun) == 1
        assert world.outside.cancelled == []
        await life.finish()
        await life.drive()
    assert len(world.outside.begun) == 2
    assert world.outside.most_live == 1


async def test_a_failure_is_tried_again_at_once(world: World) -> None:
    await world.make()
    async with world.life() as life:
        await life.drive()
        await life.finish(RunState.FAILED)
        assert (await world.read()).status.phase is Phase.RETRYING
        await world.annotate_all("acme", {RECONCILE: "1"})
        await life.drive()
    assert len(world.outside.begun) == 2


async def test_while_paused_it_waits(world: World) -> None:
    async with world.life() as life:
        await carried_out(world, life)
        await world.annotate_all("acme", {RECONCILE: "1", PAUSED: "true"})
        await life.drive()
        assert len(world.outside.begun) == 1
        await world.annotate_all("acme", {PAUSED: None})
        await life.drive()
    assert len(world.outside.begun) == 2


@pytest.mark.parametrize("value", ["", "1"])
async def test_what_runs_once_does_not_run_again(world: World, value: str) -> None:
    await world.make()
    async with world.life() as life:
        await life.drive(definition=ONCE)
        await life.finish(definition=ONCE)
        await world.annotate_all("acme", {RECONCILE: value})
        await life.drive(definition=ONCE)
    assert len(world.outside.begun) == 1


def ready(found: InstanceTerraform) -> str:
    """The status of the condition Ready."""
    conditions = found.status.conditions
    return next(item.status for item in conditions if item.type == "Ready")
