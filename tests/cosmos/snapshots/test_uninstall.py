"""CRDs of schedules that are deleted: snapshots stay, and a node that is down comes back (H-A9)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from apis.cosmos import GROUP, JobOutcome, ScheduledVolumeSnapshot, StatefulJob
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.envtest.eventually import eventually_gone
from tests.cosmos.servers.csi import NEVER
from tests.cosmos.servers.snapshotcrds import SNAPSHOT
from tests.cosmos.snapshots.harness import CLAIM, NAMESPACE, SnapshotsHarness
from tests.limits import CRD_SECONDS

CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
KINDS = (ScheduledVolumeSnapshot, StatefulJob)

pytestmark = pytest.mark.criterion("H-A9")


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[SnapshotsHarness]:
    async with SnapshotsHarness.start(tmp_path) as made:
        yield made


async def delete_crds(harness: SnapshotsHarness) -> None:
    """`kubectl delete crd`, and wait until they are gone."""
    names = [f"{kind.mapping().plural}.{GROUP}" for kind in KINDS]
    for name in names:
        await harness.client.delete(CRD, name)
    for name in names:
        await eventually_gone(harness.client, CRD, name, timeout=CRD_SECONDS)


async def test_h_a9_without_their_crd_snapshots_stay_and_the_node_comes_back(
    harness: SnapshotsHarness,
) -> None:
    assert harness.csi is not None
    harness.csi.default.ready_after = NEVER
    await harness.schedule(deletePod=True)
    harness.clock.step(minutes=10)
    await harness.phase("nightly", "WaitingForPodDeletion")
    await harness.settle()
    await harness.phase("nightly", "WaitingForSnapshotCreation")
    harness.csi.default.ready_after = 0
    harness.csi.tick()
    await harness.restored()
    await harness.settle()
    [made] = await harness.snapshots()
    await harness.phase("nightly", "WaitingForNext")
    harness.clock.step(minutes=10)
    await harness.phase("nightly", "WaitingForPodDeletion")
    assert await harness.paused()
    await delete_crds(harness)
    await harness.restored()
    found = {
        item["metadata"]["name"]: item["metadata"]
        for item in await harness.client.list(SNAPSHOT, NAMESPACE)
    }
    assert made in found
    owned = [name for name, each in found.items() if each.get("ownerReferences")]
    assert owned == [], "the garbage collector would delete it later"


async def test_h_a9_without_its_crd_a_job_takes_no_snapshot_and_no_disk_of_a_node_along(
    harness: SnapshotsHarness,
) -> None:
    await harness.snapshot("copy", app="chain")
    metadata = {"name": "pvc-hub-0", "namespace": NAMESPACE}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    await harness.client.create(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    )
    await harness.stateful_job()
    await harness.job(
        "weekly",
        lambda found: (
            bool(found.status.job_history)
            and found.status.job_history[0].outcome is JobOutcome.RUNNING
        ),
    )
    await delete_crds(harness)
    assert "copy" in await harness.snapshots()
    assert await harness.there(CLAIM, "pvc-hub-0")
