"""An Instance's spec.driftDetection from end to end: real runs, terraform played by a stand-in."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from apis.cloud import FleetRollout
from apis.operations import ChangeFreeze
from ctrlruntime.api import find_condition
from ctrlruntime.clock import utc_now
from tests.cloud.instance.harness import instance
from tests.cloud.instance.local_harness import local_harness


@pytest.mark.criterion("ISSUE15-8-TERRAFORM-DRIFT")
async def test_infrastructure_that_was_changed_is_reported_and_applied_on_request(
    tmp_path: Path,
) -> None:
    """A schedule has a time each minute; a minute passes at once."""
    later = timedelta()
    async with local_harness(tmp_path, environment={}, clock=lambda: utc_now() + later) as harness:
        await harness.environment.install_crds(FleetRollout, ChangeFreeze)
        detection = {"schedule": "* * * * *", "action": "Report"}
        built = {"terraform": {"module": {"source": "./none"}}}
        await harness.apply(instance(infrastructure=built, driftDetection=detection))
        await harness.until(
            "InstanceTerraform", lambda one: one is not None and one.status.phase == "Ready"
        )
        [state] = (tmp_path / "states").rglob("terraform.tfstate")
        before = json.loads(state.read_text())
        state.write_text(json.dumps({**before, "digest": "changed by hand"}))

        later = timedelta(minutes=1)
        await harness.restart_manager()
        found = await harness.until(
            "InstanceTerraform",
            lambda one: find_condition(one.status.conditions, "Drifted") is not None,
        )
        drifted = find_condition(found.status.conditions, "Drifted")
        assert drifted is not None
        assert (drifted.status, drifted.reason) == ("True", "PlanHasChanges")
        assert "0 to add, 1 to change, 0 to destroy" in drifted.message
        assert found.status.run.operation == "Plan"
        assert json.loads(state.read_text())["digest"] == "changed by hand"
        assert found.status.phase == "Ready"

        await harness.annotate(kind="InstanceTerraform", reconcile="1")
        await harness.until(
            "InstanceTerraform",
            lambda one: find_condition(one.status.conditions, "Drifted") is None,
        )
        assert json.loads(state.read_text()) == before
        found = await harness.there("InstanceTerraform")
        assert found.metadata.generation == 1  # a schedule is no input
