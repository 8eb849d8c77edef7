"""`manager rollout` with a user's kubeconfig, on FleetRollouts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cloud.rollouts.harness import NAMESPACE, NEW, OLD, Fleet
from tests.manager_cli.program import Program

pytestmark = pytest.mark.criterion("RO-FLEET-CLI")

WAVES = [{"name": "early", "percent": 25}, {"name": "all", "approval": "Manual"}]


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with Fleet.start(tmp_path) as made:
        yield made


async def command(fleet: Fleet, *arguments: str, code: int = 0) -> str:
    """Run a command as an administrator; what it printed."""
    name, *rest = arguments
    kubeconfig = str(fleet.environment.kubeconfig("admin"))
    place = ["--kubeconfig", kubeconfig, "-n", NAMESPACE]
    async with await Program.start("rollout", name, *place, *rest) as program:
        assert await program.wait() == code, program.output
        return program.output


async def test_status_shows_counts_and_waves_and_approve_begins_the_next(fleet: Fleet) -> None:
    await fleet.create_instances(4)
    await fleet.roll_out(waves=WAVES)
    status = await fleet.reaches("WaitingForApproval", updated=1)
    table = await command(fleet, "status", "release")
    assert "WaitingForApproval" in table
    assert ["early", "1", "1", "1"] in [line.split() for line in table.splitlines()]
    (row,) = json.loads(await command(fleet, "status", "-o", "json"))
    assert (row["kind"], row["updated"], row["total"]) == ("FleetRollout", 1, 4)
    refused = await command(fleet, "approve", "release", "--digest", "00000000", code=1)
    assert f"the digest is {status.approval_digest} by now" in refused
    assert "needs no approval" in await command(
        fleet, "approve", "release", "--wave", "early", code=1
    )
    said = await command(fleet, "approve", "release", "--digest", status.approval_digest)
    assert "wave all is approved" in said
    await fleet.reaches("Complete", updated=4)


@pytest.mark.criterion("CP-CLI")
async def test_status_shows_the_priority(fleet: Fleet) -> None:
    await fleet.create_instances(1)
    await fleet.roll_out(priority="High")
    await fleet.roll_out(name="ordinary", selector={"instance-type": "none"})
    await fleet.reaches("Complete")
    await fleet.reaches("Pending", "ordinary")
    header, *rows = (await command(fleet, "status")).splitlines()
    place = header.split().index("PRIORITY")
    assert {row.split()[0]: row.split()[place] for row in rows} == {
        "ordinary": "Normal",
        "release": "High",
    }


async def test_pause_resume_undo_and_abort(fleet: Fleet) -> None:
    await fleet.create_instances(3)
    await fleet.roll_out(waves=WAVES)
    await fleet.reaches("WaitingForApproval", updated=1)
    await command(fleet, "pause", "release")
    await fleet.reaches("Paused")
    await command(fleet, "resume", "release")
    await fleet.reaches("WaitingForApproval")
    await command(fleet, "undo", "fleetrollout/release")
    await fleet.reaches("RolledBack", rolled_back=1)
    assert set((await fleet.versions()).values()) == {OLD}
    await command(fleet, "abort", "release")
    await fleet.reaches("Aborted")
    await command(fleet, "resume", "release")
    await fleet.reaches("WaitingForApproval", updated=1)
    assert sorted((await fleet.versions()).values()) == [OLD, OLD, NEW]


async def test_what_is_not_there_is_named_with_what_to_write(fleet: Fleet) -> None:
    said = await command(fleet, "pause", "nothing", code=1)
    assert "no template and no FleetRollout 'nothing'" in said
    assert "write template/NAME or fleetrollout/NAME" in await command(
        fleet, "undo", "pod/nothing", code=1
    )
