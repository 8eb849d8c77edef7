"""The one write of a pass: the status of an object, only on difference, only on what was read."""

from typing import Any

from apis.cloud import TaskStatus
from ctrlruntime.api import Resource
from ctrlruntime.cache.cached import CachedClient
from ctrlruntime.client.errors import Conflict
from internal.cloud.marks import FIELD_MANAGER
from internal.cloud.records import Records, news


async def write_status(
    client: CachedClient, resource: Resource[Any, TaskStatus], after: TaskStatus
) -> bool:
    """Bring the status to `after`. False if the object is not what was read any more.

    The patch names the version that the decision rests on, so that nothing is decided on a state
    older than the last write of anybody. After a refusal the cache is brought up to date.
    """
    changed = news(resource.status, after)
    if not changed:
        return True
    mapping, metadata = type(resource).mapping(), resource.metadata
    condition = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
    try:
        return await Records(client, FIELD_MANAGER).patch_status(
            mapping, metadata.name, metadata.namespace, condition, changed
        )
    except Conflict:
        await client.cache.refresh(mapping, metadata.name, metadata.namespace)
        return False


async def let_go(client: CachedClient, resource: Resource[Any, TaskStatus], finalizer: str) -> None:
    """Take a finalizer off, if the object is still the one that was read."""
    mapping, metadata = type(resource).mapping(), resource.metadata
    entry = client.cache.entry(mapping, metadata.name or "", metadata.namespace)
    if entry is not None and entry.uid == metadata.uid:
        await Records(client, FIELD_MANAGER).remove_finalizer(mapping, entry, finalizer)
