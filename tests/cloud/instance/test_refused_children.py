"""Fields of subresources that somebody set by hand and that cannot be changed any more."""

from __future__ import annotations

from typing import Any

import pytest

from apis.cloud import InstanceTerraform
from ctrlruntime.api import find_condition
from tests.cloud.instance.e2e_harness import E2EHarness
from tests.cloud.instance.harness import NAMESPACE, instance

GCP: dict[str, Any] = {"terraform": {}, "gcp": {"zone": "us-central1-f"}}


@pytest.mark.criterion("H-R3", "H-R4")
async def test_a_field_that_cannot_be_taken_back_is_reported_and_can_be_agreed_on(
    e2e_harness: E2EHarness,
) -> None:
    await e2e_harness.apply(instance(infrastructure=GCP))
    await e2e_harness.phase("Ready")
    by_hand = {"spec": {"infrastructure": {"gcp": {"projectId": "by-hand"}}}}
    await e2e_harness.client.patch(
        InstanceTerraform, "src-1", by_hand, namespace=NAMESPACE, field_manager="people"
    )
    found = await e2e_harness.phase("Failed")
    ready = find_condition(found.status.conditions, "Ready")
    assert ready is not None
    assert ready.status == "False"
    assert "InstanceTerraform 'src-1'" in found.status.message
    assert "projectId cannot be changed once it is set" in found.status.message
    assert "Give the spec of the Instance the value" in found.status.message
    agreed = {"infrastructure": {"gcp": {"projectId": "by-hand"}}}
    await e2e_harness.edit("Instance", agreed)
    await e2e_harness.phase("Ready")
