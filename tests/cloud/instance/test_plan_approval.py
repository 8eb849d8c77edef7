"""An Instance's spec.terraformRuns from end to end: real runs, terraform played by a stand-in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apis.cloud import FleetRollout, InstanceTerraform, PlannedChange
from apis.operations import ChangeFreeze
from ctrlruntime.api import find_condition
from internal.cloud.subresource_requests import decide_on_plan
from internal.cloud.subresources.terraform import SUBRESOURCE
from tests.cloud.instance.harness import NAMESPACE, InstanceHarness, instance
from tests.cloud.instance.local_harness import local_harness


def with_module(size: int, **fields: object) -> dict[str, Any]:
    module = {"source": "./none", "inputs": {"size": size}, "outputs": ["address"]}
    return instance("src-1", infrastructure={"terraform": {"module": module}}, **fields)


async def waits(harness: InstanceHarness) -> PlannedChange:
    found = await harness.until(
        "InstanceTerraform",
        lambda one: (
            one is not None
            and one.status.waiting is not None
            and one.status.waiting.reason == "Approval"
        ),
    )
    plan = found.status.plan
    assert isinstance(plan, PlannedChange)
    return plan


async def approve(harness: InstanceHarness, plan: PlannedChange) -> None:
    await decide_on_plan(
        harness.client, "src-1", namespace=NAMESPACE, digest=plan.digest, approve=True
    )


@pytest.mark.criterion("ISSUE14-2-TERRAFORM-APPROVAL")
async def test_manual_plans_wait_and_destroying_ones_always_do(tmp_path: Path) -> None:
    async with local_harness(tmp_path, environment={"STAND_IN": "replace"}) as harness:
        await harness.environment.install_crds(FleetRollout, ChangeFreeze)
        manual = {"operation": "Apply", "approval": "Manual"}
        await harness.apply(with_module(1, terraformRuns=manual))
        plan = await waits(harness)
        assert (plan.add, plan.destroy) == (2, 0)
        assert not list((tmp_path / "states").rglob("terraform.tfstate"))
        found = await harness.until(
            "Instance", lambda one: one is not None and plan.digest in one.status.message
        )
        assert found.status.phase == "Waiting"
        assert f"`manager instance approve src-1 --plan {plan.digest}`" in found.status.message

        await approve(harness, plan)
        ready = await harness.until("InstanceTerraform", lambda one: one.status.phase == "Ready")
        assert ready.status.outputs == {"address": "<address>"}
        [state] = (tmp_path / "states").rglob("terraform.tfstate")
        before = state.read_text()

        # Automatic: what replaces something still waits.
        await harness.apply(with_module(2, terraformRuns=None))
        plan = await waits(harness)
        assert plan.destroys == ["replace module.instance.thing.0"]
        assert state.read_text() == before
        await approve(harness, plan)
        await harness.until(
            "InstanceTerraform",
            lambda one: one.status.phase == "Ready" and one.metadata.generation == 2,
        )
        assert json.loads(state.read_text()) != json.loads(before)
        assert find_condition(ready.status.conditions, "AwaitsApproval") is None


def test_only_the_infrastructure_waits_for_approvals() -> None:
    assert (SUBRESOURCE.kind, SUBRESOURCE.plans) == (InstanceTerraform, True)
