"""Events of this process's writes, recognised before they are decoded.

The answer to a write is in the store when the watch reports the same state. A resourceVersion is that of one state of
one object, so an event that holds one of an answered write once, and the UID of that object, needs no decoder.
"""

from __future__ import annotations

from typing import Final

from ctrlruntime.cache.entry import Entry, Key
from ctrlruntime.cache.store import Store

LIMIT: Final = 4096
"""How many answered writes are remembered whose event has not come. Beyond, events are decoded."""
_VERSION: Final = b'"resourceVersion":"'
_TYPES: Final = (b'{"type":"MODIFIED",', b'{"type":"ADDED",')


class OwnEvents:
    """The states of a store that answers to writes brought, by resourceVersion."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._keys: dict[bytes, Key] = {}

    def __len__(self) -> int:
        """Return how many events are awaited."""
        return len(self._keys)

    def expect(self, entry: Entry) -> None:
        """Remember the state that the answer to a write reported."""
        if len(self._keys) >= LIMIT:
            self._keys.clear()
        self._keys[entry.resource_version.encode()] = entry.key

    def reported(self, line: bytes) -> Entry | None:
        """Return the entry of the store whose state this event of the watch reports; None where that is not certain."""
        if not self._keys or not line.startswith(_TYPES):
            return None
        start = line.find(_VERSION) + len(_VERSION)
        version = line[start : line.find(b'"', start)]
        key = self._keys.pop(version, None)
        if key is None or line.find(_VERSION, start) >= 0:
            return None
        entry = self._store.get_by_key(key)
        if entry is None or entry.resource_version.encode() != version:
            return None
        return entry if b'"uid":"%b"' % entry.uid.encode() in line else None
