"""Sources of claims, as they are found on a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apis.cosmos import VolumeClaimTemplate
from ctrlruntime.cache.cache import Cache
from ctrlruntime.envtest.eventually import eventually
from internal.cosmos.datasource import DataSources, SourceMissing, SourceReason
from internal.cosmos.volumesnapshots import VOLUME_SNAPSHOT
from tests.cosmos.snapshots.harness import CLAIM, NAMESPACE, PATIENCE, SnapshotsHarness


def template(**source: object) -> VolumeClaimTemplate:
    given = {"storageClassName": "standard", "resources": {"requests": {"storage": "1Gi"}}}
    return VolumeClaimTemplate.model_validate({**given, **source})


def named(kind: str, name: str, group: str | None = None) -> VolumeClaimTemplate:
    return template(dataSource={"kind": kind, "name": name, "apiGroup": group})


async def test_sources(tmp_path: Path) -> None:
    async with SnapshotsHarness.start(tmp_path) as harness:
        group = VOLUME_SNAPSHOT.gvk.group
        await harness.snapshot("first", app="chain", **{"app.kubernetes.io/instance": "hub-0"})
        await harness.snapshot("second", size=None, app="chain")
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "theirs", "namespace": NAMESPACE},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "3Gi"}},
            },
        }
        assert harness.csi is not None
        harness.csi.of_claim("theirs").capacity = "4Gi"
        await harness.client.create(claim)
        capacity = {"status": {"capacity": {"storage": "4Gi"}}}
        await eventually(
            harness.client, CLAIM, "theirs", capacity, namespace=NAMESPACE, timeout=PATIENCE
        )
        cache = Cache(harness.client)
        cache.declare(VOLUME_SNAPSHOT)
        await cache.start()
        try:
            await cache.wait_synced(60)
            sources = DataSources(cache, harness.client)

            async def find(wanted: VolumeClaimTemplate) -> tuple[str, str | None]:
                found = await sources.find(wanted, namespace=NAMESPACE, instance="hub-0")
                assert found is not None
                return found.name, found.size

            async def missing(wanted: VolumeClaimTemplate) -> SourceReason:
                with pytest.raises(SourceMissing) as caught:
                    await find(wanted)
                return caught.value.reason

            assert await find(named("VolumeSnapshot", "first", group)) == ("first", "5Gi")
            assert await find(named("VolumeSnapshot", "second", group)) == ("second", None)
            assert await find(named("PersistentVolumeClaim", "theirs")) == ("theirs", "4Gi")
            auto: dict[str, Any] = {"volumeSnapshotSelector": {"app": "chain"}}
            assert await find(template(autoDataSource=auto)) == ("second", None)
            of_node = template(autoDataSource={**auto, "matchInstance": True})
            assert await find(of_node) == ("first", "5Gi")
            assert await sources.find(template(), namespace=NAMESPACE, instance="x") is None
            other = template(autoDataSource={"volumeSnapshotSelector": {"app": "a b"}})
            assert await missing(other) is SourceReason.FIND_SNAPSHOT
            nobody = named("VolumeSnapshot", "nobody", group)
            assert await missing(nobody) is SourceReason.GET_SNAPSHOT
            assert await missing(named("PersistentVolumeClaim", "x")) is SourceReason.GET_CLAIM
            assert await missing(named("VolumeSnapshot", "first")) is SourceReason.UNSUPPORTED
        finally:
            await cache.stop()
