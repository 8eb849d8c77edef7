"""The writes of a pass: one status, on difference only; sensitive outputs in a Secret owned by the object."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apis.cloud import TaskStatus
from ctrlruntime.api import BUILTIN, GroupVersionKind, Manifest, Resource
from ctrlruntime.api.omit_empty import status_fields
from ctrlruntime.cache.cache import Cache
from ctrlruntime.client import AlreadyExists, Client, Conflict, NotFound, difference
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.gate import Cause, Evidence
from ctrlruntime.resources import (
    OWNER,
    OWNER_UID,
    Control,
    Desired,
    Owner,
    RemotePlacement,
    removal_of,
    remove_object,
)
from internal.cloud.labels import FIELD_MANAGER, INSTANCE
from internal.named_secrets import Purpose

SECRET = BUILTIN[GroupVersionKind("", "v1", "Secret")]


class OutputsRefused(Exception):
    """The name of the Secret is taken by one that is not the object's. The message names the remedy."""


def secret_name(object_name: str) -> str:
    """`<object>-outputs`."""
    return f"{object_name}-outputs"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCluster:
    """Where runs execute, and where Secrets with their outputs are."""

    client: Client
    """Live: Secrets are not watched for this."""
    placement: RemotePlacement | None = None
    """The objects that drive the runs are in another cluster; None: in this one."""

    @property
    def data_plane(self) -> str:
        """The id of the data plane that the objects are on; empty: they are in this cluster."""
        return "" if self.placement is None else self.placement.owner_cluster

    def body(self, desired: Desired, owner: Owner) -> Manifest:
        """Return an object as it is written for an owner."""
        placement = self.placement
        return desired.body(owner) if placement is None else placement.body(desired, owner)

    def records(self, owner: Owner) -> dict[str, str]:
        """Return the annotations that name the owner of an object in another cluster than its own."""
        return {} if self.placement is None else self.placement.records(owner)

    def is_recorded(self, found: Manifest, owner: Owner) -> bool:
        """Whether an object of another cluster than its owner's has the owner's key.

        One that has an earlier UID was not collected there when its owner went.
        """
        key = self.records(owner).get(OWNER)
        return key is not None and (found["metadata"].get("annotations") or {}).get(OWNER) == key


async def keep_outputs(
    runs: RunCluster,
    resource: Resource[Any, TaskStatus],
    instance: str,
    outputs: Mapping[str, str],
) -> str:
    """Make the Secret say exactly this. Returns its name, empty if there is nothing to keep.

    Raises OutputsRefused, and what the client raises.
    """
    client = runs.client
    name, namespace = secret_name(resource.metadata.name or ""), resource.metadata.namespace or ""
    try:
        found: Manifest | None = await client.get(SECRET, name, namespace=namespace)
    except NotFound:
        found = None
    if found is not None and not _is_ours(runs, found, resource):
        if not outputs:
            return ""
        raise OutputsRefused(
            f"The Secret {name} exists and belongs to {_holder(found)}; rename or delete it, so that "
            "the outputs can be kept there."
        )
    if not outputs:
        if found is not None:
            await _delete(client, found, Cause.SPEC_CHANGED)
        return ""
    data = {key: base64.b64encode(value.encode()).decode() for key, value in outputs.items()}
    if found is None:
        made = runs.body(_record(resource, instance), Owner.of(resource))
        await _create(client, {**made, "type": "Opaque", "data": data})
        return name
    patch = _changes(found, data, runs.records(Owner.of(resource)))
    if patch is not None:
        await client.patch(SECRET, name, patch, namespace=namespace, field_manager=FIELD_MANAGER)
    return name


def _changes(
    found: Manifest, data: Mapping[str, str], records: Mapping[str, str]
) -> Manifest | None:
    """Return the patch that gives a Secret the data and the records of its owner; None: it has both."""
    before = found.get("data") or {}
    annotations = found["metadata"].get("annotations") or {}
    if before == data and records.items() <= annotations.items():
        return None
    gone = dict.fromkeys(set(before) - set(data))
    metadata = {"uid": found["metadata"]["uid"], "annotations": dict(records)}
    return {"metadata": metadata, "data": {**data, **gone}}


