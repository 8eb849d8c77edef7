"""Runs from their intent to their end, over HTTP."""

from __future__ import annotations

import base64
import contextlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from apis.cloud import Phase, TaskOutcome, TaskState
from ctrlruntime.api import BUILTIN, GroupVersionKind, is_condition_true
from internal.cloud.labels import CLOUDSQL_MODE
from internal.cloud.runs import RunState
from internal.cloud.runs.files import files_of
from internal.cloud.runs.local import LocalOptions, LocalRuns
from internal.cloud.taskdriver import inputs_of, is_ready
from internal.cloud.taskdriver.deps import shared
from internal.cloud.taskdriver.record import owner_of
from internal.cloud.tasks.task import Supersede
from tests.cloud.runs.benches import request_of
from tests.cloud.taskdriver.fake_provider import Lost
from tests.cloud.taskdriver.harness import NAMESPACE, PLAIN, TaskDriverHarness, run_of, states

SECRET = BUILTIN[GroupVersionKind("", "v1", "Secret")]
CANCELS = replace(PLAIN, supersede=Supersede.CANCEL)


@pytest.mark.criterion("SG-26")
async def test_the_states_come_in_order_with_inputs_version_and_run(
    harness: TaskDriverHarness,
) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive()
        run_id = run_of((await harness.read()).status).run_id
        harness.clock.advance(5)
        await life.drive()
        harness.outside.move(run_id, RunState.RUNNING)
        await life.drive()
        await life.finish(message="2 resources applied")
    status = (await harness.read()).status
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


@pytest.mark.criterion("SG-20")
async def test_the_same_inputs_are_dispatched_once_and_rest_costs_nothing(
    harness: TaskDriverHarness,
) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive()
        await life.finish()
        assert sum(harness.outside.begun.values()) == 1
        resource = await life.seen()
        mark, calls = harness.env.proxy.log.mark(), harness.outside.calls.total()
        opened = harness.outside.opened
        for _ in range(5):
            harness.clock.advance(3600)
            progress = await life.step(resource=resource)
            assert progress.requeue_after is None
        requests = harness.env.proxy.log.since(mark).select(user="manager")
        assert (requests.writes, requests.reads) == (0, 0)
        assert (harness.outside.calls.total(), harness.outside.opened) == (calls, opened)


@pytest.mark.criterion("SG-21")
async def test_annotations_make_a_new_run_and_labels_or_status_do_not(
    harness: TaskDriverHarness,
) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive()
        await life.finish()
        labels = {"metadata": {"labels": {"instance-type": "trial"}}}
        await harness.admin.patch(type(await harness.read()), "acme", labels, namespace=NAMESPACE)
        await harness.forge({"message": "edited"})
        await life.drive()
        assert sum(harness.outside.begun.values()) == 1
        await harness.annotate_all("acme", {CLOUDSQL_MODE: "bluePrimary"})
        await life.drive()
        assert sum(harness.outside.begun.values()) == 2
        await life.finish()
        await harness.annotate_all("acme", {CLOUDSQL_MODE: None})
        await life.drive()
        run = run_of((await harness.read()).status)
        assert run.attempt == 2, "the inputs of before are carried out again, not taken as done"
        assert sum(harness.outside.begun.values()) == 3


@pytest.mark.criterion("SG-23")
@pytest.mark.criterion("SG-24")
async def test_a_pass_hands_back_a_result_when_there_is_one_and_has_written_it(
    harness: TaskDriverHarness,
) -> None:
    await harness.make()
    async with harness.life() as life:
        progress = await life.drive()
        assert progress.finished is None
        progress = await life.finish(RunState.FAILED, message="no quota")
        assert progress.finished is not None
        assert progress.finished.outcome is TaskOutcome.FAILED
        assert progress.status == (await harness.read()).status, "nothing is left to the caller"


