"""Versions by height: which image, for which containers."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Any

import pytest

from internal.cosmos import labels as label_keys
from internal.cosmos.fullnode.additional_pod_builder import build_additional_pods
from internal.cosmos.fullnode.versions import image_at
from internal.cosmos.invalid import InvalidSpec
from tests.support.counted_lines import lines

from .samples import node_set
from .test_pods import container, pod, pods

VERSIONS = [
    {"height": 10, "image": "chain:v1"},
    {
        "height": 200,
        "image": "chain:v2",
        "containers": {"indexer": "indexer:v2", "beside": "beside:v2"},
        "initContainers": {"config-merge": "tools:v2"},
    },
]


@pytest.mark.parametrize(
    ("height", "image"),
    [
        (None, "registry.example.com/chain:v1"),
        (9, "registry.example.com/chain:v1"),
        (10, "chain:v1"),
        (199, "chain:v1"),
        (200, "chain:v2"),
        (10**12, "chain:v2"),
    ],
)
@pytest.mark.parametrize("reverse", [False, True])
def test_the_last_version_whose_height_is_reached(
    height: int | None, image: str, reverse: bool
) -> None:
    status: dict[str, Any] = {} if height is None else {"height": {"test-0": height}}
    versions = VERSIONS[::-1] if reverse else VERSIONS
    made = pod(node_set(chain__versions=versions, status=status))
    assert container(made["spec"], "node")["image"] == image
    assert container(made["spec"], "chain-init", "initContainers")["image"] == image
    assert made["metadata"]["labels"][label_keys.VERSION] == image.rpartition(":")[2]
    assert image_at(node_set(chain__versions=versions), "test-0", height or 0) == image


@pytest.mark.criterion("COSMOS-A2-22")
def test_each_node_has_the_version_of_its_own_height() -> None:
    status = {"height": {"test-0": 200, "test-1": 11}}
    made = pods(node_set(chain__versions=VERSIONS, status=status))
    images = [container(item.manifest["spec"], "node")["image"] for item in made]
    assert images == ["chain:v2", "chain:v1"]


def test_a_height_that_wants_the_same_version_changes_nothing() -> None:
    one, two = (
        pods(node_set(chain__versions=VERSIONS, status={"height": {"test-0": height}}))[0]
        for height in (20, 199)
    )
    assert (one.revision, one.inputs) == (two.revision, two.inputs)


def test_a_version_may_name_images_of_further_containers() -> None:
    beside = [{"name": "beside", "image": "beside:v1"}]
    for height, images in ((50, ("beside:v1", None)), (200, ("beside:v2", "tools:v2"))):
        nodes = node_set(
            chain__versions=VERSIONS,
            podTemplate__containers=beside,
            status={"height": {"test-0": height}},
        )
        made = pod(nodes)["spec"]
        assert container(made, "beside")["image"] == images[0]
        if images[1]:
            assert container(made, "config-merge", "initContainers")["image"] == images[1]


@pytest.mark.criterion("COSMOS-A2-22")
def test_an_image_of_the_node_goes_before_its_version() -> None:
    override = {"test-0": {"image": "debug:v9"}}
    nodes = node_set(chain__versions=VERSIONS, instanceOverrides=override)
    assert container(pod(nodes)["spec"], "node")["image"] == "debug:v9"
    assert image_at(nodes, "test-0", 500) == "debug:v9"


def test_the_check_finds_the_image_that_its_own_pod_has() -> None:
    nodes = node_set(chain__versions=VERSIONS, status={"height": {"test-0": 200}})
    made = pod(nodes)["spec"]
    for name, place in (
        ("version-check", "initContainers"),
        ("version-check-interval", "containers"),
    ):
        arguments = container(made, name, place)["args"]
        assert "--image=chain:v2" in arguments
        assert "--pod=test-0" in arguments
        assert "--namespace=chains" in arguments
        assert "--node-set=test" in arguments
        assert ("--once" in arguments) is (name == "version-check")


ADDITIONAL = [
    {
        "name": "indexer",
        "metadata": {"labels": {"team": "data"}, "annotations": {"a": "b"}},
        "spec": {"containers": [{"name": "indexer", "image": "indexer:v1"}]},
        "preferSameNode": True,
    },
    {"name": "plain", "spec": {"containers": [{"name": "plain", "image": "plain:v1"}]}},
]


@pytest.mark.criterion("COSMOS-A2-27")
def test_pods_beside_the_nodes() -> None:
    made = [*build_additional_pods(node_set(additionalVersionedPods=ADDITIONAL))]
    assert [item.name for item in made] == ["indexer-0", "plain-0", "indexer-1", "plain-1"]
    assert [item.instance for item in made] == [0, 0, 1, 1]
    assert [item.ordinal for item in made] == sorted(item.ordinal for item in made)
    first = made[0].manifest["metadata"]
    assert first["labels"][label_keys.BELONGS_TO] == "test-0"
    assert first["labels"][label_keys.INSTANCE] == "indexer-0"
    assert first["labels"][label_keys.NAME] == "test"
    assert first["labels"][label_keys.COMPONENT] != "CosmosFullNode"
    assert first["labels"]["team"] == "data"
    assert first["annotations"] == {"a": "b"}


def test_the_fields_of_their_spec_may_stand_beside_the_name() -> None:
    spec = {
        "containers": [{"name": "indexer", "image": "indexer:v1"}],
        "hostNetwork": True,
        "volumes": [{"name": "data", "emptyDir": {}}],
    }
    beside = [{"name": "indexer", "preferSameNode": True, **spec}]
    below = [{"name": "indexer", "preferSameNode": True, "spec": spec}]
    made, wanted = (
        [*build_additional_pods(node_set(additionalVersionedPods=pods))] for pods in (beside, below)
    )
    assert [item.manifest["spec"] for item in made] == [item.manifest["spec"] for item in wanted]
    assert made[0].manifest["spec"]["hostNetwork"] is True
    with pytest.raises(InvalidSpec, match=r"additionalVersionedPods\[0\]"):
        build_additional_pods(node_set(additionalVersionedPods=[{"name": "bare"}]))


@pytest.mark.criterion("S-F3")
def test_each_is_built_when_it_is_taken() -> None:
    """200 nodes with 100 each are 20,000: built at once, they were seconds of the loop."""
    many = [
        {"name": f"p{place}", "containers": [{"name": "c", "image": "i"}]} for place in range(100)
    ]
    made = build_additional_pods(node_set(replicas=200, additionalVersionedPods=many))
    assert lines(partial(next, made)) < 5_000


def test_they_are_rather_on_the_machine_of_their_node() -> None:
    near, anywhere = (
        item.manifest["spec"]
        for item in islice(build_additional_pods(node_set(additionalVersionedPods=ADDITIONAL)), 2)
    )
    (term,) = near["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["weight"] == 100
    assert term["podAffinityTerm"] == {
        "labelSelector": {"matchLabels": {label_keys.INSTANCE: "test-0"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    assert "affinity" not in anywhere


@pytest.mark.criterion("COSMOS-A2-27", "COSMOS-A10-486")
def test_they_have_the_version_of_their_node() -> None:
    status = {"height": {"test-1": 200}}
    nodes = node_set(chain__versions=VERSIONS, additionalVersionedPods=ADDITIONAL, status=status)
    images = [
        item.manifest["spec"]["containers"][0]["image"] for item in build_additional_pods(nodes)
    ]
    assert images == ["indexer:v1", "plain:v1", "indexer:v2", "plain:v1"]


@pytest.mark.criterion("COSMOS-A2-27")
def test_they_are_away_while_their_node_is() -> None:
    nodes = node_set(
        replicas=3,
        additionalVersionedPods=ADDITIONAL[:1],
        instanceOverrides={"test-0": {"disable": "Pod"}},
        status={"scheduledSnapshotStatus": {"key": {"podCandidate": "test-1"}}},
    )
    assert [item.name for item in build_additional_pods(nodes)] == ["indexer-2"]
