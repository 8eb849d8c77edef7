"""Small patches of one object: its status, its finalizers, its annotations."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, Self

from ctrlruntime.api.kinds import Manifest, RESTMapping
from ctrlruntime.api.model import ApiModel
from ctrlruntime.api.omit_empty import status_fields
from ctrlruntime.api.printable import printable_status
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import Conflict, NotFound
from ctrlruntime.client.keyed_lock import KeyedLock
from ctrlruntime.client.patches import PatchType, add_zeros, difference
from ctrlruntime.client.reads import Reader
from ctrlruntime.clock import draw_between

FIRST_PAUSE: Final = 0.02
"""Seconds; the longest pause before the second attempt is twice as long, and it doubles with each."""


class ObjectState(Protocol):
    """An object as it was read, such as an entry of the cache."""

    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def finalizers(self) -> Sequence[str]: ...
    @property
    def annotations(self) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True)
class ObjectPatcher:
    """Patches objects, one write of an object after the other; texts of a status lose control characters.

    Each patch carries what the caller's decision rests on, so the server refuses it if the object has
    changed in that: `uid` keeps a successor of the same name from being changed, `resource_version` any
    newer state, and finalizers and annotations are tested for the value that was seen. Between processes
    that keeps writers apart, not the lock. In patches of a custom resource's status the API server drops
    a `uid` without comparing it, so only `resource_version` guards those. Given the cache's client, the
    answer is in the cache when a call returns.
    """

    client: Client
    field_manager: str
    on_conflict: Callable[[], None] = lambda: None
    """Called for each write of `update_status` that another writer overtook."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    locks: KeyedLock = field(default_factory=KeyedLock, repr=False)
    """One lock per object; patchers of the same objects may share it."""

    def impersonating(self, user: str) -> Self:
        """Return a patcher that writes as another user and shares the locks."""
        return replace(self, client=self.client.impersonating(user))

    async def write_status(
        self, mapping: RESTMapping, obj: ObjectState, before: ApiModel, after: ApiModel
    ) -> bool:
        """Merge what differs between two statuses into the one that is stored, as `before` was read.

        Counts of zero are stored with the first write. Returns whether anything was written.
        """
        if after == before:  # nearly all: to write both out costs more
            return False
        wanted = status_fields(after)
        fields = difference(status_fields(before), wanted)
        if not fields:
            return False
        add_zeros(fields, wanted, before.to_wire())
        return await self.patch_status(
            mapping, obj.name, fields, namespace=obj.namespace, uid=obj.uid
        )

    async def patch_status(
        self,
        mapping: RESTMapping,
        name: str,
        fields: Mapping[str, Any],
        *,
        namespace: str,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> bool:
        """Merge `fields` into the status. Return False if there is no such object.

        Raises Conflict if the object has another `resource_version`.
        """
        status = printable_status(dict(fields))
        patch = {"metadata": _preconditions(uid, resource_version), "status": status}
        try:
            await self._patch(mapping, name, namespace, patch, subresource="status")
        except NotFound:
            return False
        return True

    async def update_status(
        self,
        mapping: RESTMapping,
        name: str,
        change: Callable[[Manifest], Mapping[str, Any]],
        *,
        namespace: str,
        uid: str | None = None,
        reread: int = 5,
    ) -> Manifest | None:
        """Merge what `change` returns for the object as the server has it; write nothing if that is empty.

        After a conflict the object is read again, `reread` times in all, and `change` called again.
        Returns the object as it then is, or None if there is none, or none with that `uid`. Raises
        Conflict when others were faster each time, and what `change` raises.
        """
        async with self.locks.of((mapping, namespace, name)):
            for attempt in range(reread):
                if attempt:
                    await self.sleep(draw_between(0.0, FIRST_PAUSE * 2**attempt))
                try:
                    return await self._attempt(mapping, name, change, namespace, uid)
                except NotFound:
                    return None
                except Conflict:
                    self.on_conflict()
                    if attempt == reread - 1:
                        raise
        raise ValueError("reread has to be at least 1")

    async def patch_metadata(
        self,
        mapping: RESTMapping,
        obj: ObjectState,
        fields: Mapping[str, Any],
        *,
        metadata_only: bool = False,
    ) -> None:
        """Merge `fields` into the metadata of exactly this object. Raises NotFound if it is gone."""
        patch = {"metadata": {**fields, "uid": obj.uid}}
        await self._patch(mapping, obj.name, obj.namespace, patch, metadata_only=metadata_only)

    async def add_finalizer(self, mapping: RESTMapping, obj: ObjectState, finalizer: str) -> bool:
        """Add a finalizer, if the others are still those that were seen.

        Returns False if there is no such object.
        """
        if finalizer in obj.finalizers:
            return True
        path = "/metadata/finalizers"
        seen: dict[str, Any] = {"op": "test", "path": "/metadata/uid", "value": obj.uid}
        if obj.finalizers:
            seen = {"op": "test", "path": path, "value": list(obj.finalizers)}
        add = {"op": "add", "path": path, "value": [*obj.finalizers, finalizer]}
        return await self._patch_if_there(mapping, obj, [seen, add])

    async def remove_finalizer(
        self, mapping: RESTMapping, obj: ObjectState, finalizer: str
    ) -> bool:
        """Remove a finalizer, guarded by a test so that no other is lost.

        Returns False if there is no such object.
        """
        if finalizer not in obj.finalizers:
            return True
        path = f"/metadata/finalizers/{obj.finalizers.index(finalizer)}"
        operations = [
            {"op": "test", "path": path, "value": finalizer},
            {"op": "remove", "path": path},
        ]
        return await self._patch_if_there(mapping, obj, operations)

    async def remove_annotation(
        self, mapping: RESTMapping, obj: ObjectState, annotation: str
    ) -> None:
        """Remove an annotation, if it still has the value that was seen. Raises the client's errors."""
        path = f"/metadata/annotations/{annotation.replace('~', '~0').replace('/', '~1')}"
        operations: list[dict[str, Any]] = [
            {"op": "test", "path": path, "value": obj.annotations[annotation]},
            {"op": "remove", "path": path},
        ]
        await self.patch_json(mapping, obj, operations)

    async def patch_json(
        self, mapping: RESTMapping, obj: ObjectState, operations: list[dict[str, Any]]
    ) -> None:
        """Send a JSON patch. Raises the client's errors, Invalid or Conflict if a test does not hold."""
        await self._patch(mapping, obj.name, obj.namespace, operations, PatchType.JSON)

    async def _attempt(
        self,
        mapping: RESTMapping,
        name: str,
        change: Callable[[Manifest], Mapping[str, Any]],
        namespace: str,
        uid: str | None,
    ) -> Manifest | None:
        # Not the cache's get: what another process wrote may not have come by the watch yet.
        live: Manifest = await Reader.get(self.client, mapping, name, namespace=namespace or None)
        metadata = live["metadata"]
        if uid is not None and metadata["uid"] != uid:
            return None
        fields = change(live)
        if not fields:
            return live
        condition = _preconditions(metadata["uid"], metadata["resourceVersion"])
        patch = {"metadata": condition, "status": printable_status(dict(fields))}
        return await self.client.patch(
            mapping,
            name,
            patch,
            namespace=namespace or None,
            subresource="status",
            field_manager=self.field_manager,
        )

    async def _patch_if_there(
        self, mapping: RESTMapping, obj: ObjectState, operations: list[dict[str, Any]]
    ) -> bool:
        try:
            await self.patch_json(mapping, obj, operations)
        except NotFound:
            return False
        return True

    async def _patch(
        self,
        mapping: RESTMapping,
        name: str,
        namespace: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        kind: PatchType = PatchType.MERGE,
        *,
        subresource: str | None = None,
        metadata_only: bool = False,
    ) -> None:
        async with self.locks.of((mapping, namespace, name)):
            await self.client.patch(
                mapping,
                name,
                patch,
                namespace=namespace or None,
                type=kind,
                subresource=subresource,
                field_manager=self.field_manager,
                metadata_only=metadata_only,
                version_only=True,
            )


def _preconditions(uid: str | None, resource_version: str | None) -> dict[str, str]:
    """Return the metadata that a merge patch refuses to apply without."""
    found = {"uid": uid, "resourceVersion": resource_version}
    return {name: value for name, value in found.items() if value}
