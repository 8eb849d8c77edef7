"""The manager, a real process, is killed at every write while a plan waits and is approved: it is applied once, by one run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from apis.cloud import InstanceTerraform, PlannedChange
from internal.cloud.subresource_requests import decide_on_plan
from tests.cloud.crash.test_crash import NAME, NAMESPACE, Scene, begun, manifest

pytestmark = pytest.mark.xdist_group("crashes of cloud")


async def waiting(scene: Scene) -> PlannedChange | None:
    """Return the plan that waits for the present spec, if the instance shows it."""
    found = await scene.instance()
    if found is None or found.status.observed_generation != found.metadata.generation:
        return None
    objects = await scene.client.list(InstanceTerraform, NAMESPACE)
    plan = next((item.status.plan for item in objects), None)
    return plan if plan is not None and plan.digest in found.status.message else None


def decisions(scene: Scene) -> list[str | None]:
    """What was decided for each run of terraform, in order."""
    return [
        each["decision"]
        for each in scene.record()
        if (each["word"], each["task"]) == ("began", "terraform")
    ]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.criterion("ISSUE14-2-TERRAFORM-APPROVAL")
@pytest.mark.parametrize("first", ["before", "after"])
async def test_a_manager_killed_at_every_write_applies_an_approved_plan_once(
    tmp_path: Path, first: str
) -> None:
    async with Scene.start(tmp_path) as scene:
        crashes, wanted = scene.crashes, manifest()
        wanted["spec"]["terraformRuns"] = {"approval": "Manual"}
        await scene.client.apply(wanted, field_manager="people", force=True)

        async def plan_waits() -> bool:
            return await waiting(scene) is not None

        await crashes.crash_until(plan_waits, first=first)
        assert decisions(scene) == [None]
        plan = await waiting(scene)
        assert plan is not None
        await decide_on_plan(
            scene.client, NAME, namespace=NAMESPACE, digest=plan.digest, approve=True
        )
        during = crashes.kills
        assert during >= 2
        await crashes.crash_until(scene.ready, first=first)
        assert crashes.kills > during
        assert decisions(scene) == [None, "Approved"]
        assert set(begun(scene).values()) == {1}
        assert Counter(task for task, *_ in begun(scene))["terraform"] == 2
