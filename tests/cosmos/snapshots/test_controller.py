"""Regular snapshots on an API server, with the clock stepped by the test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from apis.cosmos import ScheduledVolumeSnapshot, SnapshotPhase
from ctrlruntime.api import find_condition
from ctrlruntime.envtest.eventually import eventually
from ctrlruntime.envtest.proxy.rules import Cut, LoseReply, Match, Rule
from ctrlruntime.json import Json
from internal.cosmos.labels import PAUSE_FINALIZER, SOURCE
from tests.cosmos.servers.csi import NEVER
from tests.cosmos.servers.snapshotcrds import SNAPSHOT, SNAPSHOT_CRDS
from tests.cosmos.snapshots.harness import NAMESPACE, PATIENCE, SnapshotsHarness

FIRST = "nightly-202603011210"
Phase = SnapshotPhase
UNHEARD = Rule(
    match=Match(user="manager", verb="write", resource="volumesnapshots.*"),
    action=LoseReply(),
    times=None,
)
NO_FURTHER_STATUS = Rule(
    match=Match(user="manager", verb="patch", resource="scheduledvolumesnapshots.*/status"),
    action=Cut(),
    nth=2,  # the first writes down what is intended
    times=None,
)


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[SnapshotsHarness]:
    async with SnapshotsHarness.start(tmp_path) as made:
        yield made


async def take_down(harness: SnapshotsHarness, **fields: Json) -> None:
    """Up to the moment that the node's Pod has ended and its snapshot is being made."""
    assert harness.csi is not None
    harness.csi.default.ready_after = NEVER
    await harness.schedule(deletePod=True, **fields)
    harness.clock.step(minutes=10)
    await harness.phase("nightly", Phase.WAITING_FOR_POD_DELETION)
    await harness.settle()
    await harness.phase("nightly", Phase.WAITING_FOR_SNAPSHOT_CREATION)


@pytest.mark.criterion("COSMOS-A6-1")
async def test_a_whole_round(harness: SnapshotsHarness) -> None:
    await take_down(harness)
    assert await harness.paused() == ["hub-0"]
    found = await harness.client.get(ScheduledVolumeSnapshot, "nightly", namespace=NAMESPACE)
    assert PAUSE_FINALIZER in (found.metadata.finalizers or [])
    made = await harness.client.get(SNAPSHOT, FIRST, namespace=NAMESPACE)
    assert made["spec"] == {
        "source": {"persistentVolumeClaimName": "pvc-hub-0"},
        "volumeSnapshotClassName": "fast",
    }
    assert made["metadata"]["labels"][SOURCE] == "nightly"
    assert made["metadata"]["labels"]["app.kubernetes.io/instance"] == "hub-0"
    assert "ownerReferences" not in made["metadata"]
    assert harness.csi is not None
    harness.csi.default.ready_after = 0
    harness.csi.tick()
    await harness.restored()
    await harness.settle()
    found = await harness.phase("nightly", Phase.WAITING_FOR_NEXT)
    assert not found.metadata.finalizers
    assert found.status.last_snapshot is not None
    assert (found.status.last_snapshot.name, found.status.last_snapshot.failed) == (FIRST, "")
    condition = find_condition(found.status.conditions, "Ready")
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "Scheduled")


@pytest.mark.criterion("COSMOS-A6-5")
async def test_old_copies_go_and_others_stay(harness: SnapshotsHarness) -> None:
    await harness.snapshot("mine-not-yours", **{SOURCE: "nightly"})  # the label alone is no proof
    await harness.schedule(limit=2)
    for number in range(1, 5):
        harness.clock.step(minutes=10)
        name = f"nightly-2026030112{number}0"
        await harness.sees("nightly", partial(ended, name=name))
    await harness.gone(SNAPSHOT, "nightly-202603011220")
    kept = ["mine-not-yours", "nightly-202603011230", "nightly-202603011240"]
    assert await harness.snapshots() == kept


def ended(found: ScheduledVolumeSnapshot, name: str) -> bool:
    last = found.status.last_snapshot
    waits = found.status.phase is Phase.WAITING_FOR_NEXT
    return waits and last is not None and last.name == name and last.status is not None


