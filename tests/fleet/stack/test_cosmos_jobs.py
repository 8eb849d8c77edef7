"""StatefulJobs and ScheduledVolumeSnapshots of data planes: Jobs, claims and snapshots are on the hub."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from apis.cosmos import JobOutcome, ScheduledVolumeSnapshot, StatefulJob
from apis.fleet.labels import DATA_PLANE
from ctrlruntime.api.conditions import find_condition
from ctrlruntime.client.errors import NotFound
from ctrlruntime.resources import OWNER
from tests.cosmos.servers.csi import Csi
from tests.cosmos.servers.snapshotcrds import SNAPSHOT
from tests.fleet.stack.cosmos_harness import CLAIM, POD, CosmosFleet, cosmos_fleet
from tests.fleet.stack.harness import builtin, eventually
from tests.fleet.stack.test_cosmos import embedded_hub

JOB = builtin("batch/v1", "Job")


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[CosmosFleet]:
    async with cosmos_fleet(tmp_path, embedded_hub(tmp_path)) as made, with_snapshots(made):
        yield made


@contextlib.asynccontextmanager
async def with_snapshots(servers: CosmosFleet) -> AsyncIterator[None]:
    """Run a CSI driver on the hub: snapshots become ready."""
    await servers.hub.client.create(
        {
            "apiVersion": SNAPSHOT.api_version,
            "kind": "VolumeSnapshotClass",
            "metadata": {"name": "fast"},
            "driver": "test",
            "deletionPolicy": "Delete",
        }
    )
    config = servers.hub.environment.config("csi", direct=True)
    async with Csi.start(config, claims=False, clock=servers.clock.now):
        yield


def stateful_job(**fields: object) -> dict[str, Any]:
    """Make a StatefulJob of each hour."""
    pod = {"containers": [{"name": "main", "image": "busybox"}]}
    spec = {
        "selector": {"app": "chain"},
        "interval": "1h",
        "podTemplate": {"spec": pod},
        "volumeClaimTemplate": {"storageClassName": "stack-standard"},
        **fields,
    }
    metadata = {"name": "weekly", "namespace": "default"}
    kind = StatefulJob.gvk()
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


async def snapshot(servers: CosmosFleet, name: str, *, labelled: bool) -> None:
    """Make a snapshot on the hub by hand, with or without the data plane's label."""
    labels = {"app": "chain"} | ({DATA_PLANE: servers.plane.id} if labelled else {})
    await servers.hub.client.create(
        {
            "apiVersion": SNAPSHOT.api_version,
            "kind": SNAPSHOT.kind,
            "metadata": {"name": name, "namespace": "default", "labels": labels},
            "spec": {"source": {"persistentVolumeClaimName": "any"}},
        }
    )


async def read_job(servers: CosmosFleet) -> StatefulJob | None:
    try:
        return await servers.plane.client.get(StatefulJob, "weekly", namespace="default")
    except NotFound:
        return None


async def started(servers: CosmosFleet) -> StatefulJob:
    """Wait until a Job was begun; the simulated machines may have ended it by then."""

    def holds(found: StatefulJob | None) -> bool:
        history = [] if found is None else found.status.job_history
        begun = {JobOutcome.RUNNING, JobOutcome.SUCCEEDED}
        return bool(history) and history[0].outcome in begun

    found: StatefulJob = await eventually(partial(read_job, servers), holds)
    return found


async def test_the_job_and_its_claim_are_on_the_hub_and_go_with_the_stateful_job(
    servers: CosmosFleet,
) -> None:
    hub, plane = servers.hub, servers.plane
    async with servers.running():
        await plane.client.create(stateful_job())
        await snapshot(servers, "foreign", labelled=False)
        await eventually(
            partial(read_job, servers),
            lambda found: found is not None and "no VolumeSnapshot" in found.status.status,
        )
        await snapshot(servers, "own", labelled=True)
        found = await started(servers)
        assert found.status.job_history[0].snapshot == "own"
        name = found.status.job_history[0].name
        for kind in (JOB, CLAIM):
            (made,) = await servers.objects(hub, kind)
            assert made["metadata"]["name"] == name
            assert made["metadata"]["labels"][DATA_PLANE] == plane.id
            assert "ownerReferences" not in made["metadata"]
            assert made["metadata"]["annotations"][OWNER].endswith(f"/default/weekly@{plane.id}")
            assert await servers.objects(plane, kind) == []
        await plane.client.delete(StatefulJob, "weekly", namespace="default")
        await eventually(partial(read_job, servers), lambda seen: seen is None)
        for kind in (JOB, CLAIM):
            assert await servers.objects(hub, kind) == []


