"""FleetRollouts over HTTP: budget, waves, halt, rollback, approval, takeovers; what is written and what is not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from apis.cloud import FleetRollout, Instance
from ctrlruntime.api import find_condition
from ctrlruntime.client.errors import Invalid
from internal.cloud.rollouts.strategy import approve_wave
from tests.backends import SharedServer
from tests.cloud.rollouts.harness import NAMESPACE, NEW, OLD, Fleet, instance
from tests.support.waiting import eventually

pytestmark = pytest.mark.criterion("RO-FLEET")
EVENTS = ("events.events.k8s.io",)
"""Written behind the work, those of the last change perhaps after it."""


@pytest.fixture(params=["embedded", "kube-apiserver"])
async def fleet(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Fleet]:
    real = request.param == "kube-apiserver"
    server: SharedServer | None = request.getfixturevalue("real_server") if real else None
    async with Fleet.start(tmp_path, server=server) as made:
        yield made


async def test_every_instance_gets_the_version_once_and_no_more_change_than_the_budget(
    fleet: Fleet,
) -> None:
    await fleet.create_instances(8)
    await fleet.roll_out(maxConcurrent=2)
    status = await fleet.reaches("Complete", total=8, updated=8)
    assert status.target_version == NEW
    assert set((await fleet.versions()).values()) == {NEW}
    assert sorted(name for name, _ in fleet.assignments) == sorted(await fleet.versions())
    assert fleet.most_changing <= 2


async def test_two_managers_at_once_change_no_instance_twice_and_keep_the_budget(
    fleet: Fleet,
) -> None:
    await fleet.create_instances(8)
    await fleet.start_manager()
    await fleet.roll_out(maxConcurrent=2)
    await fleet.reaches("Complete", updated=8)
    assert sorted(name for name, _ in fleet.assignments) == sorted(await fleet.versions())
    assert fleet.most_changing <= 2


async def test_the_spec_of_an_instance_is_never_written_and_its_status_reports_who_assigned(
    fleet: Fleet,
) -> None:
    await fleet.create_instances(1)
    await fleet.roll_out()
    await fleet.reaches("Complete")
    (found,) = await fleet.instances()
    assert found.spec.wanted_version == OLD
    assert found.metadata.generation == 1
    assert found.status.assigned_version is not None
    assert found.status.assigned_version.rollout == "release"
    assert "in place of 5.2.0 of the spec" in found.status.assigned_version.message


async def test_a_change_of_the_spec_wins_over_the_assignment_and_is_left_alone(
    fleet: Fleet,
) -> None:
    await fleet.create_instances(2)
    await fleet.roll_out()
    await fleet.reaches("Complete")
    patch = {"spec": {"version": "5.2.9"}}
    await fleet.client.patch(Instance, "production-0", patch, namespace=NAMESPACE)
    status = await fleet.reaches("Complete", skipped=1, total=1)
    assert "its spec was changed" in status.skipped_message
    assert (await fleet.versions())["production-0"] == "5.2.9"


async def test_a_bad_version_is_halted_and_exactly_the_changed_instances_go_back(
    fleet: Fleet,
) -> None:
    fleet.bad.add(NEW)
    await fleet.create_instances(8)
    await fleet.roll_out(maxConcurrent=2, onHalt="Rollback")
    await fleet.reaches("RolledBack")
    changed = [name for name, version in fleet.assignments if version == NEW]
    assert 1 <= len(changed) <= 3

    async def restored() -> bool:  # as soon as the driver has seen it too
        return sorted(name for name, to in fleet.assignments if to == OLD) == sorted(changed)

    await fleet.wait(restored, "exactly those go back")
    assert set((await fleet.versions()).values()) == {OLD}


async def test_a_halt_holds_and_ends_with_another_version(fleet: Fleet) -> None:
    fleet.bad.add(NEW)
    await fleet.create_instances(6)
    await fleet.roll_out(maxConcurrent=1)
    status = await fleet.reaches("Halted")
    assert status.failed == 1
    assert "manager rollout resume" in status.message
    await fleet.roll_out("5.3.1", maxConcurrent=1)
    await fleet.reaches("Complete", updated=6)
    assert set((await fleet.versions()).values()) == {"5.3.1"}


async def test_a_halt_ends_by_itself_once_the_failed_instances_are_ready(fleet: Fleet) -> None:
    fleet.bad.add(NEW)
    await fleet.create_instances(3)
    await fleet.roll_out(maxConcurrent=1)
    await fleet.reaches("Halted")
    fleet.bad.clear()
    status = await fleet.reaches("Complete", updated=3)
    assert status.failed == 0


async def test_an_undo_returns_what_was_changed_and_a_resume_continues(fleet: Fleet) -> None:
    await fleet.create_instances(4)
    await fleet.create_instances(2, "internal")
    await fleet.roll_out(waves=[{"name": "first", "groups": {"internal": 100}}], pause=False)
    await fleet.reaches("Complete", updated=2, skipped=4)
    await fleet.roll_out(waves=[{"name": "first", "groups": {"internal": 100}}], action="Undo")
    status = await fleet.reaches("RolledBack", rolled_back=2)
    assert set((await fleet.versions()).values()) == {OLD}
    assert "An undo was requested" in status.message
    await fleet.annotate(resumed_at=datetime.now(UTC).isoformat())
    await fleet.roll_out(waves=[{"name": "first", "groups": {"internal": 100}}], action="RollOut")
    await fleet.reaches("Complete", updated=2)


async def test_a_rollback_is_over_when_the_returned_instances_are_ready(fleet: Fleet) -> None:
    await fleet.create_instances(2)
    await fleet.roll_out()
    await fleet.reaches("Complete")
    fleet.held.add(OLD)
    await fleet.roll_out(action="Undo")
    await fleet.reaches("RollingBack", changing=2, rolled_back=2)
    fleet.held.clear()
    await fleet.reaches("RolledBack", changing=0)
    assert set((await fleet.versions()).values()) == {OLD}


async def test_a_manual_wave_waits_for_an_approval_of_what_was_shown(fleet: Fleet) -> None:
    await fleet.create_instances(4)
    waves = [{"name": "early", "percent": 25}, {"name": "all", "approval": "Manual"}]
    await fleet.roll_out(waves=waves)
    status = await fleet.reaches("WaitingForApproval", updated=1)
    assert "manager rollout approve" in status.message
    await fleet.annotate(approved_waves="all=00000000")
    await fleet.roll_out(waves=waves, progressDeadlineSeconds=7200)  # no part of the digest
    again = await fleet.reaches("WaitingForApproval", updated=1)
    assert again.approval_digest == status.approval_digest
    await fleet.annotate(approved_waves=approve_wave({}, "all", status.approval_digest))
    await fleet.reaches("Complete", updated=4)


@pytest.mark.criterion("S-P2")
@pytest.mark.criterion("S-P3")
async def test_a_wave_that_needs_a_second_person_waits_for_a_recorded_approval(
    fleet: Fleet,
) -> None:
    await fleet.create_instances(4)
    waves = [{"name": "early", "percent": 25}, {"name": "all", "approval": "Manual"}]
    await fleet.roll_out(waves=waves, requireApprovalBy={"group": "approvers"})
    status = await fleet.reaches("WaitingForApproval", updated=1)
    await fleet.annotate(approved_waves=approve_wave({}, "all", status.approval_digest))

    async def count() -> str:
        found = await fleet.client.get(FleetRollout, "release", namespace=NAMESPACE)
        seen = find_condition(found.status.conditions, "ApprovalsCount")
        return "" if seen is None else seen.message

    await eventually(count, lambda text: "run the manager with --webhooks" in text)
    lower = {"spec": {"requireApprovalBy": None, "waves": [waves[0], {"name": "all"}]}}
    await fleet.client.patch(FleetRollout, "release", lower, namespace=NAMESPACE)
    await eventually(count, lambda text: "spec.automaticWaves" in text)
    assert (await fleet.reaches("WaitingForApproval", updated=1)).waiting == 3


async def test_a_newer_rollout_takes_its_instances_and_an_abort_gives_them_back(
    fleet: Fleet,
) -> None:
    await fleet.create_instances(3)
    await fleet.roll_out("5.3.0", "older", pause=True)
    await fleet.reaches("Paused", "older")
    older = await fleet.client.get(FleetRollout, "older", namespace=NAMESPACE)
    created = older.metadata.creation_timestamp
    assert created is not None
    await eventually(lambda: datetime.now(UTC) - created, lambda age: age >= timedelta(seconds=1))
    await fleet.roll_out("5.4.0", "newer", pause=True)
    await fleet.reaches("Superseded", "older")
    await fleet.roll_out("5.4.0", "newer", action="Abort")
    await fleet.reaches("Aborted", "newer")
    await fleet.roll_out("5.3.0", "older", pause=False)
    await fleet.reaches("Complete", "older", updated=3)
    assert set((await fleet.versions()).values()) == {"5.3.0"}


async def test_skipped_paused_and_unhealthy_instances_are_named(fleet: Fleet) -> None:
    await fleet.create_instances(1)
    await fleet.client.create(instance("channel", releaseChannel="pause"))
    extracted = instance("extracted")
    extracted["metadata"]["annotations"] = {"cloud.ctrlruntime.dev/control-plane-mode": "false"}
    await fleet.client.create(extracted)
    paused = instance("paused")
    paused["metadata"]["annotations"] = {"cloud.ctrlruntime.dev/paused": "true"}
    await fleet.client.create(paused)
    fleet.bad.add("broken")
    await fleet.client.create(instance("sick", version="broken"))
    await fleet.wait(lambda: _is_failed(fleet, "sick"), "an instance fails")
    await fleet.roll_out()
    await fleet.wait(lambda: _updated(fleet, 1), "one is updated")
    status = await fleet.status()
    assert (status.total, status.updated, status.skipped, status.waiting) == (3, 1, 2, 2)
    assert "its release channel is pause" in status.skipped_message
    assert "taken out of management" in status.skipped_message
    versions = await fleet.versions()
    assert versions["paused"] == OLD
    assert versions["sick"] == "broken"


async def _is_failed(fleet: Fleet, name: str) -> bool:
    found = await fleet.client.get(Instance, name, namespace=NAMESPACE)
    return found.status.phase == "Failed"


async def _updated(fleet: Fleet, count: int) -> bool:
    return (await fleet.status()).updated == count


async def test_a_window_that_cannot_be_used_is_named_and_changes_nothing(fleet: Fleet) -> None:
    await fleet.create_instances(1)
    await fleet.roll_out(maintenanceWindows=[{"schedule": "61 * * * *", "duration": "1h"}])
    status = await fleet.reaches("Invalid")
    assert "spec.maintenanceWindows[0]." in status.message
    assert set((await fleet.versions()).values()) == {OLD}
    await fleet.roll_out(maintenanceWindows=[])
    await fleet.reaches("Complete")


async def test_admission_refuses_a_start_at_no_wave(fleet: Fleet) -> None:
    with pytest.raises(Invalid, match="startAt names none of the waves"):
        await fleet.roll_out(startAt="late", waves=[{"name": "early"}])
    assert not await fleet.client.list(FleetRollout, NAMESPACE)


async def test_at_rest_and_after_a_restart_nothing_is_written(fleet: Fleet) -> None:
    await fleet.create_instances(4)
    await fleet.roll_out(maxConcurrent=2)
    await fleet.reaches("Complete")
    await fleet.idle()
    mark = fleet.environment.proxy.log.mark()
    await fleet.stop_manager()
    await fleet.start_manager()
    await fleet.idle()
    counts = fleet.environment.proxy.log.since(mark).select(user="manager", exclude=EVENTS)
    assert counts.writes == 0, counts
