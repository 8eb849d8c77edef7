"""Events have the reasons of the reference, so that what watches for them goes on to work."""

from __future__ import annotations

import pytest

from apis.cosmos import CosmosFullNodeStatus, FullNodePhase
from ctrlruntime.envtest.proxy import Fail, Match, Rule
from internal.cosmos.datasource import SourceReason
from internal.cosmos.fullnode import events as node_sets
from internal.cosmos.selfheal import events as selfheal
from internal.cosmos.snapshots import events as snapshots
from tests.cosmos.fullnode.harness import CLAIM, EVENT, NodeSetHarness, Place
from tests.cosmos.servers.snapshotcrds import SNAPSHOT, SNAPSHOT_CRDS

pytestmark = [
    pytest.mark.criterion("COSMOS-A8-8"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("sets of nodes"),
]

REFERENCE = {
    "P2PIncomplete",
    "ErrorTransient",
    "Error",
    "PVCPatchFailed",
    "DataSourceGetSnapshot",
    "DataSourceGetPVC",
    "DataSourceUnsupported",
    "AutoDataSourceFindSnapshot",
    "AutoDataSource",
    "PVCAutoScaleCollectUsage",
    "PVCAutoScaleSignalResize",
    "PVCAutoScale",
    "HeightDriftMitigationDeletePod",
    "HeightDriftMitigation",
    "ListPods",
    "MissingCRDs",
    "DeleteOldSnapshotsError",
    "FindNextSnapshotTimeError",
    "FindCandidateError",
    "DeletePodError",
    "WaitingForPodDeletionError",
    "CreateVolumeSnapshotError",
    "VolumeSnapshotReadyError",
    "RestorePodError",
}
CANNOT_FAIL = {"ListPods"}
"""The cache of nodes has its Pods from the informer, whose failures are its own."""


async def test_each_reason_of_the_reference_is_one_here() -> None:
    enums = (node_sets.Reason, SourceReason, selfheal.Reason, snapshots.Reason)
    assert REFERENCE - {each.value for enum in enums for each in enum} == CANNOT_FAIL


@pytest.mark.parametrize(
    ("phase", "reason"),
    [
        (FullNodePhase.WAITING_FOR_P2P_SERVICES, "P2PIncomplete"),
        (FullNodePhase.TRANSIENT_ERROR, "ErrorTransient"),
        (FullNodePhase.ERROR, "Error"),
    ],
)
async def test_a_phase_that_is_no_progress_is_an_event_once(
    phase: FullNodePhase, reason: str
) -> None:
    before = CosmosFullNodeStatus(phase=FullNodePhase.PROGRESSING, status="Creating")
    after = CosmosFullNodeStatus(phase=phase, status="what is wrong")
    found = node_sets.of_status(before, after)
    assert [(note.reason, note.text) for note in found] == [(reason, "what is wrong")]
    assert node_sets.of_status(after, after) == []


async def test_a_claim_that_cannot_be_patched_is_an_event_and_tried_again(
    harness: NodeSetHarness, place: Place
) -> None:
    await place.apply(place.node_set(replicas=1))
    await place.settled()
    before = await place.uids()
    proxy = harness.environment.proxy
    refusal = Rule(
        match=Match(verb="apply", resource="persistentvolumeclaims", namespace=place.namespace),
        action=Fail(code=503, message="the test refuses"),
        times=None,
    )
    rule = proxy.add_rule(refusal)
    try:
        await place.edit(volumeClaimTemplate={"resources": {"requests": {"storage": "2Gi"}}})
        await place.until_event("PVCPatchFailed")
        texts = {
            event["note"]
            for event in await place.client.list(EVENT, place.namespace)
            if event["reason"] == "PVCPatchFailed"
        }
        assert any("the test refuses" in text for text in texts), texts
    finally:
        proxy.remove(rule)
    await place.until_object(
        CLAIM,
        "pvc-hub-0",
        lambda claim: claim["spec"]["resources"]["requests"]["storage"] == "2Gi",
    )
    await place.settled()
    assert await place.uids() == before


async def test_where_a_disk_comes_from_is_an_event_and_where_it_does_not_too(
    harness: NodeSetHarness, place: Place
) -> None:
    await harness.environment.install_crds(*SNAPSHOT_CRDS)
    named = {"apiGroup": SNAPSHOT.group, "kind": SNAPSHOT.kind, "name": "first"}
    await place.apply(place.node_set(replicas=1, volumeClaimTemplate={"dataSource": named}))
    await place.until_event("DataSourceGetSnapshot")
    core = {"kind": SNAPSHOT.kind, "name": "first"}
    other = {"hub-0": {"volumeClaimTemplate": _template(dataSource=core)}}
    await place.edit(instanceOverrides=other)
    await place.until_event("DataSourceUnsupported")
    assert await place.names(CLAIM) == []
    snapshot = {
        "apiVersion": SNAPSHOT.api_version,
        "kind": SNAPSHOT.kind,
        "metadata": {"name": "first", "namespace": place.namespace, "labels": {"chain": "hub"}},
        "spec": {"source": {"persistentVolumeClaimName": "other"}},
    }
    await place.client.create(snapshot)
    ready = {"readyToUse": True, "creationTime": "2026-05-01T00:00:00Z", "restoreSize": "3Gi"}
    await place.client.patch_status(SNAPSHOT, "first", {"status": ready}, namespace=place.namespace)
    selector = {"volumeSnapshotSelector": {"chain": "hub"}}
    await place.edit(
        instanceOverrides={"hub-0": {"volumeClaimTemplate": _template(autoDataSource=selector)}}
    )
    await place.edit(instanceOverrides={"hub-0": {"volumeClaimTemplate": {"dataSource": None}}})
    await place.until_event("AutoDataSource")
    await place.until_object(CLAIM, "pvc-hub-0", lambda claim: claim is not None)


def _template(**fields: object) -> dict[str, object]:
    """A template of a claim."""
    return {
        "storageClassName": "standard",
        "resources": {"requests": {"storage": "1Gi"}},
        **fields,
    }
