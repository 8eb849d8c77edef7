"""What is the set's stays the set's: without its labels, without its owner, and when the set is made again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from apis.cosmos import CosmosFullNode
from ctrlruntime.api import Manifest
from ctrlruntime.api.conditions import find_condition
from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.resources import OWNER, OWNER_UID
from internal.cosmos.fullnode.desired_objects import ACCOUNT, ROLE, ROLE_BINDING
from internal.cosmos.fullnode.desired_objects import DISRUPTION_BUDGET as BUDGET
from internal.cosmos.labels import CREATED_BY
from internal.removal_holds import HELD
from tests.cosmos.fullnode.harness import (
    CLAIM,
    CONFIG_MAP,
    NAME,
    POD,
    SECRET,
    SERVICE,
    NodeSetHarness,
    Place,
    pods,
)

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("sets of nodes"),
]

ALL = {
    "Pod": (POD, "hub-0"),
    "PersistentVolumeClaim": (CLAIM, "pvc-hub-0"),
    "Service": (SERVICE, "hub-p2p-0"),
    "ConfigMap": (CONFIG_MAP, "hub-0"),
    "Secret": (SECRET, "hub-0-node-key"),
    "ServiceAccount": (ACCOUNT, "hub-vc-sa"),
    "Role": (ROLE, "hub-vc-r"),
    "RoleBinding": (ROLE_BINDING, "hub-vc-rb"),
}


async def change(place: Place, kind: RESTMapping, name: str, **metadata: object) -> None:
    """Merge into the metadata by hand."""
    await place.client.patch(
        kind, name, {"metadata": metadata}, namespace=place.namespace, field_manager="people"
    )


def is_whole(found: Manifest | None) -> bool:
    """Whether label, owner reference and annotations are there."""
    if found is None:
        return False
    metadata = found["metadata"]
    references = [each["name"] for each in metadata.get("ownerReferences") or ()]
    return (
        metadata.get("labels", {}).get(CREATED_BY) == "cosmos-manager"
        and OWNER in metadata.get("annotations", {})
        and references == [NAME]
    )


LOSSES: dict[str, dict[str, Any]] = {
    "label": {"labels": {CREATED_BY: None}},
    "another's label": {"labels": {CREATED_BY: "somebody"}},
    "all labels": {"labels": None},
    "owner reference": {"ownerReferences": None},
    "label and owner reference": {"labels": {CREATED_BY: None}, "ownerReferences": None},
    "label and annotations": {
        "labels": {CREATED_BY: None},
        "annotations": {OWNER: None, OWNER_UID: None},
    },
}


@pytest.mark.criterion("H-C4")
@pytest.mark.parametrize("loss", LOSSES)
async def test_h_c4_what_lost_its_label_or_owner_is_repaired(
    harness: NodeSetHarness, place: Place, loss: str
) -> None:
    await place.apply(place.node_set(replicas=1))
    await place.settled()
    await harness.idle()
    before = {kind: (await place.object(*what))["metadata"]["uid"] for kind, what in ALL.items()}
    key = (await place.object(SECRET, "hub-0-node-key"))["data"]
    began = harness.mark()
    for what in ALL.values():
        await change(place, *what, **LOSSES[loss])
    for kind, what in ALL.items():
        found = await place.until_object(*what, is_whole)
        assert found["metadata"]["uid"] == before[kind], f"{kind} is the same object"
    await place.settled()
    await harness.idle()
    assert (await place.object(SECRET, "hub-0-node-key"))["data"] == key
    assert {item.verb for item in place.writes(began)} <= {"apply", "patch", "create"}
    assert place.deletions(began) == []


@pytest.mark.criterion("H-C4")
async def test_h_c4_a_grown_disk_that_lost_its_label_is_the_sets(
    harness: NodeSetHarness, place: Place
) -> None:
    """Neither a source that is not there, nor a size above the template's, is in the way."""
    template = {"autoDataSource": {"volumeSnapshotSelector": {"no": "such"}}}
    await place.apply(place.node_set(replicas=1))
    await place.settled()
    grown = {"spec": {"resources": {"requests": {"storage": "3Gi"}}}}
    await place.client.patch(
        CLAIM, "pvc-hub-0", grown, namespace=place.namespace, field_manager="people"
    )
    await place.edit(volumeClaimTemplate=template)
    await place.settled()
    await harness.idle()
    uid = (await place.object(CLAIM, "pvc-hub-0"))["metadata"]["uid"]
    for metadata in (LOSSES["label"], LOSSES["label and owner reference"]):
        await change(place, CLAIM, "pvc-hub-0", **metadata)
        found = await place.until_object(CLAIM, "pvc-hub-0", is_whole)
        assert found["metadata"]["uid"] == uid
        assert found["spec"]["resources"]["requests"]["storage"] == "3Gi"
        await place.settled()


