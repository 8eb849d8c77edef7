"""The few live requests of the tenancy system: a look at an object that is kept as metadata only,
orphan markers, finalizers."""

from dataclasses import dataclass, replace
from typing import Any, Self

from ctrlruntime.api.kinds import Manifest, RESTMapping
from ctrlruntime.cache.cache import Cache, CachedClient
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.client import PatchType
from ctrlruntime.client.errors import NotFound


@dataclass(slots=True)
class LiveObjects:
    """Reads and small patches that go to the server."""

    cache: Cache
    client: CachedClient
    field_manager: str

    def impersonating(self, user: str) -> Self:
        """The same, with patches made as another user; reads stay the manager's."""
        return replace(self, client=self.client.impersonating(user))

    async def read(self, mapping: RESTMapping, entry: Entry) -> Manifest | None:
        """The whole object: from the cache where it is kept whole, else from the server."""
        if not self.cache.informer(mapping).metadata_only:
            return entry.decode()
        try:
            found: Manifest = await self.cache.live_client.get(
                mapping, entry.name, entry.namespace or None
            )
        except NotFound:
            return None
        return found

    async def unmark(self, mapping: RESTMapping, entry: Entry, patch: dict[str, Any]) -> None:
        """Merge a patch of markers into exactly this object."""
        metadata = {**patch["metadata"], "uid": entry.uid}
        await self.client.patch(
            mapping,
            entry.name,
            entry.namespace or None,
            {"metadata": metadata},
            type=PatchType.MERGE,
            field_manager=self.field_manager,
            metadata_only=self.cache.informer(mapping).metadata_only,
        )

    async def remove_finalizer(self, mapping: RESTMapping, entry: Entry, finalizer: str) -> None:
        """Take one finalizer off, guarded by a test, so that no other can be lost by it."""
        if finalizer not in entry.finalizers:
            return
        path = f"/metadata/finalizers/{entry.finalizers.index(finalizer)}"
        operations: list[dict[str, Any]] = [
            {"op": "test", "path": path, "value": finalizer},
            {"op": "remove", "path": path},
        ]
        try:
            await self._patch_json(mapping, entry, operations)
        except NotFound:
            return

    async def add_finalizer(self, mapping: RESTMapping, entry: Entry, finalizer: str) -> None:
        """Put one finalizer on, guarded by a test of what was there."""
        if finalizer in entry.finalizers:
            return
        before = list(entry.finalizers) or None
        operations: list[dict[str, Any]] = [
            {"op": "test", "path": "/metadata/finalizers", "value": before},
            {"op": "add", "path": "/metadata/finalizers", "value": [*entry.finalizers, finalizer]},
        ]
        if before is None:
            operations = [
                {"op": "test", "path": "/metadata/uid", "value": entry.uid},
                {"op": "add", "path": "/metadata/finalizers", "value": [finalizer]},
            ]
        await self._patch_json(mapping, entry, operations)

    async def remove_annotation(self, mapping: RESTMapping, entry: Entry, annotation: str) -> None:
        """Take one annotation off, if it still has the value that was seen."""
        path = f"/metadata/annotations/{annotation.replace('~', '~0').replace('/', '~1')}"
        operations: list[dict[str, Any]] = [
            {"op": "test", "path": path, "value": entry.annotations[annotation]},
            {"op": "remove", "path": path},
        ]
        await self._patch_json(mapping, entry, operations)

    async def _patch_json(
        self, mapping: RESTMapping, entry: Entry, operations: list[dict[str, Any]]
    ) -> None:
        await self.client.patch(
            mapping,
            entry.name,
            entry.namespace or None,
            operations,
            type=PatchType.JSON,
            field_manager=self.field_manager,
        )