async def test_deleted_as_orphan_a_stateful_job_leaves_its_job_and_claim(
    servers: CosmosFleet,
) -> None:
    async with servers.running():
        await servers.plane.client.create(stateful_job())
        await snapshot(servers, "own", labelled=True)
        await started(servers)
        before = await servers.uids(JOB), await servers.uids(CLAIM)
        await servers.plane.client.delete(
            StatefulJob, "weekly", namespace="default", propagation="Orphan"
        )
        await eventually(partial(read_job, servers), lambda seen: seen is None)
        assert before == (await servers.uids(JOB), await servers.uids(CLAIM))
        assert all(before)


async def test_with_the_hub_down_a_stateful_job_reports_that_and_goes_on_by_itself(
    servers: CosmosFleet,
) -> None:
    async with servers.running():
        await servers.plane.client.create(stateful_job())
        await snapshot(servers, "own", labelled=True)
        await started(servers)

        def hub_ready(status: str) -> Callable[[StatefulJob | None], bool]:
            def holds(found: StatefulJob | None) -> bool:
                conditions = [] if found is None else found.status.conditions
                condition = find_condition(conditions, "HubReady")
                return condition is not None and condition.status == status

            return holds

        await servers.hub.stop()
        found = await eventually(partial(read_job, servers), hub_ready("False"))
        ready = find_condition(found.status.conditions, "Ready")
        assert ready is not None
        assert (ready.status, ready.reason) == ("False", "HubUnreachable")
        await servers.hub.restart()
        await eventually(partial(read_job, servers), hub_ready("True"))
        assert len(await servers.uids(JOB)) == 1


async def test_snapshots_are_made_on_the_hub_of_a_node_that_is_down_meanwhile(
    servers: CosmosFleet,
) -> None:
    hub, plane = servers.hub, servers.plane
    spec = {
        "fullNodeRef": {"name": "chain"},
        "schedule": "*/10 * * * *",
        "volumeSnapshotClassName": "fast",
        "deletePod": True,
        "minAvailable": 1,
    }
    kind = ScheduledVolumeSnapshot.gvk()
    metadata = {"name": "nightly", "namespace": "default"}

    async def read() -> ScheduledVolumeSnapshot:
        return await plane.client.get(ScheduledVolumeSnapshot, "nightly", namespace="default")

    async with servers.running():
        await plane.client.create(servers.node_set())
        await servers.complete()
        before = await servers.uids()
        await plane.client.create(
            {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
        )
        await eventually(read, lambda found: found.status.next_at is not None)
        servers.clock.step(minutes=10)
        found = await eventually(
            read,
            lambda found: (
                found.status.last_snapshot is not None and found.status.phase == "WaitingForNext"
            ),
        )
        assert found.status.last_snapshot is not None
        assert not found.status.last_snapshot.failed
        (made,) = await hub.client.list(SNAPSHOT, "default")
        assert made["metadata"]["name"] == found.status.last_snapshot.name
        assert made["metadata"]["labels"][DATA_PLANE] == plane.id
        assert made["metadata"]["annotations"][OWNER].endswith(f"/default/nightly@{plane.id}")

        def is_back(after: dict[str, str]) -> bool:
            """Whether all nodes run, one of them in another Pod: it was down for the snapshot."""
            changed = [name for name in after if after[name] != before[name]]
            return after.keys() == before.keys() and len(changed) == 1

        await eventually(servers.uids, is_back)
        await servers.complete()
        assert is_back(await servers.uids())
        assert await servers.objects(plane, POD) == []