@pytest.mark.criterion("H-C4")
async def test_h_c4_a_set_that_is_made_again_takes_over_its_pods_and_grown_disks(
    harness: NodeSetHarness, place: Place
) -> None:
    manifest = place.node_set()
    await place.apply(manifest)
    first = await place.settled()
    grown = {"spec": {"resources": {"requests": {"storage": "3Gi"}}}}
    await place.client.patch(
        CLAIM, "pvc-hub-1", grown, namespace=place.namespace, field_manager="people"
    )
    await harness.idle()
    running = await place.uids()
    disks = {
        item["metadata"]["name"]: item["metadata"]["uid"]
        for item in await place.client.list(CLAIM, place.namespace)
    }
    began = harness.mark()
    await place.client.delete(CosmosFullNode, NAME, namespace=place.namespace, propagation="Orphan")
    await place.gone()
    await place.until_object(
        POD, "hub-0", lambda item: item is not None and not item["metadata"].get("ownerReferences")
    )
    await place.until_object(
        CLAIM,
        "pvc-hub-1",
        lambda item: item is not None and not item["metadata"].get("ownerReferences"),
    )
    await place.apply(manifest)
    again = await place.settled()
    assert again.metadata.uid != first.metadata.uid
    assert set(again.status.sync) == set(pods(range(3))), "adopted Pods are polled"
    assert await place.uids() == running, "no Pod was restarted"
    assert {
        item["metadata"]["name"]: item["metadata"]["uid"]
        for item in await place.client.list(CLAIM, place.namespace)
    } == disks
    found = await place.object(CLAIM, "pvc-hub-1")
    assert found["spec"]["resources"]["requests"]["storage"] == "3Gi"
    assert is_whole(found)
    await place.until_object(
        BUDGET,
        NAME,
        lambda item: item is not None and bool(item["metadata"].get("ownerReferences")),
    )
    assert place.deletions(began) == []
    assert place.deletions(began, "persistentvolumeclaims") == []


@pytest.mark.criterion("H-C4")
async def test_h_c4_a_copy_of_a_disk_is_left_alone(harness: NodeSetHarness, place: Place) -> None:
    """A backup copy has the annotations and labels too; its name is none of the set's."""
    await place.apply(place.node_set(replicas=1))
    await place.settled()
    copy = await place.object(CLAIM, "pvc-hub-0")
    metadata: dict[str, Any] = {key: copy["metadata"][key] for key in ("labels", "annotations")}
    metadata |= {"name": "pvc-hub-0-backup", "namespace": place.namespace}
    spec = {key: value for key, value in copy["spec"].items() if key != "volumeName"}
    await place.client.create({**copy, "metadata": metadata, "spec": spec, "status": {}})
    await place.edit(replicas=0, volumeRetentionPolicy="Delete", deletionProtection=False)
    await place.until_object(CLAIM, "pvc-hub-0", lambda claim: claim is None)
    await harness.idle()
    assert await place.names(CLAIM) == ["pvc-hub-0-backup"]


@pytest.mark.criterion("H-C4")
async def test_h_c4_a_foreign_disk_is_left_and_can_be_handed_over(
    harness: NodeSetHarness, place: Place
) -> None:
    """The message says how the set takes it over, and never to delete it."""
    claim: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "pvc-hub-0", "namespace": place.namespace},
        "spec": {
            "storageClassName": "standard",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "5Gi"}},
        },
    }
    uid = (await place.client.create(claim))["metadata"]["uid"]
    await place.apply(place.node_set(replicas=1))
    found = await place.phase("Error")
    message = found.status.status
    assert "pvc-hub-0 is left as it is" in message
    assert "delete" not in message
    key = message.partition(f"{OWNER}=")[2].split()[0]
    await change(place, CLAIM, "pvc-hub-0", annotations={OWNER: key})
    await place.settled()
    found = await place.until_object(CLAIM, "pvc-hub-0", is_whole)
    assert found["metadata"]["uid"] == uid
    assert found["spec"]["resources"]["requests"]["storage"] == "5Gi"


ROOT = Path(__file__).parents[3]
WRITTEN = ("docs/cosmos.md", "docs/runbooks", "config", "internal/cosmos", "apis/cosmos")
DISKS = ("claim", "pvc", "disk", "persistentvolume")


