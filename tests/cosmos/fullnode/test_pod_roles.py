"""Which Pods are nodes: no label that was changed by hand makes one of the other kind, whose control would delete it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from apis.cosmos import CosmosFullNode
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.entry import Entry, EntryDecoder
from internal.cosmos.fullnode.pod_roles import is_node
from internal.cosmos.labels import ADDITIONAL, BELONGS_TO, COMPONENT
from tests.cosmos.snapshots.harness import node_set

DECODER = EntryDecoder(GroupVersionKind("", "v1", "Pod"))
BESIDE = {BELONGS_TO: "chain-0", COMPONENT: ADDITIONAL}


def pod(name: str, labels: dict[str, str]) -> Entry:
    """A Pod of the set."""
    return DECODER.decode(orjson.dumps({"metadata": {"name": name, "labels": labels}}))


def chain() -> CosmosFullNode:
    """A set with an indexer beside each node."""
    manifest: dict[str, Any] = node_set()
    manifest["metadata"]["name"] = "chain"
    containers = [{"name": "main", "image": "indexer:v1"}]
    beside = {"name": "indexer", "spec": {"containers": containers}}
    manifest["spec"]["additionalVersionedPods"] = [beside]
    return CosmosFullNode.from_manifest(manifest)


@pytest.mark.criterion("H-R3")
@pytest.mark.parametrize("lost", [(BELONGS_TO,), (COMPONENT,), (BELONGS_TO, COMPONENT)])
def test_a_wanted_pod_beside_a_node_stays_one_whatever_label_it_lost(lost: tuple[str, ...]) -> None:
    labels = {key: value for key, value in BESIDE.items() if key not in lost}
    assert not is_node(chain(), pod("indexer-0", labels))


@pytest.mark.criterion("H-R3")
@pytest.mark.parametrize("lost", [BELONGS_TO, COMPONENT])
def test_either_label_is_enough_for_one_that_is_no_longer_wanted(lost: str) -> None:
    labels = {key: value for key, value in BESIDE.items() if key != lost}
    assert not is_node(chain(), pod("former-0", labels))


@pytest.mark.criterion("H-R3")
def test_a_wanted_node_stays_one_with_the_labels_of_the_others() -> None:
    assert is_node(chain(), pod("chain-0", BESIDE))
    assert is_node(chain(), pod("chain-9", {COMPONENT: "CosmosFullNode"}))
