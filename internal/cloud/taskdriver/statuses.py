"""The one status write of a reconcile: only on difference, only over what was read."""

from typing import Any

from apis.cloud import TaskStatus
from ctrlruntime.api import Resource
from ctrlruntime.api.omit_empty import status_fields
from ctrlruntime.cache.cache import Cache
from ctrlruntime.client.errors import Conflict
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.client.patches import difference


async def write_status(
    patcher: ObjectPatcher, cache: Cache, resource: Resource[Any, TaskStatus], after: TaskStatus
) -> bool:
    """Bring the status to `after`. Return False if the object has changed since it was read.

    The patch carries the version that the decision rests on, so that nothing is decided on a state older
    than the last write of any writer. After a conflict the cache is brought up to date.
    """
    changed = difference(status_fields(resource.status), status_fields(after))
    if not changed:
        return True
    mapping, metadata = type(resource).mapping(), resource.metadata
    name, namespace = metadata.name or "", metadata.namespace or ""
    try:
        return await patcher.patch_status(
            mapping,
            name,
            changed,
            namespace=namespace,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
        )
    except Conflict:
        await cache.refresh(mapping, name, namespace=namespace)
        return False


async def remove_finalizer(
    patcher: ObjectPatcher, cache: Cache, resource: Resource[Any, TaskStatus], finalizer: str
) -> None:
    """Remove a finalizer, if the object is still the one that was read."""
    mapping, metadata = type(resource).mapping(), resource.metadata
    entry = cache.entry(mapping, metadata.name or "", namespace=metadata.namespace)
    if entry is not None and entry.uid == metadata.uid:
        await patcher.remove_finalizer(mapping, entry, finalizer)
