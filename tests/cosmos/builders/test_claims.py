"""Claims: every field of their template, and what decides on their size and content."""

from __future__ import annotations

from typing import Any

import pytest

from apis.cosmos import CosmosFullNode
from internal.cosmos import labels as label_keys
from internal.cosmos.fullnode.pvc_builder import build_claims, claim_template, has_claim
from internal.cosmos.workload.claims import Claim, Source

from .samples import node_set

STORAGE = {"requests": {"storage": "10Gi"}}


def claims(**changes: object) -> list[Claim]:
    return build_claims(node_set(**changes))


def spec(**template: object) -> dict[str, Any]:
    given = {"storageClassName": "standard", "resources": STORAGE, **template}
    made: dict[str, Any] = claims(volumeClaimTemplate=given)[0].desired.manifest["spec"]
    return made


def test_each_node_has_one() -> None:
    made = claims(replicas=2, ordinals={"start": 3})
    assert [each.desired.name for each in made] == ["pvc-test-3", "pvc-test-4"]
    assert [each.desired.instance for each in made] == [3, 4]
    assert made[0].desired.manifest["metadata"]["labels"][label_keys.INSTANCE] == "test-3"


@pytest.mark.parametrize(
    ("field", "value", "usual"),
    [
        ("storageClassName", "fast", "standard"),
        ("resources", {"requests": {"storage": "7Ti"}}, STORAGE),
        ("accessModes", ["ReadWriteMany"], ["ReadWriteOnce"]),
        ("volumeMode", "Block", "Filesystem"),
    ],
)
def test_each_field_of_the_template(field: str, value: object, usual: object) -> None:
    assert spec()[field] == usual
    assert spec(**{field: value})[field] == value


def test_labels_and_annotations() -> None:
    given = {
        "storageClassName": "a",
        "resources": STORAGE,
        "metadata": {"labels": {"team": "a", label_keys.NAME: "no"}, "annotations": {"b": "c"}},
    }
    made = claims(volumeClaimTemplate=given)[0].desired.manifest["metadata"]
    assert made["labels"]["team"] == "a"
    assert made["labels"][label_keys.NAME] == "test"
    assert made["annotations"] == {"b": "c"}


@pytest.mark.parametrize(
    "source",
    [
        {"dataSource": {"kind": "PersistentVolumeClaim", "name": "other"}},
        {"autoDataSource": {"volumeSnapshotSelector": {"a": "b"}, "matchInstance": True}},
    ],
)
def test_what_a_claim_is_filled_from_is_no_part_of_it(source: dict[str, Any]) -> None:
    template = {"storageClassName": "standard", "resources": STORAGE}
    one, two = (
        claims(volumeClaimTemplate=each)[0].desired for each in (template, {**template, **source})
    )
    assert (one.revision, one.inputs) == (two.revision, two.inputs)
    assert "dataSource" not in two.manifest["spec"]
    found = claim_template(node_set(volumeClaimTemplate={**template, **source}), 0)
    assert found.data_source or found.auto_data_source


def test_sources_and_waits_are_handed_on_by_name() -> None:
    source = Source({"kind": "VolumeSnapshot", "name": "s"}, "5Gi")
    first, second = build_claims(node_set(), {"pvc-test-0": source}, {"pvc-test-1": "no snapshot"})
    assert first.source is source
    assert first.waiting == ""
    assert second.source is None
    assert second.waiting == "no snapshot"


def test_a_request_to_grow_is_handed_on_with_its_limit() -> None:
    request = {"requestedSize": "20Gi", "requestedAt": "2026-01-01T00:00:00Z"}
    status = {"selfHealing": {"pvcAutoScaler": {"pvc-test-1": request}}}
    scale = {"usedSpacePercentage": 80, "increaseQuantity": "20%", "maxSize": "30Gi"}
    first, second = claims(status=status, selfHeal={"pvcAutoScale": scale})
    assert first.scaled is None
    assert second.scaled == "20Gi"
    assert second.max_size == "30Gi"
    unlimited = claims(status=status)[1]
    assert unlimited.scaled == "20Gi"
    assert unlimited.max_size is None


def test_a_node_may_have_a_claim_of_its_own() -> None:
    own = {"storageClassName": "archive", "resources": {"requests": {"storage": "1Ti"}}}
    usual, other = claims(instanceOverrides={"test-1": {"volumeClaimTemplate": own}})
    assert usual.desired.manifest["spec"]["storageClassName"] == "standard"
    assert other.desired.manifest["spec"]["storageClassName"] == "archive"
    assert other.desired.manifest["spec"]["resources"] == own["resources"]


@pytest.mark.parametrize(("disable", "kept"), [("Pod", 2), ("All", 1)])
def test_a_disabled_node_keeps_its_disk_unless_all_of_it_is(disable: str, kept: int) -> None:
    nodes: CosmosFullNode = node_set(instanceOverrides={"test-0": {"disable": disable}})
    assert len(build_claims(nodes)) == kept
    assert has_claim(nodes, 0) is (disable == "Pod")


@pytest.mark.criterion("COSMOS-A2-23")
def test_a_paused_node_keeps_its_disk() -> None:
    status = {"scheduledSnapshotStatus": {"key": {"podCandidate": "test-1"}}}
    assert len(claims(status=status)) == 2
