"""A run that repairs what others changed of what the last one left. In virtual time."""

from __future__ import annotations

from dataclasses import replace

from apis.cloud import Phase
from internal.cloud.labels import PAUSED
from internal.cloud.runs import RunState
from internal.cloud.taskdriver.context import Hold
from tests.cloud.taskdriver.harness import PLAIN, Life, World, run_of

DRIFT = "ConfigMap default/web was deleted."


async def carried_out(world: World, life: Life) -> None:
    """An object whose task succeeded."""
    await world.make()
    await life.drive()
    await life.finish()


async def test_it_is_repaired_by_one_run_also_across_a_restart(world: World) -> None:
    async with world.life() as life:
        await carried_out(world, life)
        world.clock.advance(3600.0)
        await life.drive(drift=DRIFT)
        assert run_of((await world.read()).status).attempt == 2
    async with world.life() as restarted:
        await restarted.drive(drift=DRIFT)
        await restarted.finish()
        assert (await world.read()).status.phase is Phase.READY
        assert len(world.outside.begun) == 2


async def test_each_repair_waits_twice_as_long_as_the_one_before(world: World) -> None:
    waits = []
    async with world.life() as life:
        await carried_out(world, life)
        for _ in range(9):
            progress = await life.drive(drift=DRIFT)
            assert progress.requeue_after is not None
            waits.append(round(progress.requeue_after))
            world.clock.advance(progress.requeue_after)
            await life.drive(drift=DRIFT)
            await life.finish()
    assert waits == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]


async def test_while_paused_or_held_nothing_is_repaired(world: World) -> None:
    async with world.life() as life:
        await carried_out(world, life)
        world.clock.advance(3600.0)
        await life.drive(drift=DRIFT, held=Hold(reason="NotOwned", message="It is another's."))
        await world.annotate_all("acme", {PAUSED: "true"})
        await life.drive(drift=DRIFT)
        assert len(world.outside.begun) == 1
        await world.annotate_all("acme", {PAUSED: None})
        await life.drive(drift=DRIFT)
    assert len(world.outside.begun) == 2


async def test_a_repair_that_fails_is_retried_as_any_run(world: World) -> None:
    async with world.life() as life:
        await carried_out(world, life)
        world.clock.advance(3600.0)
        await life.drive(drift=DRIFT)
        await life.finish(RunState.FAILED)
        status = (await world.read()).status
        assert (status.phase, run_of(status).attempt) == (Phase.RETRYING, 2)
        world.clock.advance(30.0)
        await life.drive(drift=DRIFT)
        assert run_of((await world.read()).status).attempt == 3


async def test_what_runs_once_repairs_nothing(world: World) -> None:
    once = replace(PLAIN, once=True)
    await world.make()
    async with world.life() as life:
        await life.drive(definition=once)
        await life.finish(definition=once)
        world.clock.advance(3600.0)
        await life.drive(definition=once, drift=DRIFT)
    assert len(world.outside.begun) == 1
