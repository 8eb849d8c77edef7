"""A peer's schedule and Job at work: the sample's own schedule, with the clock stepped past its hours.

Nodes, claims, Jobs and snapshots progress as on a cluster; only time does not pass by itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from apis.cosmos import JobOutcome, ScheduledVolumeSnapshot, StatefulJob
from ctrlruntime.envtest.eventually import eventually
from internal.cosmos.labels import INSTANCE, SOURCE
from tests.cosmos.fullnode.harness import CLAIM, OPTIONS, PATIENCE, NodeSetHarness, Place
from tests.cosmos.fullnode.test_peer_samples import answering, manifest
from tests.cosmos.servers.csi import Csi
from tests.cosmos.servers.snapshotcrds import SNAPSHOT, SNAPSHOT_CRDS, snapshot_class
from tests.cosmos.snapshots.harness import JOB
from tests.cosmos.stepclock import StepClock

pytestmark = pytest.mark.criterion("H-C7")


@asynccontextmanager
async def peers_cluster(folder: Path) -> AsyncIterator[tuple[Place, StepClock]]:
    """Run the nodes of the minimal sample in the namespace that the schedule names, with a CSI driver."""
    clock = StepClock(datetime.now(UTC))
    async with NodeSetHarness.start(folder, options=replace(OPTIONS, clock=clock)) as harness:
        await harness.environment.install_crds(*SNAPSHOT_CRDS)
        await harness.client.create(snapshot_class("cosmos-snapshot"))
        place = Place(harness, "default")
        config = harness.environment.config("envtest", direct=True)
        async with Csi.start(config, claims=False, clock=clock.now):
            given = {"service": {"maxP2PExternalAddresses": 0}, **answering(place)}
            await place.apply(manifest(place, "minimal", **given))
            await place.settled("atlas-mainnet")
            yield place, clock


async def snapshots(place: Place) -> list[dict[str, Any]]:
    """Return the VolumeSnapshots, the oldest first."""
    found = [dict(each) for each in await place.client.list(SNAPSHOT, place.namespace)]
    return sorted(found, key=lambda each: str(each["metadata"]["name"]))


async def snapshot_of_hour(place: Place, clock: StepClock) -> datetime:
    """Step the clock over the next full hour. Returns that hour once its snapshot is taken."""
    hour = clock.now().replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    clock.step(seconds=(hour - clock.now()).total_seconds() + 1)
    await eventually(
        place.client,
        ScheduledVolumeSnapshot,
        "hourly",
        lambda found: (
            found.status.last_snapshot is not None
            and found.status.last_snapshot.name == f"hourly-{hour:%Y%m%d%H%M}"
            and found.status.phase == "WaitingForNext"
        ),
        namespace=place.namespace,
        timeout=PATIENCE,
    )
    return hour


async def test_h_c7_the_schedule_takes_a_snapshot_every_hour(tmp_path: Path) -> None:
    async with peers_cluster(tmp_path) as (place, clock):
        await place.apply(manifest(place, "scheduledvolumesnapshot"))
        await eventually(
            place.client,
            ScheduledVolumeSnapshot,
            "hourly",
            lambda found: found.status.created_at is not None,
            namespace=place.namespace,
            timeout=PATIENCE,
        )
        assert await snapshots(place) == []
        hours = [await snapshot_of_hour(place, clock) for _ in range(2)]
        taken = await snapshots(place)
        assert [each["metadata"]["name"] for each in taken] == [
            f"hourly-{hour:%Y%m%d%H%M}" for hour in hours
        ]
        for each in taken:
            node = each["metadata"]["labels"][INSTANCE]
            assert node in ("atlas-mainnet-0", "atlas-mainnet-1")
            assert each["metadata"]["labels"][SOURCE] == "hourly"
            assert each["spec"] == {
                "source": {"persistentVolumeClaimName": f"pvc-{node}"},
                "volumeSnapshotClassName": "cosmos-snapshot",
            }
            assert each["status"]["readyToUse"] is True


async def test_h_c7_the_job_runs_on_the_newest_snapshot(tmp_path: Path) -> None:
    async with peers_cluster(tmp_path) as (place, clock):
        for name in ("older", "newest"):
            await take(place, name, target="value")
            clock.step(seconds=1)  # no more: the Job goes 30 s after its end
        await take(place, "another", target="other")
        await place.apply(manifest(place, "statefuljob"))
        found = await outcome(place, JobOutcome.SUCCEEDED)
        run = found.status.job_history[0]
        assert run.snapshot == "newest"
        claim = await place.object(CLAIM, run.name)
        assert claim["spec"]["dataSource"] == {
            "apiGroup": SNAPSHOT.group,
            "kind": "VolumeSnapshot",
            "name": "newest",
        }
        assert claim["spec"]["resources"]["requests"] == {"storage": "100Gi"}
        job = await place.object(JOB, run.name)
        assert job["status"]["succeeded"] == 1
        pod = job["spec"]["template"]["spec"]
        assert pod["containers"][0]["args"] == ["/home/operator/cosmos"]
        assert pod["volumes"] == [
            {"name": "snapshot", "persistentVolumeClaim": {"claimName": run.name}}
        ]
        clock.step(hours=24)
        again = await outcome(place, JobOutcome.SUCCEEDED, but=run.name)
        assert again.status.job_history[0].snapshot == "newest"


async def take(place: Place, name: str, **labels: str) -> None:
    """Take a snapshot of a node's disk by hand."""
    metadata = {"name": name, "namespace": place.namespace, "labels": labels}
    made = {"apiVersion": SNAPSHOT.api_version, "kind": SNAPSHOT.kind, "metadata": metadata}
    source = {"source": {"persistentVolumeClaimName": "pvc-atlas-mainnet-0"}}
    await place.client.create({**made, "spec": source})
    await eventually(
        place.client,
        SNAPSHOT,
        name,
        {"status": {"readyToUse": True}},
        namespace=place.namespace,
        timeout=PATIENCE,
    )


async def outcome(place: Place, wanted: JobOutcome, but: str = "") -> StatefulJob:
    """Wait until the last run, another than `but`, has come to an end."""
    found = await eventually(
        place.client,
        StatefulJob,
        "upload",
        lambda found: (
            bool(found.status.job_history)
            and found.status.job_history[0].name != but
            and found.status.job_history[0].outcome is wanted
        ),
        namespace=place.namespace,
        timeout=PATIENCE,
    )
    assert isinstance(found, StatefulJob)
    return found
