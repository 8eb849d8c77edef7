"""A FleetRollout judges what it changed, and downgrades nothing: what else happens to an instance rolls nothing back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from time import monotonic

import pytest

from apis.cloud import Instance
from ctrlruntime.clock import Sources, replaced
from tests.backends import SharedServer
from tests.cloud.rollouts.harness import NAMESPACE, NEW, OLD, Fleet

MIGRATING = {"migrate": {"http": {"url": "http://app.example.com/migrate"}}}
"""Steps of an upgrade that change the database."""


@pytest.fixture(params=["embedded", "kube-apiserver"])
async def fleet(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Fleet]:
    real = request.param == "kube-apiserver"
    server: SharedServer | None = request.getfixturevalue("real_server") if real else None
    async with Fleet.start(tmp_path, server=server) as made:
        yield made


async def phase_of(fleet: Fleet, name: str) -> str:
    return (await fleet.client.get(Instance, name, namespace=NAMESPACE)).status.phase.value


@pytest.mark.criterion("G-C4")
@pytest.mark.parametrize("cause", ["edit", "edit that fails", "outage", "pause"])
async def test_what_happens_to_an_instance_after_it_was_ready_rolls_nothing_back(
    fleet: Fleet, cause: str
) -> None:
    await fleet.create_instances(3)
    await fleet.roll_out(onHalt="Rollback")
    await fleet.reaches("Complete", updated=3)
    (fleet.lost if cause == "edit that fails" else fleet.working).add("production-1")
    if cause.startswith("edit"):
        patch = {"spec": {"instanceFeatures": {"x": "y"}}}
        await fleet.client.patch(Instance, "production-1", patch, namespace=NAMESPACE)
    if cause == "pause":
        paused = {"metadata": {"annotations": {"cloud.ctrlruntime.dev/paused": "true"}}}
        await fleet.client.patch(Instance, "production-1", paused, namespace=NAMESPACE)
    expected = "Failed" if cause == "edit that fails" else "Running"

    async def seen() -> bool:
        return await phase_of(fleet, "production-1") == expected

    await fleet.wait(seen, f"production-1 is {expected}")
    await fleet.roll_out(onHalt="Rollback", progressDeadlineSeconds=1, failureSoakSeconds=3601)
    await fleet.reaches("Complete", failed=0)
    assert set((await fleet.versions()).values()) == {NEW}


@pytest.mark.criterion("G-C4")
async def test_health_that_is_lost_in_the_version_rolls_back(fleet: Fleet) -> None:
    await fleet.create_instances(2)
    await fleet.roll_out(onHalt="Rollback")
    await fleet.reaches("Complete", updated=2)
    await fleet.roll_out(onHalt="Rollback", progressDeadlineSeconds=1)
    fleet.lost.add("production-1")
    await fleet.reaches("RolledBack")
    assert set((await fleet.versions()).values()) == {OLD}


@pytest.mark.criterion("G-C4")
async def test_a_wait_for_a_place_is_no_failure(fleet: Fleet) -> None:
    await fleet.create_instances(2)
    fleet.queued |= {"production-0", "production-1"}
    await fleet.roll_out(onHalt="Rollback", progressDeadlineSeconds=600, maxConcurrent=9)

    async def wait() -> bool:
        found = [
            await fleet.client.get(Instance, name, namespace=NAMESPACE)
            for name in sorted(fleet.queued)
        ]
        return all(each.status.waiting and each.status.assigned_version for each in found)

    await fleet.wait(wait, "both wait for a place")
    over = monotonic() + 1.1
    await fleet.wait(lambda: monotonic() > over, "the deadline is over")
    await fleet.roll_out(onHalt="Rollback", progressDeadlineSeconds=1, maxConcurrent=9)
    await fleet.reaches("Progressing", updated=2, failed=0)
    await fleet.roll_out(onHalt="Rollback", maxConcurrent=9)  # what follows may take longer
    await fleet.reaches("Progressing", updated=2, failed=0)
    fleet.queued.clear()
    await fleet.reaches("Complete", updated=2)
    assert set((await fleet.versions()).values()) == {NEW}


@pytest.mark.criterion("G-C4")
async def test_a_migrated_database_is_not_rolled_back_without_a_person(fleet: Fleet) -> None:
    fleet.bad.add(NEW)
    await fleet.create_instances(2, upgrade=MIGRATING)
    await fleet.roll_out(onHalt="Rollback", maxConcurrent=1)
    status = await fleet.reaches("Halted", kept=1, rolled_back=0)
    assert "manager rollout undo" in status.message
    await fleet.roll_out(onHalt="Rollback", maxConcurrent=1, action="Undo")
    await fleet.reaches("RolledBack", rolled_back=1)
    assert set((await fleet.versions()).values()) == {OLD}


@pytest.mark.criterion("G-C5")
async def test_a_lower_target_downgrades_nothing(fleet: Fleet) -> None:
    await fleet.create_instances(2)
    await fleet.roll_out()
    await fleet.reaches("Complete", updated=2)
    await fleet.roll_out("5.1.0")
    status = await fleet.reaches("Pending", skipped=2)
    assert f"it has {NEW}, which is newer" in status.skipped_message
    assert set((await fleet.versions()).values()) == {NEW}


@pytest.mark.criterion("G-C5")
async def test_a_target_that_is_too_far_for_a_policy_is_skipped(fleet: Fleet) -> None:
    await fleet.create_instances(1, upgradePolicy={"maxMinorStep": 1})
    await fleet.roll_out("5.4.0")
    status = await fleet.reaches("Pending", skipped=1)
    assert "go there in steps" in status.skipped_message
    assert set((await fleet.versions()).values()) == {OLD}


@pytest.mark.criterion("C-20")
@pytest.mark.parametrize("hours", [2, 24 * 400])
async def test_c_20_a_clock_that_jumps_rolls_nothing_back(fleet: Fleet, hours: int) -> None:
    ahead = [0.0]
    machine = Sources()
    with replaced(Sources(wall=lambda: machine.wall() + ahead[0])):
        await fleet.create_instances(2)
        fleet.held.add(NEW)
        await fleet.roll_out(onHalt="Rollback", progressDeadlineSeconds=3600)
        await fleet.reaches("Progressing", updated=2)
        ahead[0] = hours * 3600.0
        await fleet.roll_out(onHalt="Rollback", progressDeadlineSeconds=3601)
        await fleet.reaches("Progressing", updated=2, failed=0)
        fleet.held.clear()
        await fleet.reaches("Complete", updated=2)
    assert set((await fleet.versions()).values()) == {NEW}
