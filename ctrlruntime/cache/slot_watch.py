"""How far the watch of an informer has come for each slot, as slots come and go while it runs. Pure.

One watch serves all slots. Slots that come are listed beside it; the next watch then begins at the lowest version that is
known of any of them, and what it repeats of the others is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ctrlruntime.cache.entry import Entry, Key
from ctrlruntime.cache.selection import Selection
from ctrlruntime.cache.store import LABEL_PREFIX, Store
from ctrlruntime.cache.versions import number
from ctrlruntime.sharding.slots import SLOT_LABEL, slot_of_labels, slot_selector

SLOT_INDEX: Final = LABEL_PREFIX + SLOT_LABEL
NO_SLOT: Final = f"{SLOT_LABEL}=none"
"""Selects nothing: the watch of a process that holds no slot, which still shows that the server serves the kind."""


def selector(slots: Iterable[int]) -> str:
    """Return the label selector of slots; of none, one that no object satisfies."""
    chosen = frozenset(slots)
    return slot_selector(chosen) if chosen else NO_SLOT


class SlotWatch:
    """The slots of one informer, and what was read of each."""

    def __init__(self, slots: Iterable[int] = ()) -> None:
        self.slots = frozenset(slots)
        self.coming: frozenset[int] = frozenset()
        """Those whose list is being taken over: what is written of them is let in."""
        self.watched: frozenset[int] = frozenset()
        """Those that the watch that runs has had without a break."""
        self._read: dict[int, int] = {}
        """By slot, the version up to which everything was reported."""
        self._passed_over: dict[int, int] = {}
        """The same for slots of which the watch that runs repeats something."""

    def admits(self, slot: int | None) -> bool:
        """Return whether an object of the slot belongs into the store."""
        return slot is not None and (slot in self.slots or slot in self.coming)

    def add(self, slots: frozenset[int], version: str) -> None:
        """Take in slots of which the list of ``version`` is in the store; empty for a kind that the server lacks."""
        self.slots |= slots
        self.coming -= slots
        if number(version):
            self._read.update(dict.fromkeys(slots, number(version)))

    def remove(self, slots: frozenset[int]) -> None:
        """Forget slots."""
        self.slots -= slots
        self.coming -= slots
        self.watched -= slots
        for slot in slots:
            self._read.pop(slot, None)

    def forget(self) -> None:
        """Forget what was read: the kind is gone, or a list comes next."""
        self._read.clear()
        self._passed_over = {}

    def listed(self, slots: Iterable[int], version: str) -> None:
        """Take in a list of these slots, which the watch goes on from."""
        self._passed_over = {}
        if number(version):
            self._read.update(dict.fromkeys(self.slots.intersection(slots), number(version)))

    def resume(self, version: str) -> str:
        """Return where the next watch begins, after the last one came to ``version``; empty: with a list."""
        came_to = number(version)
        for slot in self.slots & self.watched:
            if came_to and slot in self._read:
                self._read[slot] = max(self._read[slot], came_to)
            else:
                self._read.pop(slot, None)
        if not self.slots:
            return version
        if self.slots != self._read.keys():
            return ""
        start = min(self._read.values())
        self._passed_over = {slot: read for slot, read in self._read.items() if read > start}
        return str(start)

    def is_repeated(self, slot: int | None, version: int) -> bool:
        """Return whether an event of the watch was reported before: by a list, or by the watch before."""
        if slot is None:
            return False
        if slot not in self.watched and self.admits(slot):
            return True  # it was let go and comes again: the next watch has it
        return 0 < version <= self._passed_over.get(slot, 0)


class SlotScopes:
    """The slots of an informer in each of its scopes. One that is not sharded has none, and takes in everything."""

    def __init__(self, selection: Selection, store: Store, slots: Iterable[int] = ()) -> None:
        """`store` gets an index by slot."""
        self._selection = selection
        self._store = store
        if selection.sharded:
            store.add_index(SLOT_INDEX)
        self._scopes = {scope: SlotWatch(slots) for scope in selection.scopes * selection.sharded}

    @property
    def slots(self) -> frozenset[int]:
        """Return those that are listed in every scope."""
        watches = [each.slots for each in self._scopes.values()]
        return frozenset.intersection(*watches) if watches else frozenset()

    @property
    def scopes(self) -> tuple[str, ...]:
        """Return the scopes; none of an informer that is not sharded."""
        return tuple(self._scopes)

    def of(self, scope: str) -> SlotWatch | None:
        return self._scopes.get(scope)

    def labels(self, slots: Iterable[int] | None = None) -> str:
        """Return the label selector for `slots`, by default those that are listed."""
        own = self._selection.labels
        if not self._scopes:
            return own
        chosen = selector(self.slots if slots is None else slots)
        return f"{own},{chosen}" if own else chosen

    def matcher(self, matches: Callable[[Entry], bool | None]) -> Callable[[Entry], bool | None]:
        """Return `matches`, and whether the object's slot is one of these."""
        if not self._scopes:
            return matches

        def both(entry: Entry) -> bool | None:
            slot = slot_of_labels(entry.labels)
            admitted = any(each.admits(slot) for each in self._scopes.values())
            return admitted and matches(entry)

        return both

    def next_watch(self, came_to: Mapping[str, str]) -> tuple[frozenset[int], dict[str, str]]:
        """Return the slots of the watches that begin now, and by scope where each begins; empty: with a list.

        `came_to`: by scope, the versions of the last ones; empty: all begin with a list.
        """
        slots = self.slots
        versions = {
            scope: watch.resume(came_to[scope])
            for scope, watch in self._scopes.items()
            if scope in came_to
        }
        for watch in self._scopes.values():
            watch.watched = slots
        return slots, versions

    def coming(self, scope: str, slots: frozenset[int]) -> frozenset[int]:
        """Return those of `slots` that are not listed, whose objects are let in from now on."""
        watch = self._scopes.get(scope)
        if watch is None:
            return frozenset()
        new = slots - watch.slots
        watch.coming |= new
        return new

    def add(self, scope: str, slots: frozenset[int], version: str) -> None:
        """Take in slots of which the list is in the store; an empty version: the kind is not served."""
        self._scopes[scope].add(slots, version)

    def remove(self, slots: frozenset[int]) -> None:
        """Forget slots, in every scope."""
        for watch in self._scopes.values():
            watch.remove(slots)

    def forget(self) -> None:
        """Forget what was read: the kind is gone."""
        for watch in self._scopes.values():
            watch.forget()

    def listed(self, scope: str, slots: frozenset[int], version: str, *, trusted: bool) -> None:
        """Take in a list of a scope. A trusted one is of a server that was restored: what was read before counts no more."""
        watch = self._scopes.get(scope)
        if watch is None:
            return
        if trusted:
            watch.forget()
        watch.listed(slots, version)

    def of_slots(self, slots: frozenset[int], entries: Iterable[Entry]) -> Iterable[Entry]:
        """Return what a list that was read for `slots` has of the slots that are still there."""
        if not self._scopes:
            return entries
        wanted = slots & self.slots
        return [entry for entry in entries if slot_of_labels(entry.labels) in wanted]

    def keys(self, scope: str, slots: frozenset[int]) -> list[Key] | None:
        """Return the known objects for which a list speaks that was read for `slots`; None: all of its scope."""
        if not self._scopes:
            return None
        return [
            entry.key
            for slot in slots & self.slots
            for entry in self._store.by_index(SLOT_INDEX, str(slot))
            if not scope or entry.namespace == scope
        ]
