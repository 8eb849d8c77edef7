"""The sample sets of nodes, and others made of them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from apis.cosmos import CosmosFullNode
from ctrlruntime.json import Json
from internal.cosmos.fullnode.metadata import node_ordinals
from internal.cosmos.fullnode.node_key import NodeKey
from internal.cosmos.labels import p2p_service_name, pod_name

SAMPLES = Path(__file__).parents[3] / "config" / "samples"
NAMES = tuple(sorted(path.stem for path in SAMPLES.glob("cosmosfullnode*.yaml")))
SIDECAR = "registry.example.com/sidecar:v1"


def sample(name: str = "cosmosfullnode", namespace: str = "chains") -> CosmosFullNode:
    """One of them, as the server would hand it out."""
    manifest = yaml.safe_load((SAMPLES / f"{name}.yaml").read_text())
    manifest["metadata"]["namespace"] = namespace
    return CosmosFullNode.from_manifest(manifest)


def node_set(**changes: Json) -> CosmosFullNode:
    """A small set with `changes` to its spec: `chain__app__haltHeight=5` goes into nested objects."""
    spec: dict[str, Any] = {
        "replicas": 2,
        "chain": {
            "chainID": "test-1",
            "network": "testnet",
            "binary": "chaind",
            "app": {"minGasPrice": "0.1utest"},
        },
        "podTemplate": {"image": "registry.example.com/chain:v1"},
        "volumeClaimTemplate": {
            "storageClassName": "standard",
            "resources": {"requests": {"storage": "10Gi"}},
        },
    }
    status: dict[str, Any] = changes.pop("status", {})
    name: str = changes.pop("name", "test")
    for path, value in changes.items():
        *parents, last = path.split("__")
        place = spec
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    metadata = {"name": name, "namespace": "chains"}
    return CosmosFullNode.from_manifest({"metadata": metadata, "spec": spec, "status": status})


def key(number: int) -> NodeKey:
    """A key that is always the same."""
    return NodeKey.of(Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32))


def keys_of(nodes: CosmosFullNode) -> dict[str, NodeKey]:
    """Such a key for each node."""
    name = nodes.metadata.name or ""
    return {pod_name(name, ordinal): key(ordinal) for ordinal in node_ordinals(nodes)}


def balanced(nodes: CosmosFullNode, ordinal: int, **ingress: str) -> dict[str, Any]:
    """The Service of a node, with the address that a load balancer gave it."""
    return {
        "metadata": {"name": p2p_service_name(nodes.metadata.name or "", ordinal)},
        "spec": {"type": "LoadBalancer", "ports": [{"name": "p2p", "port": 26656}]},
        "status": {"loadBalancer": {"ingress": [ingress] if ingress else []}},
    }


def decoded(secret: dict[str, Any], name: str) -> str:
    """A text in a Secret."""
    return base64.b64decode(secret["data"][name]).decode()
