"""Status writes: only on difference, only what differs."""

from dataclasses import dataclass
from typing import Any

from ctrlruntime.api.kinds import RESTMapping
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


def status_fields(status: ApiModel) -> dict[str, Any]:
    """A status as it stands on the wire."""
    return status.to_wire(exclude_unset=False)
