"""A FleetRollout that is paused assigns nothing, and goes on where it was."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from apis.cloud import FleetRollout
from ctrlruntime.api.conditions import is_condition_true
from ctrlruntime.controller.annotations import PAUSED
from tests.cloud.rollouts.harness import NAMESPACE, NEW, OLD, Fleet

pytestmark = pytest.mark.criterion("L-5")


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with Fleet.start(tmp_path) as made:
        yield made


async def annotate(fleet: Fleet, value: str | None) -> None:
    patch = {"metadata": {"annotations": {PAUSED: value}}}
    await fleet.client.patch(FleetRollout, "release", patch, namespace=NAMESPACE)


async def is_paused(fleet: Fleet) -> bool:
    return is_condition_true((await fleet.status()).conditions, "Paused")


async def test_a_paused_rollout_assigns_nothing_to_instances_that_come(fleet: Fleet) -> None:
    await fleet.create_instances(2)
    await fleet.roll_out(maxConcurrent=4)
    await fleet.reaches("Complete", updated=2)
    await annotate(fleet, "true")
    await fleet.wait(lambda: is_paused(fleet), "the pause is reported")
    assigned = len(fleet.assignments)
    await fleet.roll_out("5.4.0", maxConcurrent=4)
    await annotate(fleet, "true")
    await fleet.create_instances(3, "staging")
    await fleet.idle()
    assert len(fleet.assignments) == assigned
    assert set((await fleet.versions()).values()) == {OLD, NEW}
    await annotate(fleet, None)
    await fleet.reaches("Complete", updated=5)
    assert set((await fleet.versions()).values()) == {"5.4.0"}
