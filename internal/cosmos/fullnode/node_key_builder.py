"""Secrets with the keys of the nodes. Pure but for new keys."""

import base64
from collections.abc import Callable, Mapping
from dataclasses import replace

from apis.cosmos import CosmosFullNode
from ctrlruntime.resources import Desired
from internal.cosmos.fullnode.desired_objects import SECRET, built, inputs_of
from internal.cosmos.fullnode.metadata import default_labels, metadata, named, node_ordinals
from internal.cosmos.fullnode.node_key import FILE, NodeKey
from internal.cosmos.labels import node_key_name, pod_name


def with_missing(
    node_set: CosmosFullNode,
    existing: Mapping[str, NodeKey],
    make: Callable[[], NodeKey] = NodeKey.make,
) -> dict[str, NodeKey]:
    """Return a key for every node of the set, by name of its Pod: the one it has, or else a new one.

    The caller stores new ones before anything else is made with them.
    """
    names = [pod_name(named(node_set), ordinal) for ordinal in node_ordinals(node_set)]
    return {name: existing.get(name) or make() for name in names}


def build_node_keys(node_set: CosmosFullNode, keys: Mapping[str, NodeKey]) -> list[Desired]:
    """One Secret for each node. It is made once and never written again: a node keeps its identity.

    Raises KeyError for a node without key.
    """
    return [_build(node_set, ordinal, keys) for ordinal in node_ordinals(node_set)]


def _build(node_set: CosmosFullNode, ordinal: int, keys: Mapping[str, NodeKey]) -> Desired:
    name = named(node_set)
    key = keys[pod_name(name, ordinal)]
    described = metadata(
        node_set, node_key_name(name, ordinal), default_labels(node_set, ordinal=ordinal)
    )
    secret = built(
        node_set,
        SECRET,
        {
            "metadata": described,
            "type": "Opaque",
            "data": {FILE: base64.b64encode(key.text.encode()).decode()},
        },
        inputs_of(name, ordinal, key.id),
        ordinal=ordinal,
        instance=ordinal,
        once=True,
    )
    # The key is written once; what the Secret is found by is kept.
    return replace(secret, labels=described["labels"])
