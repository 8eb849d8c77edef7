"""Tests that take names of the shared real server for themselves leave it as they found it."""

from __future__ import annotations

import asyncio
from typing import Any

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import NoKindMatch, NotFound

_NAMESPACES = ("default", "kube-public")
_ITS_OWN = {"kube-root-ca.crt", "cluster-info", "kubernetes", "default"}
_SWEPT = (
    GroupVersionKind("apps", "v1", "Deployment"),
    GroupVersionKind("", "v1", "ConfigMap"),
    GroupVersionKind("", "v1", "Secret"),
    GroupVersionKind("", "v1", "Pod"),
    GroupVersionKind("", "v1", "ServiceAccount"),
    GroupVersionKind("client.example.com", "v1", "Widget"),
    GroupVersionKind("kopf.dev", "v1", "KopfExample"),
)


async def sweep(config: Config) -> None:
    """Remove what a test made in the namespaces `default` and `kube-public`, finalizers or not."""
    async with Client.connect(config) as client:
        for namespace in _NAMESPACES:
            await asyncio.gather(*(_sweep(client, kind, namespace) for kind in _SWEPT))


async def _sweep(client: Client, kind: GroupVersionKind, namespace: str) -> None:
    try:
        found = await client.list(kind, namespace, metadata_only=True)
    except (NoKindMatch, NotFound):
        return
    await asyncio.gather(*(_remove(client, kind, item["metadata"]) for item in found))


async def _remove(client: Client, kind: GroupVersionKind, metadata: dict[str, Any]) -> None:
    name, namespace = metadata["name"], metadata["namespace"]
    if name in _ITS_OWN or name.startswith("default-token-"):
        return
    try:
        if metadata.get("finalizers"):
            await client.patch(kind, name, {"metadata": {"finalizers": None}}, namespace=namespace)
        await client.delete(
            kind, name, namespace=namespace, grace_period=0, propagation="Background"
        )
    except NotFound:
        return
