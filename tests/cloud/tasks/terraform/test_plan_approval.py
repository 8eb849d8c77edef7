"""Plans that wait for a person: the run that made one applies nothing, and a later run applies that plan and no other."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apis.cloud import PlanApproval, PlanDecision, TaskOperation
from internal.cloud.runs import EarlierPlan
from internal.cloud.tasks import TaskError, TaskRejected, TaskResult
from internal.cloud.tasks.plans import MadePlan, plan_of
from internal.cloud.tasks.task import DRIFT
from tests.cloud.servers.hcp.fake_service import Run
from tests.cloud.tasks.terraform.hcp_bench import HCPBench, spec_of
from tests.cloud.tasks.terraform.test_hcp import PLAN_LOG
from tests.cloud.tasks.terraform.test_local import REAL, LocalBench, bigger, real_bench, real_spec

MANUAL = PlanApproval.MANUAL
CRITERION = "ISSUE14-2-TERRAFORM-APPROVAL"


def made(result: TaskResult) -> MadePlan:
    found = plan_of(result.outputs)
    assert found is not None
    return found


def earlier(
    plan: MadePlan, decision: PlanDecision | None = PlanDecision.APPROVED, attempt: int = 2
) -> EarlierPlan:
    run_id = f"terraform-cafe{attempt:08x}"
    return EarlierPlan(run_id=run_id, content=plan.content, summary="3 things", decision=decision)


class HCPPlans:
    """An instance in HCP Terraform whose second configuration is planned by attempt 2."""

    def __init__(self, bench: HCPBench) -> None:
        self.bench = bench
        self.fake_state = bench.server.fake_state
        self.changed = spec_of(bench.server.url, machine="n2-standard-16")

    async def wait(self, **given: object) -> MadePlan:
        """Apply the first configuration; plan the second, which waits."""
        await self.bench.apply()
        return made(await self.again(2, **given))

    async def again(self, attempt: int, **given: object) -> TaskResult:
        fields: dict[str, Any] = {"protected": False, "approval": MANUAL, **given}
        return await self.bench.apply(self.changed, attempt=attempt, **fields)

    def runs(self) -> list[Run]:
        """Oldest first, without the first of all."""
        return list(self.fake_state.runs.values())[1:]


@pytest.fixture
def hcp(bench: HCPBench) -> HCPPlans:
    return HCPPlans(bench)


@pytest.mark.criterion(CRITERION)
async def test_a_manual_plan_waits_in_hcp_terraform_and_its_approval_applies_that_run(
    hcp: HCPPlans,
) -> None:
    plan = await hcp.wait()
    [run] = hcp.runs()
    assert (run.status, run.confirmed) == ("planned", 0)
    assert (plan.content, plan.add, plan.change, plan.destroy) == (run.identity, 0, 3, 0)
    assert plan.link.endswith(f"/app/acme/workspaces/acme/runs/{run.identity}")
    done = await hcp.again(3, plan=earlier(plan))
    assert "0 added, 3 changed, 0 destroyed" in done.message
    assert "project_id" in done.outputs
    assert hcp.runs() == [run]
    assert (run.status, run.confirmed, run.applies) == ("applied", 1, 1)


async def test_a_plan_that_waited_for_a_month_is_still_the_one_that_is_applied(
    hcp: HCPPlans,
) -> None:
    plan = await hcp.wait()
    await hcp.bench.server.clock.sleep(30 * 86400.0)
    await hcp.again(3, plan=earlier(plan))
    [run] = hcp.runs()
    assert (run.status, run.applies) == ("applied", 1)


@pytest.mark.criterion(CRITERION)
async def test_a_plan_that_destroys_waits_without_protection_and_names_what_it_destroys(
    hcp: HCPPlans,
) -> None:
    hcp.fake_state.replaces, hcp.fake_state.plan_log = 2, PLAN_LOG
    plan = await hcp.wait(approval=PlanApproval.AUTOMATIC)
    assert (plan.destroy, plan.replace) == (2, 1)
    assert plan.destroys == (
        "replace module.instance.google_container_cluster.blue",
        'destroy module.instance.google_sql_database_instance.main["a"]',
    )
    assert len(hcp.fake_state.applied) == 1
    done = await hcp.again(3, approval=PlanApproval.AUTOMATIC, plan=earlier(plan))
    assert "2 destroyed" in done.message


async def test_a_plan_whose_numbers_are_unknown_is_not_applied(hcp: HCPPlans) -> None:
    plan = await hcp.wait()
    [run] = hcp.runs()
    run.plan_status = "unreachable"
    with pytest.raises(TaskError, match="does not say what its plan destroys"):
        await hcp.again(3, plan=earlier(plan))
    assert (run.status, run.confirmed) == ("planned", 0)


@pytest.mark.criterion(CRITERION)
async def test_an_approval_of_another_plan_applies_nothing(hcp: HCPPlans) -> None:
    plan = await hcp.wait()
    stale = replace(earlier(plan), content="run-0000000000000099")
    other = made(await hcp.again(3, plan=stale))
    assert other.content != plan.content
    assert [run.confirmed for run in hcp.runs()] == [0, 0]
    assert [run.status for run in hcp.runs()] == ["discarded", "planned"]


async def test_a_look_at_a_plan_that_waits_changes_nothing(hcp: HCPPlans) -> None:
    plan = await hcp.wait()
    assert made(await hcp.again(3, plan=earlier(plan, None))) == plan
    assert [(run.status, run.confirmed) for run in hcp.runs()] == [("planned", 0)]


@pytest.mark.criterion(CRITERION)
@pytest.mark.parametrize("decision", [None, PlanDecision.APPROVED])
async def test_a_plan_that_was_discarded_in_hcp_terraform_is_rejected(
    hcp: HCPPlans, decision: PlanDecision | None
) -> None:
    plan = await hcp.wait()
    [run] = hcp.runs()
    run.status = "discarded"
    with pytest.raises(TaskRejected, match="was discarded by a person"):
        await hcp.again(3, plan=earlier(plan, decision))
    assert len(hcp.runs()) == 1


async def test_a_plan_that_was_confirmed_in_hcp_terraform_counts_as_applied(hcp: HCPPlans) -> None:
    plan = await hcp.wait()
    [run] = hcp.runs()
    hcp.fake_state.confirm(run)
    done = await hcp.again(3, plan=earlier(plan, None))
    assert "project_id" in done.outputs
    assert (run.status, run.applies) == ("applied", 1)


@pytest.mark.criterion(CRITERION)
async def test_a_rejected_plan_is_discarded_in_hcp_terraform(hcp: HCPPlans) -> None:
    plan = await hcp.wait()
    with pytest.raises(TaskRejected, match=r"the plan \(3 things\) was rejected"):
        await hcp.again(3, plan=earlier(plan, PlanDecision.REJECTED))
    assert [(run.status, run.confirmed) for run in hcp.runs()] == [("discarded", 0)]


async def test_after_an_approved_plan_failed_to_apply_another_one_is_made(hcp: HCPPlans) -> None:
    plan = await hcp.wait()
    hcp.fake_state.fail = "apply"
    with pytest.raises(TaskError, match="errored"):
        await hcp.again(3, plan=earlier(plan))
    hcp.fake_state.fail = ""
    other = made(await hcp.again(4, plan=earlier(plan)))
    assert other.content != plan.content
    assert [run.status for run in hcp.runs()] == ["errored", "planned"]
    assert len(hcp.fake_state.applied) == 1


async def test_newer_inputs_discard_the_plan_that_waits(hcp: HCPPlans) -> None:
    await hcp.wait()
    hcp.changed = spec_of(hcp.bench.server.url, machine="n2-standard-32")
    await hcp.again(3)
    assert [run.status for run in hcp.runs()] == ["discarded", "planned"]


async def test_a_run_that_is_cancelled_leaves_the_plan_waiting(hcp: HCPPlans) -> None:
    """Approved, and cancelled before it was confirmed: the plan can still be approved."""
    plan = await hcp.wait()
    context = hcp.bench.context(hcp.changed, attempt=3)
    given = replace(context.input, protected=False, approval=MANUAL, plan=earlier(plan))

    def cancel(_said: str) -> None:
        running.cancel()

    work = hcp.bench.task().run(replace(context, input=given, progress=cancel))
    running = asyncio.ensure_future(work)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [(run.status, run.confirmed) for run in hcp.runs()] == [("planned", 0)]
    done = await hcp.again(4, plan=earlier(plan))
    assert "3 changed" in done.message


@pytest.mark.criterion(CRITERION)
async def test_under_protection_an_approved_plan_that_destroys_is_refused(hcp: HCPPlans) -> None:
    hcp.fake_state.replaces = 2
    plan = await hcp.wait()
    with pytest.raises(TaskRejected, match="deletion protection is on"):
        await hcp.again(3, plan=earlier(plan), protected=True)
    assert len(hcp.fake_state.applied) == 1


@pytest.mark.criterion(CRITERION)
async def test_a_repair_that_destroys_waits_for_an_approval(hcp: HCPPlans) -> None:
    hcp.fake_state.replaces = 2
    repair = {"operation": TaskOperation.REPAIR, "approval": PlanApproval.AUTOMATIC}
    plan = await hcp.wait(**repair)
    assert plan.destroy == 2
    done = await hcp.again(3, plan=earlier(plan), **repair)
    assert "2 destroyed" in done.message


async def test_a_rejected_repair_is_reported_as_drift(hcp: HCPPlans) -> None:
    repair = {"operation": TaskOperation.REPAIR}
    plan = await hcp.wait(**repair)
    done = await hcp.again(3, plan=earlier(plan, PlanDecision.REJECTED), **repair)
    assert done.outputs == {DRIFT: "3 things"}
    assert [run.status for run in hcp.runs()] == ["discarded"]


async def test_a_run_that_only_plans_hands_back_the_plan(hcp: HCPPlans) -> None:
    plan = await hcp.wait(operation=TaskOperation.PLAN)
    assert (plan.change, [run.plan_only for run in hcp.runs()]) == (3, [True])
    assert len(hcp.fake_state.applied) == 1


# -- a binary ---------------------------------------------------------------------------------


@pytest.fixture
def terraform(tmp_path: Path) -> LocalBench:
    return LocalBench(tmp_path)


def state(local: LocalBench) -> bytes:
    return (local.states / "prod" / "acme" / "terraform.tfstate").read_bytes()


@pytest.mark.criterion(CRITERION)
async def test_a_manual_plan_of_a_binary_waits_and_its_approval_applies_an_equal_plan(
    terraform: LocalBench,
) -> None:
    first = made(await terraform.run(approval=MANUAL))
    assert (first.add, first.destroy, len(first.content)) == (2, 0, 64)
    assert not (terraform.states / "prod" / "acme" / "terraform.tfstate").exists()
    done = await terraform.run(approval=MANUAL, plan=earlier(first))
    assert done.message == "2 added, 0 changed, 0 destroyed"
    assert done.outputs == {"address": "<address>"}


@pytest.mark.criterion(CRITERION)
async def test_a_plan_of_a_binary_that_differs_from_the_approved_one_waits_anew(
    terraform: LocalBench,
) -> None:
    await terraform.run()
    before = state(terraform)
    plan = made(await terraform.run(bigger(2), approval=MANUAL))
    again: dict[str, Any] = {"approval": MANUAL, "STAND_IN": "replace", "protected": False}
    other = made(await terraform.run(bigger(2), plan=earlier(plan), **again))
    assert other.content != plan.content
    assert state(terraform) == before
    done = await terraform.run(bigger(2), plan=earlier(other), **again)
    assert done.message == "0 added, 1 changed, 0 destroyed"


@pytest.mark.criterion(CRITERION)
@pytest.mark.parametrize("operation", [TaskOperation.APPLY, TaskOperation.REPAIR])
async def test_a_plan_of_a_binary_that_replaces_waits_without_protection(
    terraform: LocalBench, operation: TaskOperation
) -> None:
    await terraform.run()
    before = state(terraform)
    given: dict[str, Any] = {"operation": operation, "protected": False, "STAND_IN": "replace"}
    plan = made(await terraform.run(bigger(2), **given))
    assert (plan.destroys, plan.replace) == (("replace module.instance.thing.0",), 1)
    assert state(terraform) == before
    assert "address" in (await terraform.run(bigger(2), plan=earlier(plan), **given)).outputs
    assert state(terraform) != before


@pytest.mark.criterion(CRITERION)
async def test_a_rejected_plan_of_a_binary_is_not_made_again(terraform: LocalBench) -> None:
    plan = made(await terraform.run(approval=MANUAL))
    terraform.mark.unlink()
    with pytest.raises(TaskRejected, match="was rejected"):
        await terraform.run(approval=MANUAL, plan=earlier(plan, PlanDecision.REJECTED))
    assert not terraform.mark.exists()


async def test_an_approved_plan_with_nothing_left_to_do_is_a_success(terraform: LocalBench) -> None:
    await terraform.run()
    plan = made(await terraform.run(bigger(2), approval=MANUAL))
    await terraform.run(bigger(2))
    done = await terraform.run(bigger(2), approval=MANUAL, plan=earlier(plan))
    assert done.message == "nothing to change"


@pytest.mark.skipif(not REAL, reason="neither terraform nor tofu is installed")
@pytest.mark.parametrize("name", REAL)
async def test_equal_plans_of_a_real_binary_have_equal_contents(tmp_path: Path, name: str) -> None:
    local, module = real_bench(tmp_path, name)
    plans = [made(await local.run(real_spec(module, size), approval=MANUAL)) for size in (2, 2, 3)]
    assert plans[0] == plans[1]
    assert plans[0].content != plans[2].content
    await local.run(real_spec(module, 2), approval=MANUAL, plan=earlier(plans[0]))
    fewer: dict[str, Any] = {"protected": False, "approval": PlanApproval.AUTOMATIC}
    plan = made(await local.run(real_spec(module, 1), **fewer))
    assert plan.destroys == ("destroy module.instance.terraform_data.main[1]",)
    assert made(await local.run(real_spec(module, 1), **fewer)).content == plan.content
    done = await local.run(real_spec(module, 1), plan=earlier(plan), **fewer)
    assert done.message == "0 added, 0 changed, 1 destroyed"