@pytest.mark.criterion("D5-4", "COSMOS-A6-8")
async def test_deleted_while_its_node_is_down_it_restores_the_node_first(
    harness: SnapshotsHarness,
) -> None:
    await take_down(harness)
    await harness.client.delete(ScheduledVolumeSnapshot, "nightly", namespace=NAMESPACE)
    await harness.gone(ScheduledVolumeSnapshot, "nightly")
    assert await harness.paused() == []
    assert FIRST in await harness.snapshots()  # copies outlive who made them


@pytest.mark.criterion("D5-4")
async def test_a_node_comes_back_though_the_finalizer_was_taken_off_by_force(
    harness: SnapshotsHarness,
) -> None:
    await take_down(harness)
    await harness.stop_manager()
    patch = {"metadata": {"finalizers": None}}
    await harness.client.patch(ScheduledVolumeSnapshot, "nightly", patch, namespace=NAMESPACE)
    await harness.client.delete(ScheduledVolumeSnapshot, "nightly", namespace=NAMESPACE)
    assert await harness.paused() == ["hub-0"]
    await harness.start_manager()
    await harness.restored()


@pytest.mark.criterion("D5-5", "COSMOS-A10-244")
async def test_a_snapshot_that_fails_has_its_node_restored_and_the_next_time_kept(
    harness: SnapshotsHarness,
) -> None:
    assert harness.csi is not None
    harness.csi.of_snapshot(FIRST).error = "quota exceeded"
    await harness.schedule(deletePod=True, deadlines={"snapshotCreation": 60})
    harness.clock.step(minutes=10)
    await harness.phase("nightly", Phase.WAITING_FOR_POD_DELETION)
    await harness.settle()
    await harness.sees("nightly", lambda found: "quota exceeded" in found.status.status)
    assert len(await harness.paused()) == 1, "the driver tries again until the deadline"
    harness.clock.step(seconds=60)
    await harness.phase("nightly", Phase.WAITING_FOR_POD_RESTORATION)
    assert await harness.paused() == []
    await harness.settle()
    found = await harness.phase("nightly", Phase.WAITING_FOR_NEXT)
    assert found.status.last_snapshot is not None
    assert "quota exceeded" in found.status.last_snapshot.failed
    assert found.status.next_at is not None
    await harness.gone(SNAPSHOT, FIRST)
    assert "VolumeSnapshotReadyError" in await harness.reasons()
    harness.clock.step(minutes=10)
    await harness.phase("nightly", Phase.WAITING_FOR_POD_DELETION)
    await harness.settle()
    await harness.phase("nightly", Phase.WAITING_FOR_POD_RESTORATION)
    assert await harness.snapshots() == ["nightly-202603011220"]


async def test_a_snapshot_that_is_never_ready_has_its_node_restored(
    harness: SnapshotsHarness,
) -> None:
    await take_down(harness, schedule="10 12 * * *")
    harness.clock.step(minutes=59)
    await harness.phase("nightly", Phase.WAITING_FOR_SNAPSHOT_CREATION)
    harness.clock.step(minutes=1)
    await harness.restored()
    found = await harness.phase("nightly", Phase.WAITING_FOR_POD_RESTORATION)
    assert found.status.last_snapshot is not None
    assert "in time" in found.status.last_snapshot.failed


@pytest.mark.criterion("D5-6", "COSMOS-A6-6")
@pytest.mark.parametrize("heard", [False, True], ids=["unheard", "heard"])
async def test_who_dies_around_the_create_makes_exactly_one_snapshot(
    harness: SnapshotsHarness, heard: bool
) -> None:
    """The answer to a write never comes, and the program goes: what it knows is lost."""
    assert harness.csi is not None
    harness.csi.default.ready_after = NEVER
    await harness.schedule()
    for rule in (NO_FURTHER_STATUS,) if heard else (NO_FURTHER_STATUS, UNHEARD):
        harness.environment.proxy.add_rule(rule)
    harness.clock.step(minutes=10)
    await eventually(harness.client, SNAPSHOT, FIRST, namespace=NAMESPACE, timeout=PATIENCE)
    await harness.stop_manager()
    harness.environment.proxy.clear()
    found = await harness.client.get(ScheduledVolumeSnapshot, "nightly", namespace=NAMESPACE)
    assert found.status.phase is Phase.CREATING_SNAPSHOT
    harness.clock.step(minutes=3)
    await harness.start_manager()
    await harness.phase("nightly", Phase.WAITING_FOR_SNAPSHOT_CREATION)
    harness.csi.default.ready_after = 0
    harness.csi.tick()
    found = await harness.phase("nightly", Phase.WAITING_FOR_NEXT)
    assert found.status.last_snapshot is not None
    assert (found.status.last_snapshot.name, found.status.last_snapshot.failed) == (FIRST, "")
    assert await harness.snapshots() == [FIRST]


