"""The API server takes what is built, with every field that it knows of."""

from __future__ import annotations

from typing import Any

from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import APIError
from internal.cosmos.labels import FIELD_MANAGER

from .golden import built
from .samples import NAMES, node_set, sample

PLACE = "default"
EVERYTHING: dict[str, Any] = {
    "type": "Sentry",
    "podTemplate__affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {}}}
            ]
        }
    },
    "podTemplate__metadata": {"labels": {"a b" * 40: "c d" * 40}},
    "podTemplate__volumes": [{"name": "vol-tmp", "emptyDir": {"medium": "Memory"}}],
    "chain__network": "a network, and more of it " * 5,
    "service": {"p2pTemplate": {"type": "NodePort", "ports": [{"name": "more", "port": 7}]}},
    "name": "n0." + "very-long-name." * 10 + "end",
}


async def test_every_object_is_valid(api_config: Config) -> None:
    """Made as a dry run, in the order that they would be made in; unknown fields are refused."""
    nodes = [sample(name, PLACE) for name in NAMES]
    odd = node_set(**EVERYTHING)
    odd.metadata.namespace = PLACE
    refused = []
    async with Client.connect(api_config) as client:
        strict = client.field_owner(FIELD_MANAGER).field_validation("Strict")
        for item in [item for each in (*nodes, odd) for item in built(each)]:
            try:
                # Pods are refused while there is no account for them.
                dry = item.mapping.gvk.kind != "ServiceAccount"
                await strict.create(item.manifest, kind=item.mapping, dry_run=dry)
            except APIError as error:
                refused.append(f"{item.key}: {error}")
    assert refused == []
