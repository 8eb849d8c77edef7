"""Runs that look for drift of the infrastructure by a schedule. In virtual time."""

from __future__ import annotations

import pytest

from apis.cloud import Phase, TaskOperation, WaitingReason
from ctrlruntime.api import find_condition
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.rollout import Reason, Waiting
from ctrlruntime.schedule import parse
from internal.cloud.labels import RECONCILE
from internal.cloud.runs import RunState
from internal.cloud.taskdriver import Progress
from internal.cloud.taskdriver.drift_checks import DRIFTED, DriftCheck
from internal.cloud.tasks.task import DRIFT
from tests.cloud.taskdriver.harness import Life, TaskDriverHarness, run_of

DAILY = parse("0 3 * * *")
REPORT = DriftCheck(DAILY, TaskOperation.PLAN)
REPAIR = DriftCheck(DAILY, TaskOperation.REPAIR)
SUMMARY = "1 to add, 2 to change, 0 to destroy"
DAY = 86400.0


async def carried_out(harness: TaskDriverHarness, life: Life, check: DriftCheck = REPORT) -> None:
    """Infrastructure that was applied at noon."""
    await harness.make()
    await life.drive(drift_check=check)
    ended = await end(harness, life, check, {"ip": "10.0.0.1"})
    assert ended.requeue_after == 15 * 3600.0  # from noon to three in the morning


async def end(
    harness: TaskDriverHarness,
    life: Life,
    check: DriftCheck,
    outputs: dict[str, str],
    state: RunState = RunState.SUCCEEDED,
) -> Progress:
    run = run_of((await harness.read()).status)
    harness.outside.move(run.run_id, RunState.RUNNING)
    harness.outside.move(run.run_id, state, outputs=outputs)
    return await life.drive(drift_check=check)


async def drifted(harness: TaskDriverHarness) -> tuple[str, str, str] | None:
    found = find_condition((await harness.read()).status.conditions, DRIFTED)
    return None if found is None else (found.status, found.reason, found.message)


def operations(harness: TaskDriverHarness) -> list[str]:
    return [item.input.operation.value for item in harness.outside.requests.values()]


@pytest.mark.criterion("ISSUE15-8-TERRAFORM-DRIFT")
async def test_a_plan_runs_at_the_time_and_reports_in_the_condition(
    harness: TaskDriverHarness,
) -> None:
    async with harness.life() as life:
        await carried_out(harness, life)
        progress = await life.drive(drift_check=REPORT)
        assert progress.requeue_after == 15 * 3600.0  # from noon to three in the morning
        harness.clock.advance(15 * 3600.0)
        await life.drive(drift_check=REPORT)
        assert operations(harness) == ["Apply", "Plan"]
        await end(harness, life, REPORT, {DRIFT: SUMMARY})
    status = (await harness.read()).status
    found = await drifted(harness)
    assert found is not None
    assert found[:2] == ("True", "PlanHasChanges")
    assert SUMMARY in found[2]
    assert "manager instance reconcile acme --kind InstanceTerraform" in found[2]
    assert (status.phase, status.outputs) == (Phase.READY, {"ip": "10.0.0.1"})
    assert await events(harness) == [found[2]]
    known = [each.to_wire() for each in status.conditions if each.type != DRIFTED]
    await harness.forge({"conditions": known})  # by hand: it has nothing to do with what is there
    async with harness.life() as life:
        await life.drive(drift_check=REPORT)
    assert await drifted(harness) == found


async def events(harness: TaskDriverHarness) -> list[str]:
    kind = GroupVersionKind("events.k8s.io", "v1", "Event")
    found = await harness.admin.list(kind, "default")
    return [each["note"] for each in found if each["reason"] == DRIFTED]


async def test_of_times_missed_while_no_manager_ran_one_is_made_up_for(
    harness: TaskDriverHarness,
) -> None:
    async with harness.life() as life:
        await carried_out(harness, life)
    harness.clock.advance(5 * DAY)
    async with harness.life() as restarted:
        await restarted.drive(drift_check=REPORT)
        await end(harness, restarted, REPORT, {DRIFT: ""})
        assert operations(harness) == ["Apply", "Plan"]
        progress = await restarted.drive(drift_check=REPORT)
        assert progress.requeue_after == 15 * 3600.0
    async with harness.life() as again:
        await again.drive(drift_check=REPORT)
    assert operations(harness) == ["Apply", "Plan"]
    assert await drifted(harness) is None


async def test_the_condition_goes_when_nothing_differs_any_more(harness: TaskDriverHarness) -> None:
    async with harness.life() as life:
        await carried_out(harness, life)
        for found in (SUMMARY, ""):
            harness.clock.advance(DAY)
            await life.drive(drift_check=REPORT)
            await end(harness, life, REPORT, {DRIFT: found})
            assert (await drifted(harness) is not None) == bool(found)


