"""A ChangeFreeze holds the assignments of FleetRollouts, on managers that are killed and started anew too."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from apis.cloud import FleetRollout
from apis.operations import ChangeFreeze
from ctrlruntime.api import format_time
from manager.controllers import change_freezes
from tests.cloud.rollouts.harness import NEW, OLD, Fleet
from tests.cloud.rollouts.test_crash import crash_until
from tests.manager_cli.program import Program
from tests.support.freezes import freeze_until, frozen, requesting
from tests.support.waiting import eventually
from tests.tenancy.manager_forkserver import ForkServer

pytestmark = pytest.mark.criterion("RO-FREEZE")


async def test_no_instance_is_assigned_until_the_freeze_expires(tmp_path: Path) -> None:
    async with Fleet.start(tmp_path) as fleet:
        await fleet.create_instances(3)
        later = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
        async with frozen(fleet.client, reason="Audit", until=later) as freeze:
            await freeze_until(fleet.client, freeze, lambda each: each.status.phase == "Active")
            await fleet.roll_out()
            status = await fleet.reaches("Frozen", waiting=3)
            assert status.waiting_reason == "Frozen"
            assert status.waiting_until == later
            assert "Audit" in status.message
            assert fleet.assignments == []
            end = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=3)
            await fleet.client.patch(ChangeFreeze, freeze, {"spec": {"until": format_time(end)}})
            await eventually(lambda: fleet.assignments)
            assert end <= datetime.now(UTC) < end + timedelta(seconds=60)
            await fleet.reaches("Complete", updated=3)


async def test_a_rollback_waits_for_the_end_of_the_freeze(tmp_path: Path) -> None:
    async with Fleet.start(tmp_path) as fleet:
        fleet.held.add(NEW)
        await fleet.create_instances(2)
        await fleet.roll_out(maxConcurrent=1, onHalt="Rollback")
        await fleet.reaches("Progressing", changing=1)
        async with frozen(fleet.client) as freeze:
            await freeze_until(fleet.client, freeze, lambda each: each.status.phase == "Active")
            fleet.bad.add(NEW)
            fleet.held.clear()
            status = await fleet.reaches("Frozen", failed=1)
            assert "Halted" in status.message
            assert [version for _, version in fleet.assignments] == [NEW]
        await fleet.reaches("RolledBack", rolled_back=1)
        assert [version for _, version in fleet.assignments] == [NEW, OLD]


async def test_managers_killed_at_their_writes_assign_nothing_in_a_freeze(tmp_path: Path) -> None:
    async with (
        ForkServer.running() as forkserver,
        Fleet.start(tmp_path, manager=False) as fleet,
    ):
        await fleet.create_instances(3)
        async with frozen(fleet.client):
            await fleet.roll_out()
            await crash_until(fleet, forkserver, "before", "Frozen")
            assert fleet.assignments == []
            assert set((await fleet.versions()).values()) == {OLD}
        await crash_until(fleet, forkserver, "after", "Complete")
        assert sorted(name for name, _ in fleet.assignments) == sorted(await fleet.versions())


@pytest.mark.criterion("S-F12")
async def test_a_rollout_goes_on_once_the_freeze_exempts_it_and_not_by_its_annotation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_freezes, "STATUS_PERIOD", 0.1)
    async with Fleet.start(tmp_path) as fleet:
        await fleet.create_instances(2)
        async with frozen(fleet.client, name="audit"):
            await fleet.roll_out()
            await fleet.reaches("Frozen")
            place = "FleetRollout/release"
            patch = requesting("audit")
            await fleet.client.patch(FleetRollout, "release", patch, namespace="default")

            async def message() -> str:
                return (await fleet.reaches("Frozen")).message

            wish = f"manager freeze exempt audit {place} -n default"
            await eventually(message, lambda text: wish in text)
            wanted = await freeze_until(fleet.client, "audit", lambda each: each.status.exemptions)
            assert [item.state for item in wanted.status.exemptions] == ["Requested"]
            assert fleet.assignments == []
            said = await command(fleet, "exempt", "audit", place, "--reason", "hot fix")
            assert "FleetRollout default/" in said
            await fleet.reaches("Complete", updated=2)
            granted = await freeze_until(
                fleet.client, "audit", lambda each: each.status.exemptions[0].state == "Granted"
            )
            (item,) = granted.status.exemptions
            assert (item.kind, item.name, item.reason) == ("FleetRollout", "release", "hot fix")
            assert item.by
            (row,) = json.loads(await command(fleet, "list", "-o", "json"))
            assert (row["exempt"], row["requested"]) == (1, 0)
            assert item.by in row["exemptions"]
            await command(fleet, "exempt", "audit", place, "--revoke")
            await freeze_until(fleet.client, "audit", lambda each: not each.spec.exempt)
            assert "Instance/src-1" in await command(fleet, "exempt", "audit", "Pod/x", code=2)


async def command(fleet: Fleet, *arguments: str, code: int = 0) -> str:
    """Run `manager freeze` as an administrator; what it printed."""
    name, *rest = arguments
    kubeconfig = str(fleet.environment.kubeconfig("admin"))
    async with await Program.start("freeze", name, "--kubeconfig", kubeconfig, *rest) as program:
        assert await program.wait() == code, program.output
        return program.output


async def test_the_command_begins_lists_and_ends_a_freeze(tmp_path: Path) -> None:
    async with Fleet.start(tmp_path) as fleet:
        await fleet.create_instances(2)
        said = await command(fleet, "begin", "audit", "--reason", "Audit", "--until", "48h")
        assert "manager freeze end audit" in said
        await fleet.roll_out()
        await fleet.reaches("Frozen")
        await freeze_until(fleet.client, "audit", lambda each: each.status.held.cloud == 2)
        (row,) = json.loads(await command(fleet, "list", "-o", "json"))
        assert (row["phase"], row["reason"], row["systems"], row["held"]) == (
            "Active",
            "Audit",
            "all",
            2,
        )
        wrong = await command(fleet, "begin", "x", "--reason", "r", "--until", "soon", code=2)
        assert "a duration such as 48h" in wrong
        await command(fleet, "end", "audit")
        await fleet.reaches("Complete", updated=2)
        assert json.loads(await command(fleet, "list", "-o", "json")) == []