def _texts(places: Iterable[str]) -> Iterable[tuple[Path, int, str]]:
    for place in places:
        root = ROOT / place
        for path in [root] if root.is_file() else sorted(root.rglob("*")):
            if path.suffix in (".md", ".yaml", ".py"):
                lines = path.read_text().splitlines()
                for number in range(len(lines)):
                    yield path, number + 1, " ".join(lines[number : number + 2]).lower()


@pytest.mark.criterion("H-C4")
async def test_h_c4_no_text_advises_to_delete_a_disk() -> None:
    """An imperative `delete` (or rename, remove) whose object is a claim, in messages, documents and runbooks."""
    advice = [
        f"{verb} {article}{disk}"
        for verb in ("delete", "remove", "rename")
        for article in ("", "the ", "its ", "a ", "this ", "that ", "old ")
        for disk in DISKS
    ]
    advice += ["kubectl delete pvc", "delete what is in the way", "rename or delete"]
    meant = ("deletes", "never", "delete the claims nobody")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {text.strip()[:140]}"
        for path, number, text in _texts(WRITTEN)
        if any(each in text for each in advice) and not any(each in text for each in meant)
    ]
    assert found == []


@pytest.mark.criterion("H-C6")
async def test_h_c6_services_of_nodes_that_are_gone_go_with_them(
    harness: NodeSetHarness, place: Place
) -> None:
    service = {"maxP2PExternalAddresses": 3, "p2pTemplate": {"type": "NodePort"}}
    overrides = {"hub-0": {"disable": "Pod"}}
    await place.apply(place.node_set(type="Sentry", service=service, instanceOverrides=overrides))
    await place.until(lambda found: found.status.replicas == 2)
    await place.until_object(SERVICE, "hub-privval-2", lambda found: found is not None)
    foreign = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "hub-p2p-9",
            "namespace": place.namespace,
            "labels": {CREATED_BY: "cosmos-manager"},
        },
        "spec": {"ports": [{"port": 80}]},
    }
    await place.client.create(foreign)
    await place.client.patch_scale(CosmosFullNode, NAME, 1, namespace=place.namespace)
    for name in ("hub-p2p-1", "hub-privval-1", "hub-p2p-2", "hub-privval-2"):
        await place.until_object(SERVICE, name, lambda found: found is None)
    await harness.idle()
    assert await place.names(SERVICE) == ["hub-p2p-0", "hub-p2p-9", "hub-privval-0", "hub-rpc"]
    await place.edit(type="FullNode")
    await place.until_object(SERVICE, "hub-privval-0", lambda found: found is None)


@pytest.mark.criterion("H-C6")
@pytest.mark.parametrize("policy", [None, "Retain", "Delete"])
async def test_h_c6_scaling_to_zero_keeps_all_disks_unless_the_policy_differs(
    harness: NodeSetHarness, place: Place, policy: str | None
) -> None:
    given = {} if policy is None else {"volumeRetentionPolicy": policy}
    await place.apply(place.node_set(replicas=2, **given))
    await place.settled()
    before = {
        item["metadata"]["name"]: item["metadata"]["uid"]
        for item in await place.client.list(CLAIM, place.namespace)
    }
    await place.client.patch_scale(CosmosFullNode, NAME, 0, namespace=place.namespace)
    await place.settled()
    await place.until_object(POD, "hub-0", lambda found: found is None)
    if policy == "Delete":
        await place.until(lambda found: find_condition(found.status.conditions, HELD) is not None)
        assert await place.names(CLAIM) == sorted(before), "both at once wait for an approval"
        await place.edit(deletionProtection=False, deletions={"maxPercent": 100, "maxWithState": 2})
        for name in before:
            await place.until_object(CLAIM, name, lambda found: found is None)
        return
    await harness.idle()
    assert await place.names(CLAIM) == sorted(before)
    await place.client.patch_scale(CosmosFullNode, NAME, 2, namespace=place.namespace)
    await place.settled()
    after = await place.client.list(CLAIM, place.namespace)
    assert {item["metadata"]["name"]: item["metadata"]["uid"] for item in after} == before


@pytest.mark.criterion("H-C6")
async def test_h_c6_scaling_down_above_zero_deletes_disks_as_before(place: Place) -> None:
    await place.apply(place.node_set(replicas=2))
    await place.settled()
    await place.client.patch_scale(CosmosFullNode, NAME, 1, namespace=place.namespace)
    await place.until_object(CLAIM, "pvc-hub-1", lambda found: found is None)
    assert await place.names(CLAIM) == ["pvc-hub-0"]