async def has_outputs(runs: RunCluster, resource: Resource[Any, TaskStatus]) -> bool:
    """Return whether the Secret with outputs is there, of this object or of an earlier one of its kind and name.

    Raises what the client raises.
    """
    name, namespace = secret_name(resource.metadata.name or ""), resource.metadata.namespace or ""
    try:
        found = await runs.client.get(SECRET, name, namespace=namespace, metadata_only=True)
    except NotFound:
        return False
    references = found["metadata"].get("ownerReferences") or ()
    mine = (type(resource).gvk().kind, resource.metadata.name)
    return _is_ours(runs, found, resource) or any(
        (item["kind"], item["name"]) == mine for item in references
    )


async def remove_outputs(runs: RunCluster, resource: Resource[Any, TaskStatus]) -> None:
    """Delete the Secret of an object in another cluster; in its own the garbage collector does. Raises what the client raises."""
    if runs.placement is None:
        return
    name, namespace = secret_name(resource.metadata.name or ""), resource.metadata.namespace or ""
    try:
        found = await runs.client.get(SECRET, name, namespace=namespace, metadata_only=True)
    except NotFound:
        return
    if _is_ours(runs, found, resource):
        await _delete(runs.client, found, Cause.PARENT_DELETED)


async def keep_outputs_metadata(
    control: Control, resource: Resource[Any, TaskStatus], instance: str
) -> None:
    """Restore what was changed by hand of the label, the owner and the records of the Secret.

    `control` writes as `FIELD_MANAGER`. A Secret without the label costs a request, and one that is gone is not
    created. Raises what the client raises.
    """
    desired, owner = _record(resource, instance), Owner.of(resource)
    if control.look(desired) is None:
        await control.reclaim(desired, owner)
    else:
        await control.ensure(desired, owner)


def _record(resource: Resource[Any, TaskStatus], instance: str) -> Desired:
    """Return the Secret without its content, of which nothing is recorded, not even a hash."""
    name, namespace = secret_name(resource.metadata.name or ""), resource.metadata.namespace or ""
    metadata = {"name": name, "namespace": namespace}
    return Desired(
        mapping=SECRET,
        manifest={"apiVersion": "v1", "kind": "Secret", "metadata": metadata},
        once=True,
        labels={INSTANCE: instance, Purpose.CLUSTER.value: "true"},
    )


def _is_ours(runs: RunCluster, found: Manifest, resource: Resource[Any, TaskStatus]) -> bool:
    """By owner reference, or by the record of it if that was taken off; in another cluster by the key."""
    if runs.is_recorded(found, Owner.of(resource)):
        return True
    metadata, uid = found["metadata"], resource.metadata.uid
    references = metadata.get("ownerReferences") or ()
    recorded = (metadata.get("annotations") or {}).get(OWNER_UID)
    return recorded == uid or any(item["uid"] == uid for item in references)


def _holder(found: Manifest) -> str:
    """Return the recorded owner of a Secret, in words."""
    return (found["metadata"].get("annotations") or {}).get(OWNER) or "someone else"


async def _create(client: Client, manifest: Manifest) -> None:
    try:
        await client.create(manifest, kind=SECRET, field_manager=FIELD_MANAGER)
    except AlreadyExists as error:
        raise OutputsRefused(
            f"The Secret {manifest['metadata']['name']} has just been made by someone else."
        ) from error


async def _delete(client: Client, found: Manifest, cause: Cause) -> None:
    """Delete a Secret that `_is_ours`."""
    removal = removal_of(SECRET, found["metadata"], cause, Evidence.CERTAIN)
    try:
        await remove_object(client, SECRET, removal)
    except (NotFound, Conflict):
        return


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
