"""An annotation assigns nothing: only what a rollout recorded in the status, which people may not write, counts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from apis.cloud import GROUP, FleetRollout, Instance, TaskPriority
from ctrlruntime.api import find_condition
from ctrlruntime.rollout import Change, ChangeKind
from internal.cloud.labels import RELEASE_ASSIGNMENT as KEY
from internal.cloud.release_assignment import (
    ReleaseAssignment,
    assigned_version,
    forged_assignment,
    format_assignment,
    lost_assignment,
)
from tests.cloud.instance.harness import InstanceHarness, instance
from tests.cloud.rollouts.harness import NAMESPACE, NEW, Fleet
from tests.cloud.rollouts.test_instances import annotate, assign, record

pytestmark = pytest.mark.criterion("S-F13")

NOW = datetime(2026, 3, 1, tzinfo=UTC)
GIVEN = ReleaseAssignment(
    rollout="monthly",
    version="5.2.0",
    spec_version="5.1.0",
    change=Change(ChangeKind.ROLLOUT, NOW, "5.1.0"),
)
LATER = replace(GIVEN, version="6.6.6", change=replace(GIVEN.change, at=NOW + timedelta(hours=1)))


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[InstanceHarness]:
    async with InstanceHarness.start(tmp_path) as made:
        yield made


async def test_a_forged_assignment_is_reported_and_not_followed(harness: InstanceHarness) -> None:
    await harness.apply(instance())
    await harness.roll_out()
    await annotate(harness, record("6.6.6"))
    await harness.idle()
    assert await harness.upgrades() == []
    found = await harness.read("Instance")
    assert found.status.assigned_version is None
    condition = find_condition(found.status.conditions, "AssignmentForged")
    assert condition is not None
    assert "'6.6.6'" in condition.message
    assert f"kubectl annotate instances.{GROUP} src-1 -n default {KEY}-" in condition.message
    await annotate(harness, None)
    await harness.until(
        "Instance", lambda item: find_condition(item.status.conditions, "AssignmentForged") is None
    )


async def test_an_assignment_that_was_edited_is_written_again_as_recorded(
    harness: InstanceHarness,
) -> None:
    await harness.apply(instance())
    await harness.roll_out()
    await assign(harness, record("5.2.0"))
    await harness.carry_out("UpgradeInstanceTask", await harness.upgrade("5.2.0"))
    await harness.roll_out()
    await annotate(harness, record("6.6.6"))
    await harness.idle()
    assert [item.spec.to_version for item in await harness.upgrades()] == ["5.2.0"]
    found = await harness.read("Instance")
    assert (found.metadata.annotations or {})[KEY] == found.status.release_assignment


async def test_an_instance_restored_without_its_status_is_not_downgraded(
    harness: InstanceHarness,
) -> None:
    restored = instance()
    restored["metadata"]["annotations"] = {KEY: record("5.2.0")}
    await harness.apply(restored)
    found = await harness.until("Instance", lambda item: item.status.conditions)
    ready = find_condition(found.status.conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", "AssignmentNotRecorded")
    assert "into spec.version" in ready.message
    await harness.edit("Instance", {"version": "5.2.0"})
    await annotate(harness, None)
    assert (await harness.roll_out()).status.version == "5.2.0"


async def test_instances_keep_what_a_deleted_rollout_assigned_over_a_restart(
    tmp_path: Path,
) -> None:
    async with Fleet.start(tmp_path) as fleet:
        await fleet.create_instances(2)
        await fleet.roll_out()
        await fleet.reaches("Complete")
        await fleet.client.delete(FleetRollout, "release", namespace=NAMESPACE)
        await fleet.stop_manager()
        await fleet.start_manager()
        await fleet.idle()
        assert set((await fleet.versions()).values()) == {NEW}


def held(recorded: ReleaseAssignment | None, text: str | None, spec: str = "5.1.0") -> Instance:
    """An instance with a record and an annotation."""
    annotations = {} if text is None else {KEY: text}
    found = Instance.from_manifest(
        {
            "metadata": {"name": "a", "namespace": "d", "annotations": annotations},
            "spec": {"version": spec},
        }
    )
    found.status.release_assignment = "" if recorded is None else format_assignment(recorded)
    return found


OLDER = replace(GIVEN, version="5.0.0", change=replace(GIVEN.change, at=NOW - timedelta(hours=1)))
URGENT = replace(GIVEN, priority=TaskPriority.HIGH)


@pytest.mark.parametrize(
    ("recorded", "given", "forged", "restored"),
    [
        (None, None, False, False),
        (None, GIVEN, True, False),
        (GIVEN, GIVEN, False, False),
        (GIVEN, None, False, True),
        (GIVEN, LATER, True, True),
        (GIVEN, replace(GIVEN, version="6.6.6"), True, True),
        (GIVEN, OLDER, False, True),
        (GIVEN, URGENT, False, True),
    ],
)
@pytest.mark.parametrize("spec", ["5.1.0", "5.1.9"], ids=["in force", "overruled"])
def test_only_the_record_counts(
    recorded: ReleaseAssignment | None,
    given: ReleaseAssignment | None,
    forged: bool,
    restored: bool,
    spec: str,
) -> None:
    found = held(recorded, None if given is None else format_assignment(given), spec)
    counts = assigned_version(found)
    expected = recorded is not None and spec == "5.1.0"
    assert (None if counts is None else counts.version) == ("5.2.0" if expected else None)
    assert bool(forged_assignment(found)) == forged
    assert (lost_assignment(found) is not None) == (restored and (given is not None or expected))
