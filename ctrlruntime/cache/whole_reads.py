"""Objects that a watch of rows left behind, read whole from the server into the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import msgspec

from ctrlruntime.cache.entry import Entry, Key
from ctrlruntime.cache.events import Event
from ctrlruntime.cache.listwatch import ListWatch
from ctrlruntime.cache.row_watch import FEW, RowWatch
from ctrlruntime.cache.selection import Selection, both_labels
from ctrlruntime.cache.write_overlay import WriteOverlay
from ctrlruntime.client.reads import list_items
from ctrlruntime.sharding.slots import slot_of, slot_selector

_PAGE: Final = 500
_SIDE_BY_SIDE: Final = 10
"""Reads of one object at a time; and the objects of a list that are decoded in a turn of the loop, about a millisecond."""


@dataclass(slots=True)
class WholeReads:
    """Reads for one informer. Raises what the server's answers raise."""

    rows: RowWatch
    overlay: WriteOverlay
    selection: Selection
    source: Callable[[str | None, str], ListWatch]
    """For one namespace, or None for all, and a label selector."""
    refresh: Callable[[Key], Awaitable[object]]
    decode: Callable[[msgspec.Raw], Entry | None]
    emit: Callable[[list[Event]], None]

    def __post_init__(self) -> None:
        self.rows.read = self

    async def __call__(self, keys: Collection[Key]) -> None:
        """Read objects: a few one by one, many by a list of their slots, and by one of all where they lack the label."""
        left = list(keys)
        slots = frozenset(slot_of(name, namespace=namespace) for namespace, name in left)
        for labels in (slot_selector(slots), ""):
            if len(left) > FEW:
                await self._list(labels)
                left = [key for key in left if self.rows.is_behind(key)]
        for start in range(0, len(left), _SIDE_BY_SIDE):
            await asyncio.gather(*map(self.refresh, left[start : start + _SIDE_BY_SIDE]))

    async def _list(self, labels: str) -> None:
        chosen = both_labels(self.selection.labels, labels)
        for scope in self.selection.scopes:
            source = self.source(scope or None, chosen)
            since = self.overlay.begin_list().sequence
            async with aclosing(source.pages(limit=_PAGE)) as pages:
                async for page in pages:
                    for place, item in enumerate(list_items(page), 1):
                        entry = self.decode(item)
                        if entry is not None:
                            self.take(entry, since)
                        if place % _SIDE_BY_SIDE == 0:
                            await asyncio.sleep(0)

    def read(self, key: Key, entry: Entry | None, since: int) -> None:
        """Take in what a read of one object found."""
        if entry is None:
            self.rows.absent(key)
        else:
            self.take(entry, since)

    def take(self, entry: Entry, since: int) -> None:
        """Take in a whole object that was read with the request of this number, if it is behind."""
        if not self.rows.is_behind(entry.key):
            return
        if self.overlay.store.get_by_key(entry.key) is not entry:
            self.emit(self.overlay.complete(entry, since))
        self.rows.stored(entry)
