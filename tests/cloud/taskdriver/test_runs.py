"""A run from its intent to its end, over HTTP."""

from __future__ import annotations

import pytest

from apis.cloud import Phase, TaskOutcome, TaskState
from internal.cloud.runs import RunState
from tests.cloud.taskdriver.world import World, run_of, states


@pytest.mark.criterion("SG-26")
async def test_the_states_come_in_order_with_inputs_version_and_run(world: World) -> None:
    await world.make()
    async with world.life() as life:
        await life.drive()
        run_id = run_of((await world.read()).status).run_id
        world.clock.advance(5)
        await life.drive()
        world.outside.move(run_id, RunState.RUNNING)
        await life.drive()
        await life.finish(message="2 resources applied")
    status = (await world.read()).status
    assert states(status.task_conditions) == ["Pending", "Creating", "Created", "Started", "Done"]
    told = {item.type: item for item in status.task_conditions}
    assert [told[state].message for state in TaskState] == [
        "Queue for immediate execution",
        "Ready to create task",
        "New task execution created",
        "Execution found, but not yet complete",
        "Task completed",
    ]
    version = run_of(status).inputs_version
    assert {item.inputs_version for item in status.task_conditions} == {version}
    assert [told[state].run_id for state in TaskState] == ["", "", run_id, run_id, run_id]
    assert (status.phase, status.message) == (Phase.READY, "2 resources applied")
    assert run_of(status).outcome is TaskOutcome.SUCCEEDED
