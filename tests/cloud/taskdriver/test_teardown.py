"""The end of an object: a teardown where one is due, then its runs, then itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from apis.cloud import InstanceTerraform, TaskOperation, TaskOutcome
from ctrlruntime.api import Resource
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.resources import OWNER, OWNER_UID, RemotePlacement
from internal.cloud.labels import CLOUDSQL_MODE, PAUSED, RETRY
from internal.cloud.runs import RunState
from internal.cloud.taskdriver.context import Leaving
from internal.cloud.taskdriver.writes import SECRET, OutputsRefused, RunCluster, keep_outputs
from internal.cloud.tasks.task import Supersede, TaskDefinition
from tests.cloud.taskdriver.fake_provider import Lost
from tests.cloud.taskdriver.harness import NAMESPACE, PLAIN, TaskDriverHarness, run_of

TEARS_DOWN = replace(PLAIN, teardown=True)
CANCELS = replace(PLAIN, supersede=Supersede.CANCEL)


async def delete(harness: TaskDriverHarness) -> None:
    await harness.admin.delete(InstanceTerraform, "acme", namespace=NAMESPACE)


async def is_there(harness: TaskDriverHarness) -> bool:
    return bool(await harness.admin.list(InstanceTerraform, NAMESPACE))


async def some_runs(harness: TaskDriverHarness, definition: TaskDefinition) -> str:
    """An object with two runs that ended. Returns its UID."""
    resource = await harness.make()
    async with harness.life() as life:
        await life.drive(definition=definition)
        await life.finish(definition=definition)
        await harness.change(domain="new.example.com")
        await life.drive(definition=definition)
        await life.finish(definition=definition)
    assert len(harness.outside.of(resource.metadata.uid)) == 2
    return str(resource.metadata.uid)


@pytest.mark.criterion("SG-50")
async def test_past_runs_are_deleted_then_the_object_goes(harness: TaskDriverHarness) -> None:
    uid = await some_runs(harness, PLAIN)
    await delete(harness)
    async with harness.life() as life:
        progress = await life.step()
        assert not progress.gone
        assert harness.outside.of(uid) == []
        assert await is_there(harness), "not before the runs are gone"
        progress = await life.drive()
        assert progress.gone
    assert not await is_there(harness)


@pytest.mark.criterion("SG-51")
async def test_runs_without_a_record_are_deleted_too(harness: TaskDriverHarness) -> None:
    uid = await some_runs(harness, PLAIN)
    harness.outside.add(uid, "terraform-orphan", RunState.FAILED)
    await harness.forge(None)
    await delete(harness)
    async with harness.life() as life:
        assert (await life.drive()).gone
    assert harness.outside.of(uid) == []


@pytest.mark.criterion("SG-52")
async def test_runs_that_are_gone_already_are_no_obstacle(harness: TaskDriverHarness) -> None:
    uid = await some_runs(harness, PLAIN)
    await delete(harness)
    async with harness.life() as life:
        harness.outside.lose.add("delete")
        with pytest.raises(Lost):
            await life.step()
        assert len(harness.outside.of(uid)) == 1
        harness.outside.vanish(harness.outside.of(uid)[0].run_id)
        assert (await life.drive()).gone
    assert not await is_there(harness)


@pytest.mark.criterion("SG-50")
async def test_a_teardown_comes_first_and_runs_once(harness: TaskDriverHarness) -> None:
    uid = await some_runs(harness, TEARS_DOWN)
    await delete(harness)
    async with harness.life() as life:
        await life.drive(definition=TEARS_DOWN)
        run = run_of((await harness.read()).status)
        assert run.operation is TaskOperation.TEARDOWN
        assert harness.outside.requests[run.run_id].input.operation is TaskOperation.TEARDOWN
        assert len(harness.outside.of(uid)) == 3, "nothing is deleted before it has succeeded"
        await harness.annotate_all("acme", {CLOUDSQL_MODE: "blueOnly"})
        progress = await life.finish(definition=TEARS_DOWN)
        assert progress.gone
    assert harness.outside.of(uid) == []
    operations = [request.input.operation for request in harness.outside.requests.values()]
    assert operations.count(TaskOperation.TEARDOWN) == 1


async def test_what_never_ran_is_not_torn_down(harness: TaskDriverHarness) -> None:
    await harness.make()
    await delete(harness)
    async with harness.life() as life:
        assert (await life.drive(definition=TEARS_DOWN)).gone
    assert not harness.outside.begun


async def test_a_teardown_whose_record_is_lost_is_still_made(harness: TaskDriverHarness) -> None:
    await some_runs(harness, TEARS_DOWN)
    await harness.forge(None)
    await delete(harness)
    async with harness.life() as life:
        await life.drive(definition=TEARS_DOWN)
        assert run_of((await harness.read()).status).operation is TaskOperation.TEARDOWN


async def test_a_teardown_that_fails_is_tried_again_and_keeps_the_object(
    harness: TaskDriverHarness,
) -> None:
    await some_runs(harness, TEARS_DOWN)
    await delete(harness)
    async with harness.life() as life:
        await life.drive(definition=TEARS_DOWN)
        for _ in range(3):
            await life.finish(RunState.FAILED, definition=TEARS_DOWN, message="a network is in use")
            harness.clock.advance(3600)
            await life.drive(definition=TEARS_DOWN)
        status = (await harness.read()).status
        assert run_of(status).outcome is TaskOutcome.FAILED
        assert "a network is in use" in status.message
        assert RETRY in status.message
        assert await is_there(harness)
        await harness.annotate_all("acme", {RETRY: "mended"})
        await life.drive(definition=TEARS_DOWN)
        assert (await life.finish(definition=TEARS_DOWN)).gone


async def test_a_run_under_way_is_awaited_before_the_teardown(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive(definition=TEARS_DOWN)
        first = run_of((await harness.read()).status).run_id
        await delete(harness)
        await life.drive(definition=TEARS_DOWN)
        assert [run.run_id for run in harness.outside.live()] == [first]
        await life.finish(definition=TEARS_DOWN, outputs={"project": "p1"})
        run = run_of((await harness.read()).status)
        assert run.operation is TaskOperation.TEARDOWN
        assert harness.outside.requests[run.run_id].input.outputs == {"project": "p1"}
        assert (await life.finish(definition=TEARS_DOWN)).gone
    assert harness.outside.most_live == 1


async def test_a_run_under_way_is_cancelled_where_that_is_declared(
    harness: TaskDriverHarness,
) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive(definition=CANCELS)
        await delete(harness)
        assert (await life.drive(definition=CANCELS)).gone or (
            await life.drive(definition=CANCELS)
        ).gone
    assert len(harness.outside.cancelled) == 1
    assert not harness.outside.runs


async def test_paused_keeps_a_teardown_from_starting(harness: TaskDriverHarness) -> None:
    await some_runs(harness, TEARS_DOWN)
    await harness.annotate_all("acme", {PAUSED: "true"})
    await delete(harness)
    async with harness.life() as life:
        await life.drive(definition=TEARS_DOWN)
        status = (await harness.read()).status
        assert run_of(status).operation is TaskOperation.APPLY
        assert PAUSED in status.message
        await harness.annotate_all("acme", {PAUSED: None})
        await life.drive(definition=TEARS_DOWN)
        assert (await life.finish(definition=TEARS_DOWN)).gone


@pytest.mark.criterion("H-A9")
async def test_h_a9_a_teardown_on_record_is_not_started_once_the_crd_goes(
    harness: TaskDriverHarness,
) -> None:
    """The intent was written, and the process ended before the run was started."""
    await some_runs(harness, TEARS_DOWN)
    await delete(harness)
    harness.refused = "not the leader"
    async with harness.life() as life:
        with pytest.raises(RuntimeError):
            await life.drive(definition=TEARS_DOWN)
    assert run_of((await harness.read()).status).operation is TaskOperation.TEARDOWN
    harness.refused = ""
    async with harness.life() as life:
        progress = await life.drive(definition=TEARS_DOWN, leaving=Leaving.RELEASE)
        assert progress.gone
    operations = [request.input.operation for request in harness.outside.requests.values()]
    assert TaskOperation.TEARDOWN not in operations


EAST = RemotePlacement(owner_cluster="east", labels={"example.com/data-plane": "east"})
OUTPUTS = {"address": "10.0.0.1"}


async def made_anew(harness: TaskDriverHarness) -> tuple[Resource[Any, Any], Resource[Any, Any]]:
    """Return an object that went without its Secret, and the one of its name that came after it."""
    before = await harness.make()
    await keep_outputs(cluster(harness), before, "acme", OUTPUTS)
    patch = {"metadata": {"finalizers": None}}
    await harness.admin.patch(InstanceTerraform, "acme", patch, namespace=NAMESPACE)
    await harness.admin.delete(InstanceTerraform, "acme", namespace=NAMESPACE)
    return before, await harness.make()


def cluster(harness: TaskDriverHarness, placement: RemotePlacement = EAST) -> RunCluster:
    return RunCluster(client=harness.admin, placement=placement)


async def secret(harness: TaskDriverHarness) -> Manifest:
    return await harness.admin.get(SECRET, "acme-outputs", namespace=NAMESPACE)


async def test_equal_outputs_of_an_object_made_anew_record_it_in_the_same_pass(
    harness: TaskDriverHarness,
) -> None:
    before, after = await made_anew(harness)
    first = await secret(harness)
    assert first["metadata"]["annotations"][OWNER_UID] == before.metadata.uid
    await keep_outputs(cluster(harness), after, "acme", OUTPUTS)
    second = await secret(harness)
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    assert second["metadata"]["annotations"][OWNER_UID] == after.metadata.uid
    assert second["data"] == first["data"]
    await keep_outputs(cluster(harness), after, "acme", OUTPUTS)
    assert (await secret(harness))["metadata"]["resourceVersion"] == second["metadata"][
        "resourceVersion"
    ]


async def test_the_secret_of_another_data_plane_is_left_alone_and_its_holder_named(
    harness: TaskDriverHarness,
) -> None:
    _, after = await made_anew(harness)
    first = await secret(harness)
    west = RemotePlacement(owner_cluster="west", labels={})
    with pytest.raises(OutputsRefused, match=first["metadata"]["annotations"][OWNER]):
        await keep_outputs(cluster(harness, west), after, "acme", OUTPUTS)
    assert await secret(harness) == first
