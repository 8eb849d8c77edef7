"""A version that an upgrade has led the data away from is not rolled out again, whatever holds the newer one up."""

from __future__ import annotations

import pytest

from tests.cloud.instance.e2e_harness import E2EHarness
from tests.cloud.instance.harness import instance
from tests.cloud.instance.test_first_rollout import changes


@pytest.mark.criterion("SIM-F9")
async def test_a_run_of_the_version_before_an_upgrade_waits_for_the_newer_one(
    e2e_harness: E2EHarness,
) -> None:
    """The infrastructure changes during the upgrade, and fails: until it is mended the workload's object has the old version."""
    outside = e2e_harness.elsewhere
    await e2e_harness.apply(instance())
    await e2e_harness.phase("Ready")
    outside.held.add("upgrade")
    await e2e_harness.edit("Instance", {"version": "5.2.0"})
    await e2e_harness.until("Instance", lambda found: found.status.task.startswith("upgrade-"))
    outside.failing["terraform"] = "no such machine"
    await e2e_harness.edit("Instance", {"instanceFeatures": {"machine": "large"}})
    await e2e_harness.until("InstanceTerraform", lambda found: found.spec.instance_features)
    await e2e_harness.annotate(kind="InstanceKubernetes", reconcile="1")
    outside.end("upgrade")
    await e2e_harness.until("InstanceTerraform", lambda found: found.status.phase == "Failed")
    held = await e2e_harness.until(
        "InstanceKubernetes", lambda found: "upgraded to 5.2.0" in found.status.message
    )
    assert held.status.phase == "Pending"
    await e2e_harness.idle()
    assert changes(e2e_harness) == ["kubernetes 5.1.0", "upgrade 5.2.0"]

    outside.failing.clear()
    await e2e_harness.edit("Instance", {"instanceFeatures": {"machine": "small"}})
    await e2e_harness.until("Instance", lambda found: found.status.version == "5.2.0")
    await e2e_harness.phase("Ready")
    assert changes(e2e_harness) == ["kubernetes 5.1.0", "upgrade 5.2.0", "kubernetes 5.2.0"]
