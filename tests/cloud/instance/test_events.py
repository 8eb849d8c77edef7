"""What an instance's own events say."""

from __future__ import annotations

from typing import Any

from ctrlruntime.api.kinds import GroupVersionKind
from tests.cloud.instance.harness import NAMESPACE, InstanceHarness, instance

EVENT = GroupVersionKind("events.k8s.io", "v1", "Event")


async def events(harness: InstanceHarness) -> list[dict[str, Any]]:
    """Those of the instance, in the order in which they were recorded."""
    found = await harness.client.list(EVENT, NAMESPACE)
    told = [each for each in found if each["regarding"]["kind"] == "Instance"]
    return sorted(told, key=lambda each: str(each["eventTime"]))


async def test_one_event_for_each_phase_with_the_sentence_of_the_status(
    harness: InstanceHarness,
) -> None:
    await harness.apply(instance())
    await harness.fail("InstanceTerraform", "quota exceeded")
    failed = await harness.phase("Failed")
    ready = await harness.roll_out()
    await harness.edit("Instance", {"debug": {"enableDeletionProtection": True}})
    await harness.delete()
    await harness.phase("Deleting")
    await harness.idle()

    told = await events(harness)
    assert [each["reason"] for each in told] == [
        "Failed",
        "Running",
        "Ready",
        "Deleting",
    ]
    assert [each["type"] for each in told] == ["Warning", "Normal", "Normal", "Normal"]
    assert not [each for each in told if each.get("series")]
    assert told[0]["note"] == failed.status.message
    assert "quota exceeded" in told[0]["note"]
    assert told[2]["note"] == ready.status.message
    assert {each["regarding"]["uid"] for each in told} == {ready.metadata.uid}
