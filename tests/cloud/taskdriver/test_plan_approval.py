"""Between plan and apply: a plan waits in the status until a person names its digest. In virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Unpack

import pytest

from apis.cloud import (
    InstanceTerraform,
    Phase,
    PlanApproval,
    PlanDecision,
    PlannedChange,
    TaskOperation,
    TaskOutcome,
    TaskState,
    TaskStatus,
    TerraformOperation,
    TerraformRuns,
    WaitingReason,
)
from ctrlruntime.api import Condition, find_condition
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.rollout import Reason, Waiting
from internal.cloud.labels import APPROVED_PLAN, RECONCILE, REJECTED_PLAN, RETRY
from internal.cloud.runs import RunInput, RunState
from internal.cloud.taskdriver import Progress
from internal.cloud.taskdriver.drift_checks import DRIFTED, DriftCheck
from internal.cloud.taskdriver.plan_approval import AWAITS_APPROVAL
from internal.cloud.tasks.plans import MadePlan, plan_output
from internal.cloud.tasks.task import DRIFT
from tests.cloud.taskdriver.fake_provider import Lost
from tests.cloud.taskdriver.harness import PLAIN, Life, StepOptions, TaskDriverHarness, run_of
from tests.cloud.taskdriver.test_drift_checks import DAILY

CRITERION = "ISSUE14-2-TERRAFORM-APPROVAL"
MANUAL = TerraformRuns(approval=PlanApproval.MANUAL)
ONLY = TerraformRuns(operation=TerraformOperation.PLAN)
REPAIR = DriftCheck(DAILY, TaskOperation.REPAIR)
FROZEN = Waiting(Reason.FROZEN, "the freeze holds", None)
CLOSED = Waiting(Reason.WINDOW, "no maintenance window is open", None)
HOLDS = pytest.mark.parametrize("hold", [FROZEN, CLOSED], ids=["freeze", "window"])
PLAN = MadePlan(content="run-1", add=1, change=2, link="https://hcp.example/run-1")
DESTROYS = MadePlan(
    content="run-2", add=1, destroy=2, replace=1, destroys=("destroy a.b", "replace c.d")
)
OUTPUTS = {"ip": "10.0.0.1"}


class Scene:
    """One object and its manager."""

    def __init__(
        self, harness: TaskDriverHarness, life: Life, **options: Unpack[StepOptions]
    ) -> None:
        self.harness = harness
        self.life = life
        self.options: StepOptions = {"terraform_runs": MANUAL, **options}

    async def drive(self) -> Progress:
        return await self.life.drive(**self.options)

    async def end(
        self, outputs: dict[str, str], state: RunState = RunState.SUCCEEDED, **changes: object
    ) -> Progress:
        run = run_of((await self.harness.read()).status)
        self.harness.outside.move(run.run_id, RunState.RUNNING)
        self.harness.outside.move(run.run_id, state, outputs=outputs, **changes)
        return await self.drive()

    async def plan_waits(self, made: MadePlan = PLAN) -> PlannedChange:
        """Drive a new object until its plan waits."""
        await self.harness.make()
        await self.drive()
        await self.end(plan_output(made))
        return await self.plan()

    async def plan(self) -> PlannedChange:
        found = (await self.harness.read()).status.plan
        assert found is not None
        return found

    async def status(self) -> TaskStatus:
        return (await self.harness.read()).status

    async def approve(self, digest: str) -> Progress:
        await self.harness.annotate_all("acme", {APPROVED_PLAN: digest})
        return await self.drive()

    async def condition(self) -> Condition | None:
        return find_condition((await self.harness.read()).status.conditions, AWAITS_APPROVAL)

    def inputs(self) -> list[RunInput]:
        return [item.input for item in self.harness.outside.requests.values()]

    async def events(self) -> list[str]:
        kind = GroupVersionKind("events.k8s.io", "v1", "Event")
        found = await self.harness.admin.list(kind, "default")
        return [each["note"] for each in found if each["reason"] == AWAITS_APPROVAL]


@pytest.fixture
async def scene(harness: TaskDriverHarness) -> AsyncIterator[Scene]:
    async with harness.life() as life:
        yield Scene(harness, life)


def decisions(scene: Scene) -> list[PlanDecision | None]:
    return [None if item.plan is None else item.plan.decision for item in scene.inputs()]


@pytest.mark.criterion(CRITERION)
async def test_a_plan_waits_with_its_summary_and_its_approval_starts_the_run_that_applies_it(
    scene: Scene,
) -> None:
    plan = await scene.plan_waits(DESTROYS)
    status = await scene.status()
    assert (plan.add, plan.change, plan.destroy, plan.replace) == (1, 0, 2, 1)
    assert plan.destroys == ["destroy a.b", "replace c.d"]
    assert status.phase is Phase.WAITING
    assert status.waiting is not None
    assert status.waiting.reason is WaitingReason.APPROVAL
    assert status.waiting.since == plan.since
    found = await scene.condition()
    assert found is not None
    assert (found.status, found.reason) == ("True", "PlanDestroys")
    assert "1 to add, 0 to change, 2 to destroy (1 of them replaced)" in found.message
    assert "destroy a.b, replace c.d" in found.message
    assert f"manager instance approve acme --plan {plan.digest}" in found.message
    ready = find_condition(status.conditions, "Ready")
    assert ready is not None
    assert ready.status == "False"

    await scene.approve(plan.digest)
    assert await scene.condition() is None
    [first, second] = scene.inputs()
    assert (first.approval, first.plan) == (PlanApproval.MANUAL, None)
    assert second.plan is not None
    assert (second.plan.content, second.plan.run_id) == ("run-2", first.run_id)
    assert second.plan.decision is PlanDecision.APPROVED
    await scene.end(OUTPUTS)
    status = await scene.status()
    assert (status.phase, status.outputs, status.plan) == (Phase.READY, OUTPUTS, None)
    await scene.drive()
    assert len(scene.inputs()) == 2
    assert await scene.events() == [found.message]


@pytest.mark.criterion(CRITERION)
async def test_the_approval_of_another_digest_applies_nothing_and_the_condition_reports_it(
    scene: Scene,
) -> None:
    plan = await scene.plan_waits()
    await scene.approve("0123456789abcdef")
    found = await scene.condition()
    assert found is not None
    assert "the approval of 0123456789abcdef is for another plan" in found.message
    assert len(scene.inputs()) == 1
    assert (await scene.plan()).digest == plan.digest


@pytest.mark.criterion(CRITERION)
async def test_an_equal_plan_that_is_made_later_needs_an_approval_of_its_own(scene: Scene) -> None:
    plan = await scene.plan_waits()
    await scene.approve(plan.digest)
    await scene.end(OUTPUTS)
    await scene.harness.annotate_all("acme", {RECONCILE: "1"})
    await scene.drive()
    await scene.end(plan_output(PLAN))
    again = await scene.plan()
    assert again.content == plan.content
    assert again.digest != plan.digest
    await scene.drive()
    assert decisions(scene) == [None, PlanDecision.APPROVED, None]


@pytest.mark.criterion(CRITERION)
async def test_a_newer_plan_supersedes_the_approved_one(scene: Scene) -> None:
    """The run that was to apply an approved plan found another one."""
    plan = await scene.plan_waits()
    await scene.approve(plan.digest)
    await scene.end(plan_output(DESTROYS))
    newer = await scene.plan()
    assert newer.digest != plan.digest
    found = await scene.condition()
    assert found is not None
    assert f"the approval of {plan.digest} is for another plan" in found.message
    await scene.drive()
    assert len(scene.inputs()) == 2


@pytest.mark.criterion(CRITERION)
async def test_newer_inputs_supersede_the_plan_that_waits(scene: Scene) -> None:
    plan = await scene.plan_waits()
    await scene.harness.change(domain="b.example.com")
    await scene.drive()
    status = await scene.status()
    assert (status.plan, status.phase) == (None, Phase.RUNNING)
    assert await scene.condition() is None
    await scene.approve(plan.digest)
    await scene.end(plan_output(PLAN))
    assert (await scene.plan()).digest != plan.digest
    assert decisions(scene) == [None, None]


@pytest.mark.criterion(CRITERION)
async def test_a_rejected_plan_is_given_up_until_the_inputs_change(scene: Scene) -> None:
    plan = await scene.plan_waits()
    both = {APPROVED_PLAN: plan.digest, REJECTED_PLAN: plan.digest}
    await scene.harness.annotate_all("acme", both)
    await scene.drive()
    assert decisions(scene) == [None, PlanDecision.REJECTED]
    await scene.end({}, RunState.FAILED, retryable=False, message="the plan was rejected")
    status = await scene.status()
    assert (status.phase, status.plan, status.waiting) == (Phase.FAILED, None, None)
    assert run_of(status).outcome is TaskOutcome.REJECTED
    assert await scene.condition() is None
    scene.harness.clock.advance(86400.0)
    await scene.drive()
    assert len(scene.inputs()) == 2
    await scene.harness.change(domain="b.example.com")
    await scene.drive()
    assert decisions(scene) == [None, PlanDecision.REJECTED, None]


async def test_a_retry_plans_again(scene: Scene) -> None:
    plan = await scene.plan_waits()
    await scene.harness.annotate_all("acme", {RETRY: "1"})
    await scene.drive()
    await scene.end(plan_output(PLAN))
    assert decisions(scene) == [None, None]
    assert scene.inputs()[-1].plan is None
    assert (await scene.plan()).digest != plan.digest


async def test_a_plan_that_waits_is_looked_at_every_hour_and_stays_the_same(scene: Scene) -> None:
    plan = await scene.plan_waits()
    assert (await scene.drive()).requeue_after == pytest.approx(3600.0, abs=60)
    scene.harness.clock.advance(3600.0)
    await scene.drive()
    assert (await scene.status()).phase is Phase.RUNNING
    assert (await scene.condition()) is not None
    looked = scene.inputs()[-1].plan
    assert looked is not None
    assert (looked.content, looked.decision) == ("run-1", None)
    await scene.end(plan_output(PLAN))
    again = await scene.plan()
    assert (again.digest, again.since) == (plan.digest, plan.since)
    assert again.checked_at > plan.checked_at
    await scene.approve(plan.digest)
    assert decisions(scene) == [None, None, PlanDecision.APPROVED]


async def test_a_plan_that_was_applied_elsewhere_counts_as_carried_out(scene: Scene) -> None:
    await scene.plan_waits()
    scene.harness.clock.advance(3600.0)
    await scene.drive()
    await scene.end(OUTPUTS)
    status = await scene.status()
    assert (status.phase, status.plan) == (Phase.READY, None)


@pytest.mark.criterion(CRITERION)
async def test_a_plan_that_was_discarded_elsewhere_is_given_up(scene: Scene) -> None:
    await scene.plan_waits()
    scene.harness.clock.advance(3600.0)
    await scene.drive()
    await scene.end({}, RunState.FAILED, retryable=False, message="was discarded by a person")
    status = await scene.status()
    assert (status.phase, status.plan) == (Phase.FAILED, None)
    assert "was discarded by a person" in status.message


async def test_a_failed_look_leaves_the_plan_waiting(scene: Scene) -> None:
    plan = await scene.plan_waits()
    scene.harness.clock.advance(3600.0)
    await scene.drive()
    await scene.end({}, RunState.FAILED, message="HCP Terraform does not answer")
    await scene.approve(plan.digest)
    assert decisions(scene) == [None, None, PlanDecision.APPROVED]


async def test_an_approved_run_that_failed_is_tried_again_with_the_same_plan(scene: Scene) -> None:
    plan = await scene.plan_waits()
    await scene.approve(plan.digest)
    await scene.end({}, RunState.FAILED, message="no network")
    assert (await scene.status()).phase is Phase.RETRYING
    assert len(scene.inputs()) == 2
    scene.harness.clock.advance(30.0)
    await scene.drive()
    assert decisions(scene) == [None, PlanDecision.APPROVED, PlanDecision.APPROVED]
    await scene.end(OUTPUTS)
    assert (await scene.status()).phase is Phase.READY


@pytest.mark.criterion(CRITERION)
@HOLDS
async def test_a_hold_stops_an_approved_plan_and_not_the_planning(
    harness: TaskDriverHarness, hold: Waiting
) -> None:
    async with harness.life() as life:
        scene = Scene(harness, life, hold=hold)
        plan = await scene.plan_waits()
        await scene.approve(plan.digest)
        status = (await harness.read()).status
        assert status.waiting is not None
        assert status.waiting.reason.value == hold.reason.value
        assert len(scene.inputs()) == 1
        scene.options["hold"] = None
        await scene.drive()
        assert decisions(scene) == [None, PlanDecision.APPROVED]


@HOLDS
async def test_a_hold_stops_a_run_that_may_apply_its_plan(
    harness: TaskDriverHarness, hold: Waiting
) -> None:
    async with harness.life() as life:
        scene = Scene(harness, life, hold=hold, terraform_runs=None)
        await harness.make()
        await scene.drive()
        assert scene.inputs() == []


async def test_an_approval_that_is_taken_back_during_a_freeze_starts_nothing(
    harness: TaskDriverHarness,
) -> None:
    async with harness.life() as life:
        scene = Scene(harness, life, hold=FROZEN)
        plan = await scene.plan_waits()
        await scene.approve(plan.digest)
        await harness.annotate_all("acme", {REJECTED_PLAN: plan.digest})
        await scene.drive()
        assert decisions(scene) == [None, PlanDecision.REJECTED]


@pytest.mark.criterion(CRITERION)
async def test_operation_plan_runs_only_the_plan(harness: TaskDriverHarness) -> None:
    async with harness.life() as life:
        scene = Scene(harness, life, terraform_runs=ONLY)
        plan = await scene.plan_waits()
        assert [item.operation for item in scene.inputs()] == [TaskOperation.PLAN]
        found = await scene.condition()
        assert found is not None
        assert found.reason == "OnlyPlanned"
        assert "set spec.terraformRuns.operation of the Instance to Apply" in found.message
        progress = await scene.approve(plan.digest)
        assert progress.requeue_after is None
        harness.clock.advance(86400.0)
        await scene.drive()
        assert len(scene.inputs()) == 1
        scene.options["terraform_runs"] = None
        await scene.drive()
        await scene.end(OUTPUTS)
        assert [item.operation.value for item in scene.inputs()] == ["Plan", "Apply"]
        assert (await harness.read()).status.phase is Phase.READY
        assert await scene.condition() is None


async def test_operation_plan_with_nothing_to_change_is_no_success(
    harness: TaskDriverHarness,
) -> None:
    async with harness.life() as life:
        scene = Scene(harness, life, terraform_runs=ONLY)
        await harness.make()
        await scene.drive()
        await scene.end({DRIFT: ""})
        status = (await harness.read()).status
        assert status.succeeded is None
        assert status.plan is not None
        assert "0 to add, 0 to change, 0 to destroy" in status.message


async def test_a_requested_run_with_operation_plan_reports_drift(
    harness: TaskDriverHarness,
) -> None:
    async with harness.life() as life:
        scene = Scene(harness, life, terraform_runs=None)
        await harness.make()
        await scene.drive()
        await scene.end(OUTPUTS)
        scene.options["terraform_runs"] = ONLY
        await harness.annotate_all("acme", {RECONCILE: "1"})
        await scene.drive()
        await scene.end({DRIFT: "1 to add", **plan_output(PLAN)})
        status = (await harness.read()).status
        assert [item.operation.value for item in scene.inputs()] == ["Apply", "Plan"]
        found = find_condition(status.conditions, DRIFTED)
        assert found is not None
        assert "set spec.terraformRuns.operation of the Instance to Apply and run" in found.message
        assert (status.phase, status.plan) == (Phase.READY, None)


@pytest.mark.criterion(CRITERION)
async def test_a_repair_of_drift_waits_for_its_approval_and_the_object_stays_ready(
    harness: TaskDriverHarness,
) -> None:
    async with harness.life() as life:
        scene = Scene(harness, life, terraform_runs=None, drift_check=REPAIR)
        await harness.make()
        await scene.drive()
        await scene.end(OUTPUTS)
        harness.clock.advance(86400.0)
        await scene.drive()
        await scene.end(plan_output(DESTROYS))
        plan, status = await scene.plan(), (await harness.read()).status
        ready = find_condition(status.conditions, "Ready")
        assert ready is not None
        assert (ready.status, plan.operation) == ("True", TaskOperation.REPAIR)
        harness.clock.advance(86400.0)
        await scene.approve(plan.digest)
        assert [item.operation.value for item in scene.inputs()] == ["Apply", "Repair", "Repair"]
        await scene.end({"ip": "10.0.0.2"})
        status = (await harness.read()).status
        assert (status.phase, status.outputs) == (Phase.READY, {"ip": "10.0.0.2"})
        assert status.plan is None


async def test_a_rejected_repair_leaves_the_object_ready_and_drifted(
    harness: TaskDriverHarness,
) -> None:
    async with harness.life() as life:
        scene = Scene(harness, life, terraform_runs=None, drift_check=REPAIR)
        await harness.make()
        await scene.drive()
        await scene.end(OUTPUTS)
        harness.clock.advance(86400.0)
        await scene.drive()
        await scene.end(plan_output(DESTROYS))
        await harness.annotate_all("acme", {REJECTED_PLAN: (await scene.plan()).digest})
        await scene.drive()
        await scene.end({DRIFT: "2 to destroy"})
        status = (await harness.read()).status
        assert find_condition(status.conditions, DRIFTED) is not None
        assert (status.phase, status.plan) == (Phase.READY, None)
        await scene.drive()
        assert len(scene.inputs()) == 3


async def test_without_the_manual_approval_a_plan_that_destroys_nothing_goes_on(
    scene: Scene,
) -> None:
    await scene.plan_waits()
    scene.options["terraform_runs"] = None
    await scene.drive()
    assert decisions(scene) == [None, PlanDecision.APPROVED]


async def test_a_deletion_does_not_wait_for_the_plan(harness: TaskDriverHarness) -> None:
    async with harness.life() as life:
        scene = Scene(harness, life, definition=replace(PLAIN, teardown=True))
        await scene.plan_waits()
        await harness.admin.delete(InstanceTerraform, "acme", namespace="default")
        await scene.drive()
        assert await scene.condition() is None
        assert [item.operation.value for item in scene.inputs()] == ["Apply", "Teardown"]


async def test_after_a_restart_the_plan_still_waits_and_its_approval_counts(
    harness: TaskDriverHarness,
) -> None:
    async with harness.life() as life:
        plan = await Scene(harness, life).plan_waits()
    async with harness.life() as restarted:
        scene = Scene(harness, restarted)
        await scene.drive()
        assert len(scene.inputs()) == 1
        await scene.approve(plan.digest)
        assert decisions(scene) == [None, PlanDecision.APPROVED]


async def test_a_lost_status_finds_the_plan_again_under_the_same_digest(scene: Scene) -> None:
    plan = await scene.plan_waits()
    await scene.harness.forge(None)
    await scene.drive()
    assert (await scene.plan()).digest == plan.digest
    assert len(scene.inputs()) == 1


async def test_a_plan_that_was_written_by_hand_is_not_believed(scene: Scene) -> None:
    await scene.plan_waits()
    await scene.harness.forge({"plan": {"content": "run-9"}})
    await scene.drive()
    assert decisions(scene) == [None, None]
    assert scene.inputs()[-1].plan is None


async def test_what_waits_for_an_approval_takes_no_place_and_is_counted(
    harness: TaskDriverHarness,
) -> None:
    async with harness.life() as life:
        scene = Scene(harness, life)
        plan = await scene.plan_waits()
        await scene.drive()

        def value(name: str) -> float | None:
            return life.registry.get_sample_value(name, {"task": "terraform"})

        assert value("cloud_task_awaits_approval") == 1.0
        assert value("cloud_task_waiting") == 0.0
        await scene.approve(plan.digest)
        assert value("cloud_task_awaits_approval") == 0.0


async def test_an_approval_that_is_taken_back_before_the_run_exists_cancels_it(
    scene: Scene,
) -> None:
    """The intent is on record, the provider does not answer, and the person changes their mind."""
    plan = await scene.plan_waits()
    scene.harness.outside.fail.add("start")
    with pytest.raises(Lost):
        await scene.approve(plan.digest)
    intent = run_of(await scene.status())
    assert (intent.plan_decision, intent.state) == (PlanDecision.APPROVED, TaskState.CREATING)
    await scene.harness.annotate_all("acme", {APPROVED_PLAN: None})
    await scene.drive()
    status = await scene.status()
    assert run_of(status).outcome is TaskOutcome.CANCELLED
    assert decisions(scene) == [None]
    assert (await scene.plan()).digest == plan.digest
    assert await scene.condition() is not None
    scene.harness.clock.advance(30.0)
    await scene.approve(plan.digest)
    assert decisions(scene) == [None, PlanDecision.APPROVED]


async def test_with_operation_plan_drift_is_reported_and_not_repaired(
    harness: TaskDriverHarness,
) -> None:
    async with harness.life() as life:
        scene = Scene(harness, life, terraform_runs=None, drift_check=REPAIR)
        await harness.make()
        await scene.drive()
        await scene.end(OUTPUTS)
        scene.options["terraform_runs"] = ONLY
        harness.clock.advance(86400.0)
        await scene.drive()
        assert [item.operation.value for item in scene.inputs()] == ["Apply", "Plan"]
        await scene.end({DRIFT: "1 to add", **plan_output(PLAN)})
        status = (await harness.read()).status
        assert (status.phase, status.plan) == (Phase.READY, None)
        await scene.drive()
        assert len(scene.inputs()) == 2


async def test_manual_approval_holds_a_repair_that_destroys_nothing(
    harness: TaskDriverHarness,
) -> None:
    async with harness.life() as life:
        scene = Scene(harness, life, drift_check=REPAIR, terraform_runs=None)
        await harness.make()
        await scene.drive()
        await scene.end(OUTPUTS)
        scene.options["terraform_runs"] = MANUAL
        harness.clock.advance(86400.0)
        await scene.drive()
        await scene.end(plan_output(PLAN))
        plan = await scene.plan()
        assert (plan.operation, plan.slot) == (TaskOperation.REPAIR, "2026-03-02T03:00:00Z")
        await scene.approve(plan.digest)
        assert decisions(scene) == [None, None, PlanDecision.APPROVED]
        assert scene.inputs()[-1].slot == plan.slot
