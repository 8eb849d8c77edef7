"""A client for plans: its writes are dry runs, and it sends no other."""

from __future__ import annotations

from typing import Any, Final

from ctrlruntime.api import GroupVersionKind, Manifest, Resource
from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.client import Client, NotFound
from ctrlruntime.client.call import Call, Execute
from ctrlruntime.client.transport import Response
from ctrlruntime.resources.change_plan import PlanError

SYNC_TIMEOUT: Final = 120.0
"""Seconds for the first lists."""


def without_writes(client: Client) -> Client:
    """Return a client whose writes are dry runs, and that sends no other."""

    async def check(call: Call, execute: Execute) -> Response:
        if call.is_write and not call.is_dry_run:
            raise PlanError(f"a plan writes nothing: {call.verb} {call.name}")
        return await execute(call)

    return client.dry_run().intercepted(check)


async def as_stored(client: Client, resource: Resource[Any, Any], namespace: str) -> Entry:
    """Return an object as the server would store it: sent as a dry run. Raises the client's errors.

    Labels and annotations that exist and are not given are kept, and so is the status.
    """
    manifest: Manifest = resource.to_manifest()
    name, mapping = resource.metadata.name or "", resource.mapping()
    manifest["metadata"] = {**manifest["metadata"], "namespace": namespace}
    try:
        live: Manifest = await client.get(mapping, name, namespace=namespace)
    except NotFound:
        answer: Manifest = await client.create(manifest)
    else:
        metadata = {**live["metadata"]}
        for part in ("labels", "annotations"):
            given = manifest["metadata"].get(part) or {}
            if together := {**(metadata.get(part) or {}), **given}:
                metadata[part] = together
        answer = await client.update({**manifest, "metadata": metadata})
    return EntryDecoder(GroupVersionKind.of(answer)).decode_manifest(answer)
