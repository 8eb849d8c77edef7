"""What an assignment does to an Instance: the real Instance controller follows it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from apis.cloud import Instance
from ctrlruntime.rollout import Change, ChangeKind
from internal.cloud.labels import RELEASE_ASSIGNMENT
from internal.cloud.release_assignment import (
    ReleaseAssignment,
    format_assignment,
)
from tests.cloud.instance.harness import NAMESPACE, InstanceHarness, instance

pytestmark = pytest.mark.criterion("RO-FLEET-ASSIGN")


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[InstanceHarness]:
    async with InstanceHarness.start(tmp_path) as made:
        yield made


def record(version: str, spec_version: str = "5.1.0", kind: ChangeKind = ChangeKind.ROLLOUT) -> str:
    change = Change(kind, datetime.now(UTC), spec_version)
    return format_assignment(
        ReleaseAssignment(
            rollout="monthly", version=version, spec_version=spec_version, change=change
        )
    )


async def assign(harness: InstanceHarness, value: str) -> None:
    """Assign a version as a rollout does: record it, and repeat it in the annotation."""
    status = {"status": {"releaseAssignment": value}}
    await harness.client.patch_status(Instance, "src-1", status, namespace=NAMESPACE)
    await annotate(harness, value)


async def annotate(harness: InstanceHarness, value: str | None) -> None:
    patch = {"metadata": {"annotations": {RELEASE_ASSIGNMENT: value}}}
    await harness.client.patch(Instance, "src-1", patch, namespace=NAMESPACE)


async def test_an_assigned_version_is_upgraded_to_and_the_spec_stays(
    harness: InstanceHarness,
) -> None:
    await harness.apply(instance())
    await harness.roll_out()
    await assign(harness, record("5.2.0"))
    name = await harness.upgrade("5.2.0")
    await harness.carry_out("UpgradeInstanceTask", name)
    ready = await harness.roll_out()
    assert ready.status.version == "5.2.0"
    assert ready.status.assigned_version.version == "5.2.0"
    assert ready.status.assigned_version.rollout == "monthly"
    assert ready.spec.wanted_version == "5.1.0"
    text = "Version 5.2.0 is deployed as assigned by FleetRollout 'monthly'."
    assert ready.status.message == text


async def test_a_tool_that_drops_the_annotation_downgrades_nothing(
    harness: InstanceHarness,
) -> None:
    await harness.apply(instance())
    await harness.roll_out()
    await assign(harness, record("5.2.0"))
    await harness.carry_out("UpgradeInstanceTask", await harness.upgrade("5.2.0"))
    await harness.roll_out()
    await annotate(harness, None)
    await harness.edit("Instance", {"managedSMTP": {"disabled": True}})
    await harness.idle()
    assert [item.spec.to_version for item in await harness.upgrades()] == ["5.2.0"]
    found = await harness.read("Instance")
    assert found.status.assigned_version.version == "5.2.0"


@pytest.mark.criterion("H-R3")
@pytest.mark.parametrize("edited", [None, "changed-by-hand"], ids=["removed", "changed"])
async def test_an_annotation_of_a_rollout_that_was_edited_is_restored(
    harness: InstanceHarness, edited: str | None
) -> None:
    await harness.apply(instance())
    await harness.roll_out()
    await assign(harness, record("5.2.0"))
    await harness.carry_out("UpgradeInstanceTask", await harness.upgrade("5.2.0"))
    before = (await harness.roll_out()).metadata.annotations[RELEASE_ASSIGNMENT]
    await annotate(harness, edited)
    await harness.idle()
    after = (await harness.read("Instance")).metadata.annotations[RELEASE_ASSIGNMENT]
    assert after == before
    assert len(await harness.upgrades()) == 1


async def test_a_change_of_the_spec_wins(harness: InstanceHarness) -> None:
    await harness.apply(instance())
    await harness.roll_out()
    await assign(harness, record("5.2.0"))
    await harness.carry_out("UpgradeInstanceTask", await harness.upgrade("5.2.0"))
    await harness.roll_out()
    await harness.edit("Instance", {"version": "5.2.4"})
    await harness.upgrade("5.2.4")
    found = await harness.until("Instance", lambda found: found.status.assigned_version is None)
    assert found.status.assigned_version is None


async def test_an_assignment_that_cannot_be_read_is_ignored(harness: InstanceHarness) -> None:
    await harness.apply(instance())
    await harness.roll_out()
    for text in ("5.2.0", "{}", "[]", '{"rollout": "a", "version": "5.2.0", "change": 1}'):
        await annotate(harness, text)
        await harness.idle()
    assert not await harness.upgrades()
    assert (await harness.read("Instance")).status.phase == "Ready"
