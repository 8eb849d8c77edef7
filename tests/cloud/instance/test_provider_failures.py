"""What a provider refuses is on the Instance, whatever refuses."""

from __future__ import annotations

import pytest

from ctrlruntime.api import GroupVersionKind, find_condition
from ctrlruntime.client.errors import Forbidden
from internal.cloud.runs.cloudrun import CloudError
from tests.cloud.instance.e2e_harness import E2EHarness
from tests.cloud.instance.harness import NAMESPACE, instance
from tests.support.waiting import eventually

EVENT = GroupVersionKind("events.k8s.io", "v1", "Event")


@pytest.mark.criterion("C-3")
@pytest.mark.parametrize(
    "error",
    [
        Forbidden("jobs.batch is forbidden: exceeded quota: few"),
        CloudError(429, "RESOURCE_EXHAUSTED", "exceeded quota: few"),
    ],
    ids=["job", "cloud_run"],
)
async def test_c_3_a_refused_start_is_on_the_instance(
    e2e_harness: E2EHarness, error: Exception
) -> None:
    e2e_harness.elsewhere.refused["terraform"] = error
    await e2e_harness.apply(instance())
    found = await e2e_harness.until(
        "Instance", lambda seen: "exceeded quota: few" in seen.status.message
    )
    assert found.status.phase == "Pending"
    ready = find_condition(found.status.conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", "ProviderFailed")
    assert "defect" not in found.status.message

    async def notes() -> list[str]:
        events = await e2e_harness.client.list(EVENT, namespace=NAMESPACE)
        return [
            each["note"]
            for each in events
            if (each["reason"], each["regarding"]["kind"]) == ("ProviderFailed", "Instance")
        ]

    assert found.status.message in await eventually(notes)
    e2e_harness.elsewhere.refused.clear()
    await e2e_harness.phase("Ready")


@pytest.mark.criterion("C-13")
async def test_c_13_the_message_of_a_failed_instance_gives_its_advice_once(
    e2e_harness: E2EHarness,
) -> None:
    e2e_harness.elsewhere.failing["terraform"] = "no quota"
    await e2e_harness.apply(instance())
    message = (await e2e_harness.phase("Failed")).status.message
    assert message.startswith(
        "InstanceTerraform failed: Task rejected its inputs: no quota. Mend the cause"
    )
    assert message.lower().count("mend the cause") == 1


@pytest.mark.criterion("C-13")
async def test_c_13_what_keeps_a_run_from_beginning_is_on_the_instance_and_in_its_end(
    e2e_harness: E2EHarness,
) -> None:
    outside = e2e_harness.elsewhere
    outside.pending["terraform"] = "its image cannot be pulled: 401"
    await e2e_harness.apply(instance())
    found = await e2e_harness.until("Instance", lambda seen: "401" in seen.status.message)
    assert found.status.message.startswith("InstanceTerraform has not begun as terraform-")
