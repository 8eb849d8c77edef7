"""Slots that come and go while an informer runs: one list for what comes, no events for what goes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.event_handlers import BREATH
from ctrlruntime.cache.events import Event
from ctrlruntime.cache.own_changes import OwnChanges
from ctrlruntime.cache.reflector import Reflector
from ctrlruntime.cache.scope_sink import ReplaceList
from ctrlruntime.cache.slot_watch import SLOT_INDEX, SlotScopes
from ctrlruntime.cache.write_overlay import ListTicket, WriteOverlay
from ctrlruntime.client.errors import NotFound
from ctrlruntime.sharding.slots import slot_of_labels


class SlotMoves:
    """Lists the slots that come to one informer, and forgets those that go."""

    def __init__(
        self,
        slots: SlotScopes,
        overlay: WriteOverlay,
        own_changes: OwnChanges,
        lister: Callable[[str, frozenset[int], ReplaceList], Reflector],
        *,
        emit: Callable[[Event], None],
        follow: Callable[[], None],
    ) -> None:
        """`lister` lists slots of a scope once; `follow` has the watch go on with the slots that there are now."""
        self._slots = slots
        self._overlay = overlay
        self._own_changes = own_changes
        self._lister = lister
        self._emit = emit
        self._follow = follow
        self.on_drop: list[Callable[[Entry], None]] = []
        """Called with each object that leaves with its slot."""

    async def take(self, slots: frozenset[int]) -> None:
        """List the objects of slots, report them as initial, and watch them from then on; those it has are left out.

        A kind that the server lacks has none. Raises what the list raises, and StaleList; to be called again then.
        """
        for scope in self._slots.scopes:
            new = self._slots.coming(scope, slots)
            if not new:
                continue
            try:
                await self._lister(scope, new, partial(self._adopt, slots=new)).list_once()
            except NotFound:
                self._slots.add(scope, new, "")
            self._follow()

    def let_go(self, slots: frozenset[int]) -> None:
        """Watch slots no more: nothing of them is reported from now on. `drop` follows."""
        self._slots.remove(slots)
        self._follow()

    async def drop(self, slots: frozenset[int]) -> None:
        """Forget the objects of slots that were let go, without an event."""
        self._overlay.pass_over(lambda entry: slot_of_labels(entry.labels) in slots)
        store = self._overlay.store
        for slot in slots:
            gone = store.by_index(SLOT_INDEX, str(slot))
            for start in range(0, len(gone), BREATH):
                left = [e for e in gone[start : start + BREATH] if store.get_by_key(e.key) is e]
                for entry in left:
                    self._own_changes.gone(entry.key)
                self._overlay.drop([entry.key for entry in left])
                for entry in left:
                    for handler in self.on_drop:
                        handler(entry)
                await asyncio.sleep(0)

    async def _adopt(
        self,
        scope: str,
        ticket: ListTicket,
        entries: Iterable[Entry],
        version: str,
        *,
        slots: frozenset[int],
        consistent: bool,
        trusted: bool,
    ) -> None:
        """Take over a list of slots that come. One that is older than what is known raises StaleList."""
        own = [entry for entry in entries if slot_of_labels(entry.labels) in slots]
        for count, event in enumerate(self._overlay.adopt(ticket, own, version), 1):
            self._emit(event)
            if count % BREATH == 0:
                await asyncio.sleep(0)
        self._slots.add(scope, slots, version)
