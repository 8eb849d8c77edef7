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
from tests.cosmos.snapshots.harness import CLAIM, NAMESPACE, Stand
from tests.limits import CRD_SECONDS

CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
KINDS = (ScheduledVolumeSnapshot, StatefulJob)

pytestmark = pytest.mark.criterion("H-A9")


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[Stand]:
    async with Stand.start(tmp_path) as made:
        yield made


async def delete_crds(stand: Stand) -> None:
    """`kubectl delete crd`, and wait until they are gone."""
    names = [f"{kind.mapping().plural}.{GROUP}" for kind in KINDS]
    for name in names:
        await stand.client.delete(CRD, name)
    for name in names:
        await eventually_gone(stand.client, CRD, name, timeout=CRD_SECONDS)


async def test_h_a9_without_their_crd_snapshots_stay_and_the_node_comes_back(stand: Stand) -> None:
    assert stand.csi is not None
    stand.csi.default.ready_after = NEVER
    await stand.schedule(deletePod=True)
    stand.clock.step(minutes=10)
    await stand.phase("nightly", "WaitingForPodDeletion")
    await stand.settle()
    await stand.phase("nightly", "WaitingForSnapshotCreation")
    stand.csi.default.ready_after = 0
    stand.csi.tick()
    await stand.restored()
    await stand.settle()
    [made] = await stand.snapshots()
    await stand.phase("nightly", "WaitingForNext")
    stand.clock.step(minutes=10)
    await stand.phase("nightly", "WaitingForPodDeletion")
    assert await stand.paused()
    await delete_crds(stand)
    await stand.restored()
    found = {
        item["metadata"]["name"]: item["metadata"]
        for item in await stand.client.list(SNAPSHOT, NAMESPACE)
    }
    assert made in found
    owned = [name for name, each in found.items() if each.get("ownerReferences")]
    assert owned == [], "the garbage collector would delete it later"


async def test_h_a9_without_its_crd_a_job_takes_no_snapshot_and_no_disk_of_a_node_along(
    stand: Stand,
) -> None:
    await stand.snapshot("copy", app="chain")
    metadata = {"name": "pvc-hub-0", "namespace": NAMESPACE}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    await stand.client.create(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    )
    await stand.stateful_job()
    await stand.job(
        "weekly",
        lambda found: (
            bool(found.status.job_history)
            and found.status.job_history[0].outcome is JobOutcome.RUNNING
        ),
    )
    await delete_crds(stand)
    assert "copy" in await stand.snapshots()
    assert await stand.there(CLAIM, "pvc-hub-0")
