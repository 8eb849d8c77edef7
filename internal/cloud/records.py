"""What a controller writes to the very object it works for: its status and its finalizer."""

from dataclasses import dataclass
from typing import Any

from ctrlruntime.api import ApiModel
from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.cache.cache import CachedClient
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.client import PatchType
from ctrlruntime.client.errors import NotFound
from ctrlruntime.client.patches import difference
from internal.cloud.sparing import sparing


@dataclass(frozen=True, slots=True)
class Records:
    """Small patches, each bound to the object's UID: a successor of the same name is not written to."""

    client: CachedClient
    field_manager: str

    async def status(
        self, mapping: RESTMapping, entry: Entry, before: ApiModel, after: ApiModel
    ) -> bool:
        """Patch what differs between two statuses. Returns whether anything was written."""
        changed = difference(sparing(before), sparing(after))
        if not changed:
            return False
        patch = {"metadata": {"uid": entry.uid}, "status": changed}
        return await self._patch(mapping, entry, patch, PatchType.MERGE, subresource="status")

    async def add_finalizer(self, mapping: RESTMapping, entry: Entry, finalizer: str) -> None:
        """Put a finalizer on, unless there are others than those that were seen."""
        if finalizer in entry.finalizers:
            return
        path = "/metadata/finalizers"
        seen: dict[str, Any] = {"op": "test", "path": "/metadata/uid", "value": entry.uid}
        if entry.finalizers:
            seen = {"op": "test", "path": path, "value": list(entry.finalizers)}
        add = {"op": "add", "path": path, "value": [*entry.finalizers, finalizer]}
        await self._patch(mapping, entry, [seen, add], PatchType.JSON)

    async def remove_finalizer(self, mapping: RESTMapping, entry: Entry, finalizer: str) -> None:
        """Take a finalizer off, guarded by a test so that no other is lost by it."""
        if finalizer not in entry.finalizers:
            return
        path = f"/metadata/finalizers/{entry.finalizers.index(finalizer)}"
        test = {"op": "test", "path": path, "value": finalizer}
        await self._patch(mapping, entry, [test, {"op": "remove", "path": path}], PatchType.JSON)

    async def _patch(
        self,
        mapping: RESTMapping,
        entry: Entry,
        patch: Any,
        kind: PatchType,
        subresource: str | None = None,
    ) -> bool:
        try:
            await self.client.patch(
                mapping,
                entry.name,
                entry.namespace or None,
                patch,
                type=kind,
                subresource=subresource,
                field_manager=self.field_manager,
            )
        except NotFound:
            return False
        return True
