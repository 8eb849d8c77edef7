"""The one write of a pass: the status of an object, only on difference, only on what was read."""

from typing import Any

from apis.cloud import TaskStatus
from ctrlruntime.api import Resource
from ctrlruntime.cache.cached import CachedClient
from ctrlruntime.client.client import PatchType
from ctrlruntime.client.errors import Conflict, NotFound
from ctrlruntime.client.patches import difference
from internal.cloud.marks import FIELD_MANAGER
from internal.cloud.records import Records
from internal.cloud.sparing import sparing


async def write_status(
    client: CachedClient, resource: Resource[Any, TaskStatus], after: TaskStatus
) -> bool:
    """Bring the status to `after`. False if the object is not what was read any more.

    The patch names the version that the decision rests on, so that nothing is decided on a state
    older than the last write of anybody. After a refusal the cache is brought up to date.
    """
    changed = difference(sparing(resource.status), sparing(after))
    if not changed:
        return True
    metadata = resource.metadata
    name, namespace = metadata.name or "", metadata.namespace
    condition = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
    try:
        await client.patch(
            type(resource),
            name,
            namespace,
            {"metadata": condition, "status": changed},
            type=PatchType.MERGE,
            subresource="status",
            field_manager=FIELD_MANAGER,
        )
    except Conflict:
        await client.cache.refresh(type(resource).mapping(), name, namespace)
        return False
    except NotFound:
        return False
    return True


async def let_go(client: CachedClient, resource: Resource[Any, TaskStatus], finalizer: str) -> None:
    """Take a finalizer off, if the object is still the one that was read."""
    mapping, metadata = type(resource).mapping(), resource.metadata
    entry = client.cache.entry(mapping, metadata.name or "", metadata.namespace)
    if entry is not None and entry.uid == metadata.uid:
        await Records(client, FIELD_MANAGER).remove_finalizer(mapping, entry, finalizer)
