"""Labels and annotations of objects that are made once, and that no builder can make again.

    kept = KeptMetadata(cache.client(), SNAPSHOT, field_manager="example")
    informer.add_handler(kept.observe)      # notes what others changed
    await kept.restore(entry)               # in the reconcile that follows

What was there before is known from the event alone, so that a change made while the process is down is not seen.
"""

from typing import Any

import msgspec

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.cache.cached import CachedClient
from ctrlruntime.cache.entry import Entry, Key
from ctrlruntime.cache.events import DeleteEvent, Event, UpdateEvent
from ctrlruntime.client.client import PatchType
from ctrlruntime.client.errors import Conflict, NotFound

Fields = dict[str, dict[str, str]]


def lost_metadata(old: Entry, new: Entry) -> Fields:
    """Return the labels and annotations of our manager that others have changed or removed. Pure.

    The values are those in `old`.
    """
    if old.uid != new.uid or old.owned is None:
        return {}
    found: Fields = {}
    for field in ("labels", "annotations"):
        before, now = getattr(old, field), getattr(new, field)
        kept = _owned(new, field)
        lost = {
            key: before[key]
            for key in _owned(old, field)
            if key not in kept and key in before and now.get(key) != before[key]
        }
        if lost:
            found[field] = lost
    return found


def _owned(entry: Entry, field: str) -> set[str]:
    fields = msgspec.json.decode(entry.owned) if entry.owned else {}
    return {key[2:] for key in fields.get("f:metadata", {}).get(f"f:{field}", {}) if key != "."}


class KeptMetadata:
    """Notes what others change of the metadata of one kind's objects, and puts it back."""

    def __init__(self, client: CachedClient, mapping: RESTMapping, *, field_manager: str) -> None:
        """`field_manager`: the one whose fields the kind's informer tracks."""
        self._client = client
        self._mapping = mapping
        self._field_manager = field_manager
        self._lost: dict[Key, Fields] = {}

    def observe(self, event: Event) -> None:
        """Note what an event of the kind shows."""
        if isinstance(event, DeleteEvent):
            self._lost.pop(event.old.key, None)
        elif isinstance(event, UpdateEvent):
            for field, values in lost_metadata(event.old, event.new).items():
                noted = self._lost.setdefault(event.new.key, {}).setdefault(field, {})
                for key, value in values.items():
                    noted.setdefault(key, value)

    async def restore(self, entry: Entry) -> bool:
        """Put back what was noted of an object. Return whether that took a write. Raises the client's errors."""
        lost = self._lost.pop(entry.key, None)
        if lost is None or entry.deletion_timestamp is not None:
            return False
        patch: dict[str, Any] = {"metadata": {"uid": entry.uid, **lost}}
        try:
            await self._client.patch(
                self._mapping,
                entry.name,
                patch,
                namespace=entry.namespace or None,
                type=PatchType.MERGE,
                field_manager=self._field_manager,
            )
        except (NotFound, Conflict):
            return False
        except BaseException:
            self._lost.setdefault(entry.key, lost)
            raise
        return True
