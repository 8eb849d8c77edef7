"""A status that is wrong: edited by hand, out of a backup, or nonsense."""

from __future__ import annotations

from typing import Any

import pytest

from apis.cloud import InstanceTerraform, TaskOutcome
from internal.cloud.runs import RunState
from internal.cloud.taskdriver import is_ready
from tests.cloud.taskdriver.harness import NAMESPACE, Life, TaskDriverHarness, run_of

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
        life.harness.clock.advance(61)


@pytest.mark.criterion("SG-20")
@pytest.mark.parametrize("lie", list(LIES))
@pytest.mark.parametrize("restarted", [False, True])
async def test_no_second_run_is_started_while_one_is_live(
    harness: TaskDriverHarness, lie: str, restarted: bool
) -> None:
    await harness.make(spec={"domain": "a.example.com"})
    async with harness.life() as life:
        await life.drive()
        run_id = run_of((await harness.read()).status).run_id
        harness.outside.move(run_id, RunState.RUNNING)
        await life.drive()
        await harness.forge(LIES[lie])
        if not restarted:
            await settle(life)
    if restarted:
        async with harness.life() as life:
            await settle(life)
    assert harness.outside.most_live == 1
    assert list(harness.outside.begun) == [run_id]
    assert run_of((await harness.read()).status).run_id == run_id, "it is known again"
    async with harness.life() as life:
        await life.finish(outputs={"a": "1"})
    resource = await harness.read()
    assert is_ready(resource)
    assert resource.status.outputs == {"a": "1"}
    assert list(harness.outside.begun.values()) == [1]


@pytest.mark.criterion("SG-20")
async def test_a_run_that_ended_while_its_record_was_lost_is_not_repeated(
    harness: TaskDriverHarness,
) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive()
        first = run_of((await harness.read()).status).run_id
        harness.outside.move(first, RunState.FAILED)
        await life.drive()
        harness.clock.advance(30)
        await life.drive()
        second = run_of((await harness.read()).status).run_id
        harness.outside.move(second, RunState.SUCCEEDED, outputs={"a": "1"})
    await harness.forge(None)
    async with harness.life() as life:
        await life.drive()
    resource = await harness.read()
    assert (run_of(resource.status).run_id, run_of(resource.status).attempt) == (second, 2)
    assert resource.status.outputs == {"a": "1"}
    assert list(harness.outside.begun.values()) == [1, 1]


async def test_a_number_that_is_wrong_does_not_go_on_counting(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive()
        await harness.forge({"run": {"attempt": 2**31 - 1}})
        await life.finish(RunState.FAILED)
        harness.clock.advance(30)
        await life.drive()
    assert run_of((await harness.read()).status).attempt == 2


@pytest.mark.criterion("SG-51")
async def test_a_run_of_other_inputs_without_a_record_is_awaited(
    harness: TaskDriverHarness,
) -> None:
    resource = await harness.make()
    harness.outside.add(resource.metadata.uid, "terraform-someoneelse")
    async with harness.life() as life:
        await life.drive()
        status = (await harness.read()).status
        assert run_of(status).run_id == "terraform-someoneelse"
        assert run_of(status).superseded
        assert len(harness.outside.live()) == 1
        harness.outside.move("terraform-someoneelse", RunState.SUCCEEDED)
        await life.drive()
        await life.finish()
    assert is_ready(await harness.read())
    assert harness.outside.most_live == 1


async def test_a_backup_restored_into_an_empty_cluster_repeats_nothing(
    harness: TaskDriverHarness,
) -> None:
    await harness.make(spec={"domain": "a.example.com"})
    async with harness.life() as life:
        await life.drive()
        await life.finish(outputs={"a": "1"})
    backup = await harness.read()
    uid = backup.metadata.uid
    await harness.admin.patch(
        InstanceTerraform, "acme", {"metadata": {"finalizers": None}}, namespace=NAMESPACE
    )
    await harness.admin.delete(InstanceTerraform, "acme", namespace=NAMESPACE)
    restored = await harness.make(spec={"domain": "a.example.com"})
    assert restored.metadata.uid != uid
    await harness.forge(backup.status.to_wire())
    async with harness.life() as life:
        await life.drive()
    resource = await harness.read()
    assert is_ready(resource)
    assert resource.status.outputs == {"a": "1"}
    assert sum(harness.outside.begun.values()) == 1


async def test_nonsense_that_is_recorded_as_live_does_not_wait_forever(
    harness: TaskDriverHarness,
) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive()
        run = run_of((await harness.read()).status)
        harness.outside.vanish(run.run_id)
        await harness.forge(
            {"run": {"state": "Started", "createdAt": None, "deadline": "2999-01-01T00:00:00Z"}}
        )
        await life.drive()
        status = (await harness.read()).status
        assert run_of(status).outcome is TaskOutcome.LOST
        await harness.forge({"run": {"retryAt": "2999-01-01T00:00:00Z", "finishedAt": None}})
        progress = await life.drive()
        assert progress.requeue_after is not None
        assert progress.requeue_after <= 30
        harness.clock.advance(progress.requeue_after)
        await life.drive()
    assert run_of((await harness.read()).status).attempt == 2
