"""Status writes: only on difference, only what differs."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from ctrlruntime.api.conditions import Condition, set_condition
from ctrlruntime.api.kinds import Manifest, RESTMapping
from ctrlruntime.api.model import ApiModel
from ctrlruntime.cache.cache import CachedClient
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.client import PatchType
from ctrlruntime.client.errors import NotFound
from ctrlruntime.client.patches import difference


@dataclass(slots=True)
class StatusWriter:
    """Patches the status subresource of our own kinds."""

    client: CachedClient
    field_manager: str

    async def write(
        self, mapping: RESTMapping, entry: Entry, before: ApiModel, after: ApiModel
    ) -> bool:
        """Patch the difference between two statuses. Returns whether anything was written.

        The patch carries the object's UID, so a successor of the same name is not written to.
        """
        changed = difference(status_fields(before), status_fields(after))
        if not changed:
            return False
        return await self._patch(mapping, entry, changed)

    async def refuse(
        self,
        mapping: RESTMapping,
        entry: Entry,
        condition: str,
        error: ValidationError,
        clock: Callable[[], datetime],
    ) -> None:
        """Say in a condition that the object cannot be read as its kind; nothing else is done."""
        before: Manifest = entry.field("status") or {}
        conditions = [Condition.model_validate(item) for item in before.get("conditions") or ()]
        new = Condition.model_validate(
            {
                "type": condition,
                "status": "False",
                "reason": "InvalidSpec",
                "message": describe(error),
                "observedGeneration": entry.generation,
            }
        )
        if not set_condition(conditions, new, clock()):
            return
        after = {"conditions": [item.to_wire(exclude_unset=False) for item in conditions]}
        await self._patch(mapping, entry, after)

    async def _patch(self, mapping: RESTMapping, entry: Entry, changed: Manifest) -> bool:
        patch = {"metadata": {"uid": entry.uid}, "status": changed}
        try:
            await self.client.patch(
                mapping,
                entry.name,
                entry.namespace or None,
                patch,
                type=PatchType.MERGE,
                subresource="status",
                field_manager=self.field_manager,
            )
        except NotFound:
            return False
        return True


def describe(error: ValidationError) -> str:
    """What is wrong, by place, without any value."""
    found = error.errors(include_input=False, include_url=False, include_context=False)
    places = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in found[:5]]
    return "; ".join(places)[:1024]


def status_fields(status: ApiModel) -> dict[str, Any]:
    """A status as it stands on the wire."""
    return status.to_wire(exclude_unset=False)
