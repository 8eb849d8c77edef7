"""Webhook configurations for a webhook server that runs on this machine, outside of any cluster."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

from ctrlruntime.api import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import AlreadyExists, NotFound
from ctrlruntime.envtest.crds import CRD, load_documents

Manifest = dict[str, Any]
ConfigurationSource = Path | str | Manifest

_KINDS: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def point_at(manifest: Manifest, url: str, ca_data: bytes) -> Manifest:
    """Return a copy whose hooks are called at `url`, each on the path it had; other objects as they are.

    Takes webhook configurations and CustomResourceDefinitions with a conversion webhook.
    """
    changed = deepcopy(manifest)
    for holder in _client_configs(changed):
        given = holder.get("clientConfig") or {}
        path = (given.get("service") or {}).get("path") or ""
        bundle = base64.b64encode(ca_data).decode()
        holder["clientConfig"] = {"url": url.rstrip("/") + path, "caBundle": bundle}
    return changed


def _client_configs(manifest: Manifest) -> Iterator[Manifest]:
    """Whatever has a `clientConfig`."""
    if manifest.get("kind") in _KINDS:
        yield from manifest.get("webhooks") or ()
    elif manifest.get("kind") == CRD.kind:
        conversion = manifest["spec"].get("conversion") or {}
        if conversion.get("strategy") == "Webhook":
            yield conversion.setdefault("webhook", {"conversionReviewVersions": ["v1"]})


async def install_webhooks(
    client: Client, sources: Iterable[ConfigurationSource], *, url: str, ca_data: bytes
) -> None:
    """Create or replace the configurations, pointed at `url`."""
    for manifest in _load(sources):
        wanted = point_at(manifest, url, ca_data)
        try:
            await client.create(wanted)
        except AlreadyExists:
            kind, name = GroupVersionKind.of(wanted), wanted["metadata"]["name"]
            live = await client.get(kind, name)
            wanted["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
            await client.update(wanted)


async def uninstall_webhooks(client: Client, sources: Iterable[ConfigurationSource]) -> None:
    """Delete the configurations that are there."""
    for manifest in _load(sources):
        try:
            await client.delete(GroupVersionKind.of(manifest), manifest["metadata"]["name"])
        except NotFound:
            continue


def _load(sources: Iterable[ConfigurationSource]) -> Iterator[Manifest]:
    for source in sources:
        documents = [source] if isinstance(source, dict) else list(load_documents(Path(source)))
        found = [document for document in documents if document.get("kind") in _KINDS]
        if not found:
            raise ValueError(f"{source} holds no webhook configuration")
        yield from found
