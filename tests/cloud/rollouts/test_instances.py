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
    recorded_assignment,
)
from tests.cloud.instance.harness import NAMESPACE, Stage, instance

pytestmark = pytest.mark.criterion("RO-FLEET-ASSIGN")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with Stage.start(tmp_path) as made:
        yield made


def record(version: str, spec_version: str = "5.1.0") -> str:
    change = Change(ChangeKind.ROLLOUT, datetime.now(UTC), spec_version)
    return format_assignment(
        ReleaseAssignment(
            rollout="monthly", version=version, spec_version=spec_version, change=change
        )
    )


async def assign(stage: Stage, value: str | None) -> None:
    patch = {"metadata": {"annotations": {RELEASE_ASSIGNMENT: value}}}
    await stage.client.patch(Instance, "src-1", patch, namespace=NAMESPACE)


async def test_an_assigned_version_is_upgraded_to_and_the_spec_stays(stage: Stage) -> None:
    await stage.apply(instance())
    await stage.roll_out()
    await assign(stage, record("5.2.0"))
    name = await stage.upgrade("5.2.0")
    await stage.carry_out("UpgradeInstanceTask", name)
    ready = await stage.roll_out()
    assert ready.status.version == "5.2.0"
    assert ready.status.assigned_version.version == "5.2.0"
    assert ready.status.assigned_version.rollout == "monthly"
    assert ready.spec.sourcegraph_version == "5.1.0"
    text = "Version 5.2.0 is deployed as assigned by FleetRollout 'monthly'."
    assert ready.status.message == text


async def test_a_tool_that_drops_the_annotation_downgrades_nothing(stage: Stage) -> None:
    await stage.apply(instance())
    await stage.roll_out()
    await assign(stage, record("5.2.0"))
    await stage.carry_out("UpgradeInstanceTask", await stage.upgrade("5.2.0"))
    await stage.roll_out()
    await assign(stage, None)
    await stage.edit("Instance", {"managedSMTP": {"disabled": True}})
    await stage.idle()
    assert [item.spec.to_version for item in await stage.upgrades()] == ["5.2.0"]
    found = await stage.read("Instance")
    assert found.status.assigned_version.version == "5.2.0"


@pytest.mark.criterion("H-R3")
@pytest.mark.parametrize("edited", [None, "changed-by-hand"], ids=["removed", "changed"])
async def test_an_annotation_of_a_rollout_that_was_edited_is_restored(
    stage: Stage, edited: str | None
) -> None:
    await stage.apply(instance())
    await stage.roll_out()
    await assign(stage, record("5.2.0"))
    await stage.carry_out("UpgradeInstanceTask", await stage.upgrade("5.2.0"))
    before = (await stage.roll_out()).metadata.annotations[RELEASE_ASSIGNMENT]
    await assign(stage, edited)
    await stage.idle()
    after = (await stage.read("Instance")).metadata.annotations[RELEASE_ASSIGNMENT]
    assert recorded_assignment({RELEASE_ASSIGNMENT: after}) == recorded_assignment(
        {RELEASE_ASSIGNMENT: before}
    )
    assert len(await stage.upgrades()) == 1


async def test_a_change_of_the_spec_wins(stage: Stage) -> None:
    await stage.apply(instance())
    await stage.roll_out()
    await assign(stage, record("5.2.0"))
    await stage.carry_out("UpgradeInstanceTask", await stage.upgrade("5.2.0"))
    await stage.roll_out()
    await stage.edit("Instance", {"sourcegraphVersion": "5.2.4"})
    await stage.upgrade("5.2.4")
    found = await stage.until("Instance", lambda found: found.status.assigned_version is None)
    assert found.status.assigned_version is None


async def test_an_assignment_that_cannot_be_read_is_ignored(stage: Stage) -> None:
    await stage.apply(instance())
    await stage.roll_out()
    for text in ("5.2.0", "{}", "[]", '{"rollout": "a", "version": "5.2.0", "change": 1}'):
        await assign(stage, text)
        await stage.idle()
    assert not await stage.upgrades()
    assert (await stage.read("Instance")).status.phase == "Ready"
