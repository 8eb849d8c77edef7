"""What an owner has on the server, whatever labels it carries."""

from __future__ import annotations

from collections.abc import Sequence

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.client.client import Client
from ctrlruntime.gate import Cause
from ctrlruntime.resources import Control, Owner
from internal.fleet.labels import FIELD_MANAGER

Inventory = list[tuple[RESTMapping, Entry]]
"""Objects with their kinds, in the order of the kinds that were read."""


async def read_inventory(
    client: Client,
    control: Control,
    owner: Owner,
    mappings: Sequence[RESTMapping],
    *,
    namespace: str = "",
    name: str = "",
) -> Inventory:
    """List the kinds live, and return what is the owner's by the record on each object.

    No label selector: an object that lost its labels is found too. `namespace` and `name` narrow the lists; without
    a namespace objects of all are read. Objects that are being deleted are included. Raises the client's errors.
    """
    found: Inventory = []
    for mapping in mappings:
        items = await client.list(
            mapping,
            namespace or None,
            fields=f"metadata.name={name}" if name else None,
            metadata_only=True,
        )
        decoder = EntryDecoder(mapping.gvk, metadata_only=True, track_manager=FIELD_MANAGER)
        entries = (decoder.decode_manifest(item) for item in items)
        found += [(mapping, entry) for entry in entries if control.holds(entry, owner)]
    return found


async def delete_inventory(control: Control, owner: Owner, inventory: Inventory) -> int:
    """Delete what is not being deleted yet. Return how many objects there were. Raises the client's errors."""
    for mapping, entry in inventory:
        if entry.deletion_timestamp is None:
            await control.remove(mapping, entry, owner, Cause.PARENT_DELETED)
    return len(inventory)
