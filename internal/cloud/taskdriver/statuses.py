"""The one write of a pass: the status of an object, only on difference, only on what was read."""

from typing import Any

from apis.cloud import TaskStatus
from ctrlruntime.api import Resource
from ctrlruntime.cache.cached import CachedClient
from ctrlruntime.client.client import PatchType
from ctrlruntime.client.errors import Conflict, NotFound
from ctrlruntime.client.patches import difference
from internal.cloud.marks import FIELD_MANAGER


async def write_status(
    client: CachedClient, resource: Resource[Any, TaskStatus], after: TaskStatus
) -> bool:
    """Bring the status to `after`. False if the object is not what was read any more.

    The patch names the version that the decision rests on, so that nothing is decided on a state
    older than the last write of anybody. After a refusal the cache is brought up to date.
    """
    before = resource.status.to_wire(exclude_unset=False)
    changed = difference(before, after.to_wire(exclude_unset=False))
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
    """Take one finalizer off, guarded by a test, so that no other can be lost by it."""
    finalizers = list(resource.metadata.finalizers or ())
    if finalizer not in finalizers:
        return
    path = f"/metadata/finalizers/{finalizers.index(finalizer)}"
    operations: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/uid", "value": resource.metadata.uid},
        {"op": "test", "path": path, "value": finalizer},
        {"op": "remove", "path": path},
    ]
    await _patch_finalizers(client, resource, operations)


async def take_hold(
    client: CachedClient, resource: Resource[Any, TaskStatus], finalizer: str
) -> None:
    """Put one finalizer on, guarded by a test of what was there."""
    before = list(resource.metadata.finalizers or ())
    operations: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/uid", "value": resource.metadata.uid},
        {"op": "add", "path": "/metadata/finalizers", "value": [*before, finalizer]},
    ]
    if before:
        operations.insert(1, {"op": "test", "path": "/metadata/finalizers", "value": before})
    await _patch_finalizers(client, resource, operations)


async def _patch_finalizers(
    client: CachedClient, resource: Resource[Any, TaskStatus], operations: list[dict[str, Any]]
) -> None:
    metadata = resource.metadata
    try:
        await client.patch(
            type(resource),
            metadata.name or "",
            metadata.namespace,
            operations,
            type=PatchType.JSON,
            field_manager=FIELD_MANAGER,
        )
    except NotFound:
        return
