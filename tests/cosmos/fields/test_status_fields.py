"""Each field of the reference's statuses, and the field of its specs that takes a server to be seen."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from apis.cosmos import JobOutcome, SnapshotPhase
from ctrlruntime.json import Json
from tests.cosmos.fullnode.harness import CLAIM, POD, NodeSetHarness
from tests.cosmos.snapshots.harness import JOB, NAMESPACE, SnapshotsHarness

from .reference import STATUS_FIELDS
from .row import at

Fields = dict[str, Callable[[Json], bool]]

NODE_SET: Fields = {
    "observedGeneration": lambda found: found == 1,
    "phase": lambda found: found == "Complete",
    "status": lambda found: found == "2 of 2 nodes have caught up.",
    "peers": lambda found: [each.partition("@")[2] for each in found] == ["203.0.113.7:1"],
    "sync{}.timestamp": lambda found: found.endswith(":00Z"),
    "sync{}.height": lambda found: found >= 100,
    "sync{}.inSync": lambda found: found is True,
    "sync{}.error": lambda found: found is None,
    "height{}": lambda found: found == 101,
}
WRITTEN_BY_OTHERS = {
    "scheduledSnapshotStatus{}.podCandidate",
    "selfHealing.pvcAutoScaler{}.requestedSize",
    "selfHealing.pvcAutoScaler{}.requestedAt",
}
"""Fields of a set that others write, and the set follows."""
SNAPSHOT: Fields = {
    "observedGeneration": lambda found: found == 1,
    "createdAt": lambda found: found == "2026-03-01T12:00:30Z",
    "phase": lambda found: found == "WaitingForSnapshotCreation",
    "status": lambda found: found == "Waiting for the VolumeSnapshot of hub-0.",
    "candidate.podName": lambda found: found == "hub-0",
    "candidate.pvcName": lambda found: found == "pvc-hub-0",
    "candidate.podLabels": lambda found: found["app.kubernetes.io/instance"] == "hub-0",
    "lastSnapshot.name": lambda found: found == "nightly-202603011210",
    "lastSnapshot.startedAt": lambda found: found == "2026-03-01T12:10:30Z",
}
JOBS: Fields = {
    "observedGeneration": lambda found: found == 1,
    "status": lambda found: (
        found
        == "Job weekly-20260301120030 runs on a copy of copy. None of its containers mounts volume snapshot."
    ),
    "jobHistory": lambda found: [each["outcome"] for each in found] == ["Running"],
}


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[SnapshotsHarness]:
    async with SnapshotsHarness.start(tmp_path) as made:
        yield made


def wrong(status: Json, fields: Fields, key: str = "") -> dict[str, Json]:
    """Fields that are not as they have to be; `key` is the one that is looked at in maps."""
    found = {field: at(status, field.replace("{}", f".{key}")) for field in fields}
    return {field: value for field, value in found.items() if not fields[field](value)}


def test_the_tables_have_every_field_of_the_reference() -> None:
    assert {
        "A1.5": {*NODE_SET, *WRITTEN_BY_OTHERS},
        "A1.6": {*SNAPSHOT, "lastSnapshot.status"},
        "A1.7": set(JOBS),
    } == {table: set(fields) for table, fields in STATUS_FIELDS.items()}


@pytest.mark.criterion("COSMOS-A1-5")
async def test_the_status_of_a_set_of_nodes(tmp_path: Path) -> None:
    async with NodeSetHarness.start(tmp_path) as harness:
        place = await harness.place()
        overrides = {"hub-0": {"externalAddress": "203.0.113.7:1"}}
        await place.apply(place.node_set(replicas=2, instanceOverrides=overrides))
        found = await place.settled()
        assert wrong(found.status.to_wire(), NODE_SET, "hub-0") == {}
        # What others write: a Pod that is away for a snapshot, and a disk that is to grow.
        await place.set_status(
            scheduledSnapshotStatus={"own.daily.v1": {"podCandidate": "hub-1"}},
            selfHealing={
                "pvcAutoScaler": {
                    "pvc-hub-0": {"requestedSize": "2Gi", "requestedAt": "2026-01-01T00:00:00Z"}
                }
            },
        )
        await place.until_object(POD, "hub-1", lambda pod: pod is None)
        path = "spec.resources.requests.storage"
        await place.until_object(
            CLAIM, "pvc-hub-0", lambda claim: at(claim, path) == "2190433321"
        )  # 2 % more than 2Gi
        assert await place.object(CLAIM, "pvc-hub-1") is not None, "the disk of the Pod stays"


@pytest.mark.criterion("COSMOS-A1-6")
async def test_the_status_of_a_schedule(harness: SnapshotsHarness) -> None:
    await harness.schedule("nightly", deletePod=True)
    harness.clock.step(minutes=10)
    await harness.phase("nightly", SnapshotPhase.WAITING_FOR_POD_DELETION)
    await harness.settle()
    found = await harness.phase("nightly", SnapshotPhase.WAITING_FOR_SNAPSHOT_CREATION)
    assert wrong(found.status.to_wire(), SNAPSHOT) == {}
    assert harness.csi is not None
    harness.csi.default.ready_after = 0
    harness.csi.tick()
    ready = await harness.sees(
        "nightly",
        lambda found: at(found.status.to_wire(), "lastSnapshot.status.readyToUse") is True,
    )
    assert ready.status.candidate is not None


@pytest.mark.criterion("COSMOS-A1-7")
async def test_the_status_of_a_job_and_the_snapshot_that_its_selector_finds(
    harness: SnapshotsHarness,
) -> None:
    await harness.snapshot("copy", app="chain")
    await harness.snapshot("another", size="9Gi", app="other")
    await harness.stateful_job(selector={"app": "chain"})
    found = await harness.job(
        "weekly",
        lambda job: [each.outcome for each in job.status.job_history] == [JobOutcome.RUNNING],
    )
    assert wrong(found.status.to_wire(), JOBS) == {}
    (record,) = found.status.job_history
    assert record.snapshot == "copy", "the newer one has other labels"
    assert await harness.there(JOB, record.name)
    claim = await harness.client.get(CLAIM, record.name, namespace=NAMESPACE)
    assert at(claim, "spec.dataSource.name") == "copy"