async def test_a_requested_run_applies_and_ends_the_condition(harness: TaskDriverHarness) -> None:
    async with harness.life() as life:
        await carried_out(harness, life)
        harness.clock.advance(DAY)
        await life.drive(drift_check=REPORT)
        await end(harness, life, REPORT, {DRIFT: SUMMARY})
        await harness.annotate_all("acme", {RECONCILE: "1"})
        await life.drive(drift_check=REPORT)
        assert operations(harness) == ["Apply", "Plan", "Apply"]
        await end(harness, life, REPORT, {"ip": "10.0.0.2"})
        assert await drifted(harness) is None
        assert (await harness.read()).status.outputs == {"ip": "10.0.0.2"}
        await life.drive(drift_check=REPORT)
    assert operations(harness) == ["Apply", "Plan", "Apply"]


async def test_a_repair_applies_by_itself(harness: TaskDriverHarness) -> None:
    async with harness.life() as life:
        await carried_out(harness, life, REPAIR)
        harness.clock.advance(DAY)
        await life.drive(drift_check=REPAIR)
        assert operations(harness) == ["Apply", "Repair"]
        await end(harness, life, REPAIR, {"ip": "10.0.0.3"})
        assert (await harness.read()).status.outputs == {"ip": "10.0.0.3"}
    assert await drifted(harness) is None


async def test_a_repair_that_destroys_is_reported_only(harness: TaskDriverHarness) -> None:
    async with harness.life() as life:
        await carried_out(harness, life, REPAIR)
        harness.clock.advance(DAY)
        await life.drive(drift_check=REPAIR)
        await end(harness, life, REPAIR, {DRIFT: "0 to add, 0 to change, 3 to destroy"})
        status = (await harness.read()).status
        assert (status.phase, status.outputs) == (Phase.READY, {"ip": "10.0.0.1"})
        found = await drifted(harness)
        assert found is not None
        assert found[1] == "PlanDestroys"
        await life.drive(drift_check=REPAIR)
    assert operations(harness) == ["Apply", "Repair"]


async def test_a_plan_that_fails_is_retried_and_the_object_stays_ready(
    harness: TaskDriverHarness,
) -> None:
    async with harness.life() as life:
        await carried_out(harness, life)
        harness.clock.advance(DAY)
        await life.drive(drift_check=REPORT)
        await end(harness, life, REPORT, {}, RunState.FAILED)
        status = (await harness.read()).status
        ready = find_condition(status.conditions, "Ready")
        assert ready is not None
        assert (status.phase, ready.status) == (Phase.READY, "True")
        assert status.message.startswith("Drift could not be looked for.")
        harness.clock.advance(60.0)
        await life.drive(drift_check=REPORT)
        assert operations(harness) == ["Apply", "Plan", "Plan"]


async def test_changed_inputs_are_applied_and_no_plan_takes_their_place(
    harness: TaskDriverHarness,
) -> None:
    async with harness.life() as life:
        await carried_out(harness, life)
        harness.clock.advance(DAY)
        await harness.change(domain="new.example.com")
        await life.drive(drift_check=REPORT)
        await end(harness, life, REPORT, {"ip": "10.0.0.9"})
        await life.drive(drift_check=REPORT)
    assert operations(harness) == ["Apply", "Apply"]


async def test_a_failed_apply_is_not_forgotten_for_a_plan(harness: TaskDriverHarness) -> None:
    async with harness.life() as life:
        await carried_out(harness, life)
        await harness.annotate_all("acme", {RECONCILE: "1"})
        await life.drive(drift_check=REPORT)
        await end(harness, life, REPORT, {}, RunState.FAILED)
        harness.clock.advance(DAY)
        await life.drive(drift_check=REPORT)
    assert operations(harness) == ["Apply", "Apply", "Apply"]


@pytest.mark.parametrize(("check", "waits"), [(REPORT, False), (REPAIR, True)])
async def test_during_a_freeze_a_plan_runs_and_a_repair_waits(
    harness: TaskDriverHarness, check: DriftCheck, waits: bool
) -> None:
    frozen = Waiting(Reason.FROZEN, "the freeze holds", None)
    async with harness.life() as life:
        await carried_out(harness, life, check)
        harness.clock.advance(DAY)
        await life.drive(drift_check=check, hold=frozen)
        status = (await harness.read()).status
        assert (status.waiting is not None) == waits
        assert status.waiting is None or status.waiting.reason is WaitingReason.FROZEN
        await life.drive(drift_check=check)
    assert operations(harness) == ["Apply", check.operation.value]


async def test_a_schedule_that_cannot_be_read_is_in_the_condition(
    harness: TaskDriverHarness,
) -> None:
    async with harness.life() as life:
        await carried_out(harness, life)
        await life.drive(bad_schedule="spec.driftDetection.schedule 'x' has 1 fields, not five")
        found = await drifted(harness)
        assert found is not None
        assert found[:2] == ("Unknown", "InvalidSchedule")
        await life.drive(drift_check=REPORT)
        assert await drifted(harness) is None


async def test_without_a_schedule_the_condition_goes(harness: TaskDriverHarness) -> None:
    async with harness.life() as life:
        await carried_out(harness, life)
        harness.clock.advance(DAY)
        await life.drive(drift_check=REPORT)
        await end(harness, life, REPORT, {DRIFT: SUMMARY})
        await life.drive()
    assert await drifted(harness) is None
