"""What a controller writes to the very object it works for: its status and its finalizer."""

from collections.abc import Mapping
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


def news(before: ApiModel, after: ApiModel) -> dict[str, Any]:
    """What of a status has to be written: the merge patch between the two, empty if they are equal."""
    return difference(sparing(before), sparing(after))


@dataclass(frozen=True, slots=True)
class Records:
    """Small patches, each bound to the object's UID: a successor of the same name is not written to."""

    client: CachedClient
    field_manager: str

    async def status(
        self, mapping: RESTMapping, entry: Entry, before: ApiModel, after: ApiModel
    ) -> bool:
        """Patch what differs between two statuses. Returns whether anything was written."""
        changed = news(before, after)
        condition = {"uid": entry.uid}
        return bool(changed) and await self.patch_status(
            mapping, entry.name, entry.namespace, condition, changed
        )

    async def patch_status(
        self,
        mapping: RESTMapping,
        name: str,
        namespace: str,
        condition: Mapping[str, str],
        changed: Mapping[str, Any],
    ) -> bool:
        """Merge `changed` into a status, if the object's metadata are what `condition` says. False if
        there is no object; raises Conflict if there is another."""
        patch = {"metadata": dict(condition), "status": dict(changed)}
        return await self._patch(
            mapping, name, namespace, patch, PatchType.MERGE, subresource="status"
        )

    async def add_finalizer(self, mapping: RESTMapping, entry: Entry, finalizer: str) -> None:
        """Put a finalizer on, unless there are others than those that were seen."""
        if finalizer in entry.finalizers:
            return
        path = "/metadata/finalizers"
        seen: dict[str, Any] = {"op": "test", "path": "/metadata/uid", "value": entry.uid}
        if entry.finalizers:
            seen = {"op": "test", "path": path, "value": list(entry.finalizers)}
        add = {"op": "add", "path": path, "value": [*entry.finalizers, finalizer]}
        await self._patch(mapping, entry.name, entry.namespace, [seen, add], PatchType.JSON)

    async def remove_finalizer(self, mapping: RESTMapping, entry: Entry, finalizer: str) -> None:
        """Take a finalizer off, guarded by a test so that no other is lost by it."""
        if finalizer not in entry.finalizers:
            return
        path = f"/metadata/finalizers/{entry.finalizers.index(finalizer)}"
        test = {"op": "test", "path": path, "value": finalizer}
        remove = {"op": "remove", "path": path}
        await self._patch(mapping, entry.name, entry.namespace, [test, remove], PatchType.JSON)

    async def _patch(
        self,
        mapping: RESTMapping,
        name: str,
        namespace: str,
        patch: Any,
        kind: PatchType,
        subresource: str | None = None,
    ) -> bool:
        try:
            await self.client.patch(
                mapping,
                name,
                namespace or None,
                patch,
                type=kind,
                subresource=subresource,
                field_manager=self.field_manager,
            )
        except NotFound:
            return False
        return True
