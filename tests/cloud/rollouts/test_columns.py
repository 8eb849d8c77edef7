"""Columns of kubectl for Instances and FleetRollouts: a count of zero is printed as 0."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from apis.cloud import FleetRollout, Instance
from tests.cloud.rollouts.harness import NAMESPACE, NEW, OLD, Fleet
from tests.support.kubectl_columns import printed

WAVES = [{"name": "early", "approval": "Manual"}]


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with Fleet.start(tmp_path, tls=True) as made:
        yield made


async def test_15_4_kubectl_get_prints_a_rollouts_phase_counts_and_message(fleet: Fleet) -> None:
    await fleet.create_instances(2)
    await fleet.roll_out(waves=WAVES)
    status = await fleet.reaches("WaitingForApproval")
    shown = await printed(fleet.environment, FleetRollout, "release", NAMESPACE)
    assert {key: shown[key] for key in ("TARGET", "PHASE", "WAVE")} == {
        "TARGET": NEW,
        "PHASE": "WaitingForApproval",
        "WAVE": "early",
    }
    assert {key: shown[key] for key in ("UPDATED", "TOTAL", "CHANGING", "FAILED")} == {
        "UPDATED": "0",
        "TOTAL": "2",
        "CHANGING": "0",
        "FAILED": "0",
    }
    assert status.message
    assert shown["MESSAGE"] == status.message


async def test_15_4_kubectl_get_prints_an_instances_phase_and_version(fleet: Fleet) -> None:
    await fleet.create_instances(1)
    shown = await printed(fleet.environment, Instance, "production-0", NAMESPACE)
    assert {key: shown[key] for key in ("READY", "PHASE", "VERSION", "TASK", "WAITING")} == {
        "READY": "True",
        "PHASE": "Ready",
        "VERSION": OLD,
        "TASK": "",
        "WAITING": "",
    }
