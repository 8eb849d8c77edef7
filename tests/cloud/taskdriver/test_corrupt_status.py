"""A status that is wrong: edited by hand, out of a backup, or nonsense."""

from __future__ import annotations

from typing import Any

import pytest

from apis.cloud import InstanceTerraform, TaskOutcome
from internal.cloud.runs import RunState
from internal.cloud.taskdriver import is_ready
from tests.cloud.taskdriver.harness import NAMESPACE, Life, World, run_of

RUN = {
    "runID": "terraform-000000000000",
    "inputsVersion": "1-0",
    "attempt": 1,
    "state": "Started",
    "createdAt": "2026-03-01T12:00:00.000000Z",
    "deadline": "2026-03-01T12:10:00.000000Z",
}

LIES: dict[str, Any] = {
    "nothing": None,
    "no run": {"run": None, "taskConditions": None},
    "another run": {"run": RUN},
    "far too many attempts": {"run": {**RUN, "attempt": 2_000_000_000}},
    "a negative attempt": {"run": {**RUN, "attempt": -4}},
    "never recorded": {"run": {**RUN, "state": "Pending", "createdAt": None, "deadline": None}},
    "ended long ago": {"run": {**RUN, "state": "Done", "outcome": "Failed", "retryAt": None}},
    "lost": {"run": {"state": "Done", "outcome": "Lost", "finishedAt": None}},
    "to be tried again": {"run": {"state": "Done", "outcome": "Failed"}},
    "waiting": {
        "run": None,
        "waiting": {"reason": "Limit", "since": "2020-01-01T00:00:00.000000Z"},
    },
    "a history": {"run": None, "history": [{**RUN, "state": "Started"}, {**RUN, "attempt": 7}]},
}


async def settle(life: Life) -> None:
    """Let everything that is said to be due later become due."""
    for _ in range(4):
        await life.drive()
        life.world.clock.advance(61)


@pytest.mark.criterion("SG-20")
@pytest.mark.parametrize("lie", list(LIES))
@pytest.mark.parametrize("restarted", [False, True])
async def test_no_second_run_is_started_while_one_is_live(
    world: World, lie: str, restarted: bool
) -> None:
    await world.make(spec={"domain": "a.example.com"})
    async with world.life() as life:
        await life.drive()
        run_id = run_of((await world.read()).status).run_id
        world.outside.move(run_id, RunState.RUNNING)
        await life.drive()
        await world.forge(LIES[lie])
        if not restarted:
            await settle(life)
    if restarted:
        async with world.life() as life:
            await settle(life)
    assert world.outside.most_live == 1
    assert list(world.outside.begun) == [run_id]
    assert run_of((await world.read()).status).run_id == run_id, "it is known again"
    async with world.life() as life:
        await life.finish(outputs={"a": "1"})
    resource = await world.read()
    assert is_ready(resource)
    assert resource.status.outputs == {"a": "1"}
    assert list(world.outside.begun.values()) == [1]


@pytest.mark.criterion("SG-20")
async def test_a_run_that_ended_while_its_record_was_lost_is_not_repeated(world: World) -> None:
    await world.make()
    async with world.life() as life:
        await life.drive()
        first = run_of((await world.read()).status).run_id
        world.outside.move(first, RunState.FAILED)
        await life.drive()
        world.clock.advance(30)
        await life.drive()
        second = run_of((await world.read()).status).run_id
        world.outside.move(second, RunState.SUCCEEDED, outputs={"a": "1"})
    await world.forge(None)
    async with world.life() as life:
        await life.drive()
    resource = await world.read()
    assert (run_of(resource.status).run_id, run_of(resource.status).attempt) == (second, 2)
    assert resource.status.outputs == {"a": "1"}
    assert list(world.outside.begun.values()) == [1, 1]


async def test_a_number_that_is_wrong_does_not_go_on_counting(world: World) -> None:
    await world.make()
    async with world.life() as life:
        await life.drive()
        await world.forge({"run": {"attempt": 2**31 - 1}})
        await life.finish(RunState.FAILED)
        world.clock.advance(30)
        await life.drive()
    assert run_of((await world.read()).status).attempt == 2


@pytest.mark.criterion("SG-51")
async def test_a_run_of_other_inputs_without_a_record_is_awaited(world: World) -> None:
    resource = await world.make()
    world.outside.add(resource.metadata.uid, "terraform-someoneelse")
    async with world.life() as life:
        await life.drive()
        status = (await world.read()).status
        assert run_of(status).run_id == "terraform-someoneelse"
        assert run_of(status).superseded
        assert len(world.outside.live()) == 1
        world.outside.move("terraform-someoneelse", RunState.SUCCEEDED)
        await life.drive()
        await life.finish()
    assert is_ready(await world.read())
    assert world.outside.most_live == 1


async def test_a_backup_restored_into_an_empty_cluster_repeats_nothing(world: World) -> None:
    await world.make(spec={"domain": "a.example.com"})
    async with world.life() as life:
        await life.drive()
        await life.finish(outputs={"a": "1"})
    backup = await world.read()
    uid = backup.metadata.uid
    await world.admin.patch(
        InstanceTerraform, "acme", {"metadata": {"finalizers": None}}, namespace=NAMESPACE
    )
    await world.admin.delete(InstanceTerraform, "acme", namespace=NAMESPACE)
    restored = await world.make(spec={"domain": "a.example.com"})
    assert restored.metadata.uid != uid
    await world.forge(backup.status.to_wire())
    async with world.life() as life:
        await life.drive()
    resource = await world.read()
    assert is_ready(resource)
    assert resource.status.outputs == {"a": "1"}
    assert sum(world.outside.begun.values()) == 1


async def test_nonsense_that_is_recorded_as_live_does_not_wait_forever(world: World) -> None:
    await world.make()
    async with world.life() as life:
        await life.drive()
        run = run_of((await world.read()).status)
        world.outside.vanish(run.run_id)
        await world.forge(
            {"run": {"state": "Started", "createdAt": None, "deadline": "2999-01-01T00:00:00Z"}}
        )
        await life.drive()
        status = (await world.read()).status
        assert run_of(status).outcome is TaskOutcome.LOST
        await world.forge({"run": {"retryAt": "2999-01-01T00:00:00Z", "finishedAt": None}})
        progress = await life.drive()
        assert progress.requeue_after is not None
        assert progress.requeue_after <= 30
        world.clock.advance(progress.requeue_after)
        await life.drive()
    assert run_of((await world.read()).status).attempt == 2
