"""What the provider of runs refuses or does not answer is on the object, in its words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from apis.cloud import InstanceTerraform
from ctrlruntime.api import GroupVersionKind, find_condition
from ctrlruntime.client.errors import Forbidden
from internal.cloud.runs import RunRefused, RunState
from internal.cloud.runs.cloudrun import CloudError
from tests.cloud.taskdriver.harness import NAMESPACE, PLAIN, TaskDriverHarness, run_of

pytestmark = pytest.mark.criterion("C-3")

EVENT = GroupVersionKind("events.k8s.io", "v1", "Event")
QUOTA = CloudError(429, "RESOURCE_EXHAUSTED", "Quota exceeded for jobs per region")
ERRORS = [QUOTA, Forbidden("jobs.batch is forbidden: exceeded quota"), OSError(28, "No space left")]


async def shown(harness: TaskDriverHarness) -> tuple[str, str, str, str]:
    """Phase and message, status and reason of Ready."""
    status = (await harness.read()).status
    ready = find_condition(status.conditions, "Ready")
    assert ready is not None
    assert ready.message == status.message
    return status.phase, status.message, ready.status, ready.reason


async def notes(harness: TaskDriverHarness) -> list[str]:
    found = await harness.admin.list(EVENT, namespace=NAMESPACE)
    return [each["note"] for each in found if each["reason"] == "ProviderFailed"]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_c_3_a_run_that_cannot_be_started_is_not_at_work(
    harness: TaskDriverHarness, error: Exception
) -> None:
    await harness.make()
    harness.outside.broken["start"] = error
    async with harness.life() as life:
        for _ in range(2):
            await life.drive()
        run = run_of((await harness.read()).status)
        message = f"Run {run.run_id} cannot be started: {error}."
        assert await shown(harness) == ("Pending", message, "False", "ProviderFailed")
        del harness.outside.broken["start"]
        await life.drive()
        await life.finish()
        assert (await shown(harness))[0] == "Ready"
    assert await notes(harness) == [message]


async def test_c_3_what_is_ready_stays_ready_while_the_next_run_cannot_be_started(
    harness: TaskDriverHarness,
) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive(period=60.0)
        await life.finish(period=60.0)
        harness.outside.broken["list"] = QUOTA
        harness.clock.advance(60.0)
        progress = await life.drive(period=60.0)
    assert 1 <= (progress.requeue_after or 0) <= 30
    _, message, ready, reason = await shown(harness)
    assert "No run can be started: Quota exceeded for jobs per region" in message
    assert (ready, reason) == ("True", "Succeeded")


async def test_c_3_a_run_that_cannot_be_looked_at_goes_on(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive()
        run = run_of((await harness.read()).status)
        harness.outside.move(run.run_id, RunState.RUNNING)
        await life.drive()
        harness.outside.broken["get"] = QUOTA
        await life.drive()
        phase, message, _, _ = await shown(harness)
        assert phase == "Running"
        assert message == f"Run {run.run_id} cannot be looked at: {QUOTA}."
        del harness.outside.broken["get"]
        await life.finish()
        assert (await shown(harness))[:1] == ("Ready",)


async def test_c_3_a_teardown_that_cannot_be_started_reports_why(
    harness: TaskDriverHarness,
) -> None:
    await harness.make()
    undone = replace(PLAIN, teardown=True)
    terminating = Forbidden("unable to create new content: namespace shops is being terminated")
    async with harness.life() as life:
        await life.drive(definition=undone)
        await life.finish(definition=undone)
        harness.outside.broken["start"] = terminating
        await harness.admin.delete(InstanceTerraform, "acme", namespace=NAMESPACE)
        for _ in range(2):
            await life.drive(definition=undone)
    phase, message, _, _ = await shown(harness)
    assert phase == "Deleting"
    assert message.startswith("Being deleted. Run terraform-")
    assert "namespace shops is being terminated" in message


async def test_c_3_runs_that_cannot_be_deleted_keep_the_object_and_report_why(
    harness: TaskDriverHarness,
) -> None:
    """As with an account that lacks the right to delete executions."""
    await harness.make()
    async with harness.life() as life:
        await life.drive()
        await life.finish()
        denied = CloudError(403, "PERMISSION_DENIED", "Permission 'run.executions.delete' denied")
        harness.outside.broken["delete"] = denied
        await harness.admin.delete(InstanceTerraform, "acme", namespace=NAMESPACE)
        for _ in range(2):
            await life.drive()
        message = f"Being deleted. Its runs cannot be deleted: {denied}."
        assert await shown(harness) == ("Deleting", message, "False", "ProviderFailed")
        version = (await harness.read()).metadata.resource_version
        progress = await life.drive()
        assert (await harness.read()).metadata.resource_version == version
        assert (progress.requeue_after or 0) >= 1
        assert await notes(harness) == [message]
        del harness.outside.broken["delete"]
        assert (await life.drive()).gone


async def test_c_3_the_reason_is_in_the_message_of_the_end(harness: TaskDriverHarness) -> None:
    await harness.make()
    harness.outside.broken["start"] = QUOTA
    async with harness.life() as life:
        await life.drive()
        await life.drive()
        harness.clock.advance(601.0)
        await life.step()
    run = run_of((await harness.read()).status)
    assert run.outcome == "TimedOut"
    assert "Quota exceeded for jobs per region" in run.message
    assert not harness.outside.copies


@pytest.mark.criterion("C-10")
@pytest.mark.parametrize("end", ["deadline", "refusal", "deletion"])
async def test_c_10_what_was_copied_for_a_run_that_never_began_goes_before_its_end_is_recorded(
    harness: TaskDriverHarness, end: str
) -> None:
    outside = harness.outside
    await harness.make()
    outside.broken["start"] = QUOTA
    async with harness.life() as life:
        for _ in range(2):
            await life.drive()
        outside.broken["delete"] = QUOTA
        if end == "deadline":
            harness.clock.advance(601.0)
        elif end == "refusal":
            outside.broken["start"] = RunRefused("not as it is")
        else:
            await harness.admin.delete(InstanceTerraform, "acme", namespace=NAMESPACE)
        await life.drive()
        found = (await harness.read()).status
        assert run_of(found).outcome is None
        assert f"Its runs cannot be deleted: {QUOTA}" in found.message
        del outside.broken["delete"]
        progress = await life.drive()
        assert progress.gone or run_of((await harness.read()).status).outcome is not None
    assert not outside.copies