@pytest.mark.criterion("SG-25")
async def test_conditions_are_newest_first_and_capped(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life() as life:
        for number in range(6):
            await harness.change(domain=f"d{number}.example.com")
            await life.drive()
            await life.finish()
    status = (await harness.read()).status
    assert len(status.task_conditions) == 20
    times = [item.last_transition_time for item in status.task_conditions]
    assert times == sorted(times, reverse=True)
    assert status.task_conditions[0].type is TaskState.DONE
    assert len(status.history) == PLAIN.history - 1


async def test_a_quick_run_costs_four_writes_or_fewer(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life(told=True) as life:
        mark = harness.env.proxy.log.mark()
        await life.drive()
        run_id = run_of((await harness.read()).status).run_id
        await life.drive()  # it exists, but it will begin in a moment
        harness.outside.move(run_id, RunState.RUNNING)
        await life.drive()
        await life.finish()
        await life.tools.recorder.flush(10.0)
        requests = harness.env.proxy.log.since(mark)
        assert requests.select(user="manager").writes == 3
        assert requests.select(user="recorder").writes == 5


@pytest.mark.criterion("SG-28")
async def test_newer_inputs_wait_for_the_run_under_way(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive()
        first = run_of((await harness.read()).status).run_id
        await harness.change(domain="new.example.com")
        await life.drive()
        status = (await harness.read()).status
        assert run_of(status).superseded
        assert "awaited" in status.message
        assert [run.run_id for run in harness.outside.live()] == [first]
        await life.finish()
        second = run_of((await harness.read()).status)
        assert second.run_id != first
        assert [run.run_id for run in harness.outside.live()] == [second.run_id]
        await life.finish()
    assert harness.outside.most_live == 1
    assert is_ready(await harness.read())


@pytest.mark.criterion("SG-28")
async def test_newer_inputs_cancel_the_run_under_way_where_that_is_declared(
    harness: TaskDriverHarness,
) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive(definition=CANCELS)
        first = run_of((await harness.read()).status).run_id
        harness.outside.heeds_cancel = False
        await harness.change(domain="new.example.com")
        await life.drive(definition=CANCELS)
        await life.drive(definition=CANCELS)
        assert set(harness.outside.cancelled) == {first}, "asked, and asked again"
        assert len(harness.outside.live()) == 1, "none is started beside it"
        harness.outside.move(first, RunState.CANCELLED)
        await life.drive(definition=CANCELS)
        status = (await harness.read()).status
        assert status.history[0].outcome is TaskOutcome.CANCELLED
        assert run_of(status).attempt == 1
        assert len(harness.outside.live()) == 1
        await life.finish(definition=CANCELS)
    assert harness.outside.most_live == 1


@pytest.mark.criterion("SG-30")
async def test_a_run_deleted_behind_our_back_is_noticed_and_counts_as_an_attempt(
    harness: TaskDriverHarness,
) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive()
        first = run_of((await harness.read()).status)
        harness.outside.move(first.run_id, RunState.RUNNING)
        await life.drive()
        harness.outside.vanish(first.run_id)
        await life.drive()
        lost = run_of((await harness.read()).status)
        assert (lost.outcome, lost.attempt) == (TaskOutcome.LOST, 1)
        harness.clock.advance(PLAIN.retries.base)
        await life.drive()
        assert run_of((await harness.read()).status).attempt == 2
    assert list(harness.outside.begun.values()) == [1, 1]


@pytest.mark.criterion("SG-31")
async def test_outputs_survive_many_passes_and_restarts(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive()
        await life.finish(
            outputs={"b": "2", "a": "1"}, secret_outputs={"kubeconfig": "hidden", "token": "t"}
        )
    for _ in range(2):
        async with harness.life() as life:
            for _ in range(3):
                await life.drive()
    resource = await harness.read()
    assert resource.status.outputs == {"a": "1", "b": "2"}
    assert resource.status.outputs_secret_name == "acme-outputs"
    assert "hidden" not in resource.to_manifest().__repr__()
    secret = await harness.admin.get(SECRET, "acme-outputs", namespace=NAMESPACE)
    assert base64.b64decode(secret["data"]["kubeconfig"]) == b"hidden"
    (reference,) = secret["metadata"]["ownerReferences"]
    assert (reference["uid"], reference["controller"]) == (resource.metadata.uid, True)
    async with harness.life() as life:
        await harness.change(domain="new.example.com")
        await life.drive()
        assert harness.outside.requests[
            run_of((await harness.read()).status).run_id
        ].input.outputs == {
            "a": "1",
            "b": "2",
        }
        await life.finish(outputs={"a": "9"}, secret_outputs={"kubeconfig": "other"})
    secret = await harness.admin.get(SECRET, "acme-outputs", namespace=NAMESPACE)
    assert set(secret["data"]) == {"kubeconfig"}
    assert (await harness.read()).status.outputs == {"a": "9"}


async def test_outputs_are_not_put_into_a_secret_of_someone_else(
    harness: TaskDriverHarness,
) -> None:
    await harness.make()
    foreign = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "acme-outputs", "namespace": NAMESPACE},
    }
    await harness.admin.create(foreign)
    async with harness.life() as life:
        await life.drive()
        await life.finish(secret_outputs={"kubeconfig": "hidden"})
        status = (await harness.read()).status
        assert "rename or delete it" in status.message
        assert not is_condition_true(status.conditions, "Ready")
        await harness.admin.delete(SECRET, "acme-outputs", namespace=NAMESPACE)
        await life.drive()
    status = (await harness.read()).status
    assert (status.phase, status.outputs_secret_name) == (Phase.READY, "acme-outputs")
    assert list(harness.outside.begun.values()) == [1]


@pytest.mark.criterion("SG-32")
@pytest.mark.parametrize("broken", ["", "start", "get", "list", "cancel", "delete"])
async def test_the_provider_is_closed_on_every_path(
    harness: TaskDriverHarness, broken: str
) -> None:
    await harness.make()
    async with harness.life() as life:
        for number in range(6):
            if broken:
                harness.outside.fail.add(broken)
            with contextlib.suppress(Lost):
                await life.drive(definition=CANCELS)
                run = run_of((await harness.read()).status)
                if number % 2:
                    await harness.change(domain=f"d{number}.example.com")
                elif run.run_id in harness.outside.runs:
                    await life.finish(definition=CANCELS)
            assert harness.outside.open == 0
    assert harness.outside.opened > 0


async def test_content_that_is_carried_out_already_is_adopted_without_a_run(
    harness: TaskDriverHarness,
) -> None:
    await harness.make(spec={"domain": "a.example.com"})
    async with harness.life() as life:
        await life.drive()
        await life.finish()
        await harness.change(domain="b.example.com")
        await harness.change(domain="a.example.com")
        assert not is_ready(await harness.read()), "not yet seen"
        await life.drive()
    resource = await harness.read()
    assert resource.metadata.generation == 3
    assert resource.status.succeeded is not None
    assert resource.status.succeeded.inputs_version == inputs_of(resource).version
    assert is_ready(resource)
    assert sum(harness.outside.begun.values()) == 1


async def test_a_later_run_for_other_inputs_is_undone(harness: TaskDriverHarness) -> None:
    await harness.make(spec={"domain": "a.example.com"})
    async with harness.life() as life:
        await life.drive()
        await life.finish()
        await harness.change(domain="b.example.com")
        await life.drive()
        await life.finish(RunState.FAILED, retryable=False)
        await harness.change(domain="a.example.com")
        await life.drive()
        await life.finish()
    assert sum(harness.outside.begun.values()) == 3
    assert is_ready(await harness.read())


@pytest.mark.criterion("SG-23")
async def test_a_run_that_is_over_at_once_is_recorded_at_once(harness: TaskDriverHarness) -> None:
    """Its provider reports changes of runs, and an end before the start returned is none."""
    harness.outside.immediate = True
    await harness.make()
    async with harness.life(told=True) as life:
        await life.drive()
    assert (await harness.read()).status.phase is Phase.READY


@pytest.mark.criterion("SG-23")
async def test_a_folder_that_a_killed_manager_left_is_started(
    harness: TaskDriverHarness, tmp_path: Path
) -> None:
    """Its run is on record, and no process of it will ever end: nothing would wake the driver."""
    owner = owner_of(await harness.make())
    harness.refused = "killed before it started the run"
    async with harness.life() as life:
        with pytest.raises(RuntimeError, match="killed"):
            await life.drive()
    harness.refused = ""
    run_id = run_of((await harness.read()).status).run_id

    options = LocalOptions(folder=tmp_path / "runs", command=(sys.executable, "-c", ""), grace=5)
    provider = LocalRuns(options)
    folder = provider._folder(owner, run_id)
    request = request_of(owner, run_id=run_id)
    folder.make(provider._plan(request, folder), await files_of(request, None))
    assert not folder.has_started()
    try:
        async with harness.life(open_runs=shared(provider), told=True) as life:
            await life.drive()
        assert folder.has_started()
    finally:
        await provider.delete(owner, run_id)
        await provider.aclose()
