"""Looking for drift by HCP Terraform: plans that cannot be applied, and repairs that destroy nothing."""

from __future__ import annotations

import pytest

from apis.cloud import TaskOperation
from internal.cloud.tasks.task import DRIFT
from tests.cloud.tasks.terraform.hcp_bench import HCPBench, spec_of


def changed(bench: HCPBench) -> dict[str, object]:
    return spec_of(bench.server.url, machine="n2-standard-16")


@pytest.mark.criterion("ISSUE15-8-TERRAFORM-DRIFT")
async def test_a_plan_for_drift_is_a_run_that_cannot_be_applied(bench: HCPBench) -> None:
    await bench.apply()
    [workspace] = bench.server.fake_state.workspaces.values()
    same = await bench.apply(attempt=2, operation=TaskOperation.PLAN)
    assert same.outputs == {DRIFT: ""}
    found = await bench.apply(changed(bench), attempt=3, operation=TaskOperation.PLAN)
    assert found.outputs[DRIFT].endswith("0 to destroy")
    assert found.outputs[DRIFT] != "0 to add, 0 to change, 0 to destroy"
    runs = list(bench.server.fake_state.of_workspace(workspace))
    assert sorted(run.plan_only for run in runs) == [False, True, True]
    assert len(bench.server.fake_state.applied) == 1


async def test_a_repair_applies_what_differs(bench: HCPBench) -> None:
    await bench.apply()
    same = await bench.apply(attempt=2, operation=TaskOperation.REPAIR)
    assert same.outputs == {DRIFT: ""}
    found = await bench.apply(changed(bench), attempt=3, operation=TaskOperation.REPAIR)
    assert "project_id" in found.outputs
    assert DRIFT not in found.outputs
    assert len(bench.server.fake_state.applied) == 2


async def test_a_repair_that_destroys_is_discarded_under_protection(bench: HCPBench) -> None:
    await bench.apply()
    bench.server.fake_state.replaces = 2
    found = await bench.apply(
        changed(bench), attempt=2, operation=TaskOperation.REPAIR, protected=True
    )
    assert found.outputs[DRIFT].endswith("2 to destroy")
    [workspace] = bench.server.fake_state.workspaces.values()
    assert [run.status for run in bench.server.fake_state.of_workspace(workspace)] == [
        "discarded",
        "applied",
    ]
    assert len(bench.server.fake_state.applied) == 1