@pytest.mark.criterion("COSMOS-A6-9")
async def test_of_two_that_are_due_at_once_one_waits(harness: SnapshotsHarness) -> None:
    assert harness.csi is not None
    harness.csi.default.ready_after = NEVER
    for name in ("nightly", "hourly"):
        await harness.schedule(name, deletePod=True)
    harness.clock.step(minutes=10)

    async def down(name: str) -> bool:
        found = await harness.client.get(ScheduledVolumeSnapshot, name, namespace=NAMESPACE)
        return found.status.phase is Phase.WAITING_FOR_POD_DELETION

    await harness.sees("nightly", lambda found: found.status.phase in BUSY)
    await harness.sees("hourly", lambda found: found.status.phase in BUSY)
    first, second = ("nightly", "hourly") if await down("nightly") else ("hourly", "nightly")
    assert len(await harness.paused()) == 1
    await harness.sees(second, lambda found: "is down for" in found.status.status)
    await harness.edit(ScheduledVolumeSnapshot, first, suspend=True)
    await harness.phase(first, Phase.WAITING_FOR_POD_RESTORATION)
    await harness.settle()
    await harness.phase(first, Phase.SUSPENDED)
    await harness.phase(second, Phase.WAITING_FOR_POD_DELETION)
    assert len(await harness.paused()) == 1


BUSY = (Phase.FINDING_CANDIDATE, Phase.WAITING_FOR_POD_DELETION)


@pytest.mark.criterion("COSMOS-A6-11")
async def test_a_bad_schedule_is_reported_and_fixed(harness: SnapshotsHarness) -> None:
    await harness.schedule(schedule="61 * * * *")
    found = await harness.sees("nightly", lambda found: "spec.schedule" in found.status.status)
    condition = find_condition(found.status.conditions, "Ready")
    assert condition is not None
    assert condition.reason == "BadSchedule"
    before = harness.environment.proxy.log.mark()
    await harness.edit(
        ScheduledVolumeSnapshot, "nightly", schedule="@hourly", timeZone="Asia/Kolkata"
    )
    await harness.sees("nightly", lambda found: found.status.next_at is not None)
    writes = [
        each
        for each in harness.environment.proxy.log.entries(before)
        if each.user == "manager" and each.verb == "patch"
    ]
    assert len(writes) == 1
    assert "FindNextSnapshotTimeError" in await harness.reasons()


@pytest.mark.criterion("D5-7", "COSMOS-A6-10", "COSMOS-A10-389")
async def test_definitions_that_appear_and_vanish_are_noticed_without_a_restart(
    tmp_path: Path,
) -> None:
    async with SnapshotsHarness.start(tmp_path, snapshots=False) as harness:
        await harness.schedule()
        found = await harness.phase("nightly", Phase.MISSING_CRDS)
        condition = find_condition(found.status.conditions, "CRDsAvailable")
        assert condition is not None
        assert condition.status == "False"
        await harness.install_snapshots()
        await harness.phase("nightly", Phase.WAITING_FOR_NEXT)
        harness.clock.step(minutes=10)
        await harness.sees("nightly", partial(ended, name=FIRST))
        await harness.environment.uninstall_crds(SNAPSHOT_CRDS[0])
        await harness.phase("nightly", Phase.MISSING_CRDS)
        assert "MissingCRDs" in await harness.reasons()
