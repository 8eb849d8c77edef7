"""Read your own writes: what may enter the store when watch, lists and answers to writes interleave.

The watch lags behind our own writes, and the answer to a write may come after the watch has already
told more. The ledger decides, by resourceVersion and uid, which of two reports about an object is the
newer, so that the store never steps back behind a write whose answer we have seen:

- An answer enters the store when it is newer than the entry and than the watch's progress.
- A watch event that is not newer than the entry is dropped.
- A list older than a write of ours, or than what the watch has told, is refused: a server that lags.
- A delete leaves a tombstone under the object's uid until the watch or a later list confirms it.
- A *floor* remembers the version up to which news of an absent object is old news.
- A write without an answer, or whose effect cannot be told from the answer, makes its key
  *uncertain*: whoever reads next asks the server once (`settle`).

Everything here is synchronous and pure but for the clock it is given. Every change of the store is
returned as an event, so handlers see exactly what readers see.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from ctrlruntime.cache.entry import Entry, Key
from ctrlruntime.cache.events import Created, Deleted, Event, Updated
from ctrlruntime.cache.store import NAMESPACE, Store
from ctrlruntime.cache.versions import number, version

Matches = Callable[[Entry], bool | None]
"""Whether the informer's selectors admit an object; None if that cannot be told here."""

TOMBSTONE_SECONDS = 3600.0
"""Unconfirmed tombstones go after an hour: by then the watch has confirmed or never will."""


class StaleList(Exception):
    """A list older than what was known before it was asked for: a write of ours, or news of the watch."""

    def __init__(self, listed: int, newest: int) -> None:
        super().__init__(f"listed at resourceVersion {listed}, when {newest} was known already")
        self.newest = newest


@dataclass(frozen=True, slots=True)
class Ticket:
    """A write or live read under way. ``bound``: versions up to it were committed before it was sent."""

    key: Key
    bound: int
    sequence: int


@dataclass(frozen=True, slots=True)
class ListTicket:
    """A list under way. ``newest``: the version known when it was asked for."""

    scope: str
    newest: int
    sequence: int


@dataclass(slots=True)
class _Tombstone:
    sequence: int
    at: float


@dataclass(slots=True)
class _Scope:
    """What one watch covers: a namespace, or everything."""

    progress: int = 0
    pending: dict[Key, Entry | None] = field(default_factory=dict)
    """What a list in the course of being taken over says: an entry, or None for gone."""
    trusting: bool = False
    """The list being taken over overrules everything known before."""
    refreshing: bool = False
    """The list being taken over replaces entries of the same version: they are decoded differently."""


def _always(_entry: Entry) -> bool | None:
    return True


class Ledger:
    """Guards one store. ``namespaces`` are the namespaces watched one by one, empty for one watch."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], float],
        matches: Matches = _always,
        namespaces: Collection[str] = (),
        selective: bool = False,
    ) -> None:
        """``selective``: the watch has selectors, so its DELETED may only mean that an object left them."""
        self.store = store
        self._clock = clock
        self._matches = matches
        self._scopes = {name: _Scope() for name in namespaces or ("",)}
        self._split = bool(namespaces)
        self._selective = selective
        self._newest = 0
        self._sequence = 0
        self._open: dict[int, Ticket] = {}
        self._gone: dict[str, int] = {}
        self._tombstones: dict[str, _Tombstone] = {}
        self._floors: dict[Key, int] = {}
        self._uncertain: dict[Key, int] = {}
        self._until_prune = 64

    # -- what is known ---------------------------------------------------------------------

    def progress(self, scope: str = "") -> int:
        """The version up to which the watch of ``scope`` has told everything."""
        return self._scopes[scope].progress

    @property
    def newest_write(self) -> int:
        """The highest version among our own answered writes."""
        return self._newest

    @property
    def uncertain_keys(self) -> list[Key]:
        return list(self._uncertain)

    def uncertain(self, key: Key) -> bool:
        return key in self._uncertain

    def covers(self, namespace: str) -> bool:
        return not self._split or namespace in self._scopes

    # -- the watch -------------------------------------------------------------------------

    def bookmark(self, scope: str, resource_version: str) -> None:
        self._advance(self._scopes[scope], number(resource_version))

    def observe(self, scope: str, entry: Entry, *, deleted: bool = False) -> Event | None:
        """One watch event. Returns the change it made, None if it was old news."""
        self._advance(self._scopes[scope], version(entry))
        return self._observe_deleted(entry) if deleted else self._accept(entry)

    def _observe_deleted(self, entry: Entry) -> Event | None:
        if not self._selective:
            if self._open:
                self._gone[entry.uid] = self._sequence
            self._tombstones.pop(entry.uid, None)
        old = self.store.get(entry.namespace, entry.name)
        if old is None or (version(old) > version(entry) > 0):
            return None
        self.store.remove(old.key)
        return Deleted(entry)

    # -- lists -----------------------------------------------------------------------------

    def begin_list(self, scope: str = "") -> ListTicket:
        newest = max(self._newest, self._scopes[scope].progress)
        return ListTicket(scope, newest, self._next())

    def replace(
        self,
        ticket: ListTicket,
        entries: Iterable[Entry],
        resource_version: str,
        *,
        initial: bool = False,
        consistent: bool = True,
        trusted: bool = False,
        refreshing: bool = False,
    ) -> Iterator[Event]:
        """Takes over a list: deletions first, then what was listed. Lazy, so the caller can pause.

        ``consistent``: the list reflects everything committed before it was asked for. Raises
        StaleList at once if it cannot be that, unless ``trusted``, which gives up what was known
        (a server restored from an older backup).
        """
        listed = number(resource_version)
        scope = self._scopes[ticket.scope]
        scope.trusting, scope.refreshing = trusted, refreshing
        if trusted:
            self._forget(scope)
        elif listed and listed < ticket.newest:
            raise StaleList(listed, ticket.newest)
        pending: dict[Key, Entry | None] = dict.fromkeys(self._keys(ticket.scope))
        found: dict[Key, Entry | None] = {entry.key: entry for entry in entries}
        for key in found:
            pending.pop(key, None)
        pending.update(found)
        scope.pending = pending
        self._advance(scope, listed)
        return self._take_over(ticket, scope, listed, initial=initial, settle=consistent)

    def _take_over(
        self, ticket: ListTicket, scope: _Scope, listed: int, *, initial: bool, settle: bool
    ) -> Iterator[Event]:
        pending = scope.pending
        while pending:
            key = next(iter(pending))
            event = self._resolve(key, pending.pop(key), listed, initial=initial)
            if event is not None:
                yield event
        scope.trusting = scope.refreshing = False
        if settle:
            self._confirm(ticket)

    def _resolve(
        self, key: Key, entry: Entry | None, listed: int, *, initial: bool = False
    ) -> Event | None:
        scope = self._scopes[self._scope_name(key[0])]
        if entry is not None:
            if scope.trusting:
                return self._put(entry, self.store.get(*key), initial=initial)
            return self._accept(entry, initial=initial, same=scope.refreshing)
        old = self.store.get(*key)
        if old is None or (version(old) > listed > 0 and not scope.trusting):
            return None
        self.store.remove(key)
        return Deleted(old, unknown=True)

    def _confirm(self, ticket: ListTicket) -> None:
        """What was in doubt before the list was asked for is settled by it."""
        for uid in [u for u, t in self._tombstones.items() if t.sequence < ticket.sequence]:
            if not self._split:
                del self._tombstones[uid]
        for key in [k for k, sequence in self._uncertain.items() if sequence < ticket.sequence]:
            if self._scope_name(key[0]) == ticket.scope:
                del self._uncertain[key]

    def _forget(self, scope: _Scope) -> None:
        scope.progress = 0
        self._newest = 0
        self._tombstones.clear()
        self._floors.clear()

    # -- our own requests ------------------------------------------------------------------

    def begin(self, key: Key) -> Ticket:
        """Before a write or a live read of ``key`` is sent. Pass the ticket to `end` in any case."""
        bound = max(
            self._scopes[self._scope_name(key[0])].progress,
            self._newest,
            version(self.store.get(*key)),
        )
        ticket = Ticket(key, bound, self._next())
        self._open[ticket.sequence] = ticket
        return ticket

    def end(self, ticket: Ticket) -> None:
        self._open.pop(ticket.sequence, None)
        if not self._open:
            self._gone.clear()
        elif len(self._gone) > 64:
            oldest = next(iter(self._open))
            self._gone = {uid: s for uid, s in self._gone.items() if s >= oldest}

    def wrote(self, entry: Entry) -> list[Event]:
        """The answer to a create, update, patch or apply, or to a delete that left the object there."""
        written = version(entry)
        if not written:
            self.doubt(entry.key)
            return []
        events = self._catch_up(entry.key)
        self._newest = max(self._newest, written)
        if written <= self._scopes[self._scope_name(entry.namespace)].progress:
            return events
        admitted = self._matches(entry)
        if admitted is None:
            self.doubt(entry.key)
            return events
        if admitted:
            return _and(events, self._accept(entry))
        return _and(events, self._leave(entry, written))

    def deleted(self, ticket: Ticket, uid: str | None) -> list[Event]:
        """The answer to a delete that says the object is gone."""
        events = self._catch_up(ticket.key)
        old = self.store.get(*ticket.key)
        if uid is None or (old is not None and old.uid != uid and version(old) > ticket.bound):
            self.doubt(ticket.key)
        if uid is None or uid in self._gone:
            return events
        self._tombstones[uid] = _Tombstone(self._next(), self._clock())
        # News of an earlier object of that name may still be under way, be it the watch's or the
        # late answer to a write of ours.
        self._raise_floor(ticket.key, ticket.bound)
        if old is not None and old.uid == uid:
            self._raise_floor(ticket.key, version(old))
        elif old is not None or not self._selective:
            # Behind selectors what is absent most likely never matched: nobody would ever ask.
            self.doubt(ticket.key)
        if old is not None and (old.uid == uid or version(old) <= ticket.bound):
            self.store.remove(ticket.key)
            return [*events, Deleted(old)]
        return events

    def doubt(self, key: Key) -> None:
        """The state of ``key`` is to be read from the server before it is acted on."""
        self._uncertain[key] = self._next()

    def settle(self, ticket: Ticket, entry: Entry | None, resource_version: str) -> list[Event]:
        """What a live read found, as of ``resource_version``: the object, or that there is none."""
        events = self._catch_up(ticket.key)
        if self._uncertain.get(ticket.key, 0) < ticket.sequence:
            self._uncertain.pop(ticket.key, None)
        listed = number(resource_version)
        progress = self._scopes[self._scope_name(ticket.key[0])].progress
        if 0 < listed <= progress:
            return events
        if entry is not None:
            return _and(events, self._accept(entry))
        old = self.store.get(*ticket.key)
        self._raise_floor(ticket.key, listed)
        if old is None or version(old) > listed > 0:
            return events
        self.store.remove(ticket.key)
        return [*events, Deleted(old, unknown=True)]

    # -- the rules -------------------------------------------------------------------------

    def _accept(self, entry: Entry, *, initial: bool = False, same: bool = False) -> Event | None:
        """Into the store, unless something newer is known, or something as new and not ``same``."""
        new = version(entry)
        if entry.uid in self._tombstones or (new and new <= self._floors.get(entry.key, 0)):
            return None
        old = self.store.get(entry.namespace, entry.name)
        if old is not None and new:
            have = version(old)
            if have > new or (have == new and not same):
                return None
        return self._put(entry, old, initial=initial)

    def _put(self, entry: Entry, old: Entry | None, *, initial: bool) -> Event:
        self.store.put(entry)
        return Created(entry, initial) if old is None else Updated(old, entry)

    def _leave(self, entry: Entry, written: int) -> Event | None:
        """Our own write took the object out of what the informer selects."""
        old = self.store.get(*entry.key)
        if old is not None and version(old) >= written:
            return None
        self._raise_floor(entry.key, written)
        if old is None:
            return None
        self.store.remove(entry.key)
        return Deleted(entry)

    def _catch_up(self, key: Key) -> list[Event]:
        """If a list is being taken over, its word about ``key`` comes before any later one."""
        scope = self._scopes[self._scope_name(key[0])]
        if key not in scope.pending:
            return []
        event = self._resolve(key, scope.pending.pop(key), scope.progress)
        return [] if event is None else [event]

    def _advance(self, scope: _Scope, to: int) -> None:
        if to > scope.progress:
            scope.progress = to
        if self._floors or self._tombstones:
            self._until_prune -= 1
            if self._until_prune <= 0:
                self._prune()

    def _prune(self) -> None:
        """Amortised: runs once per as many events as there are floors and tombstones."""
        low = min(scope.progress for scope in self._scopes.values())
        self._floors = {key: floor for key, floor in self._floors.items() if floor > low}
        before = self._clock() - TOMBSTONE_SECONDS
        self._tombstones = {u: t for u, t in self._tombstones.items() if t.at > before}
        self._until_prune = max(64, len(self._floors) + len(self._tombstones))

    def _raise_floor(self, key: Key, to: int) -> None:
        if to > self._floors.get(key, 0):
            self._floors[key] = to

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence

    def _scope_name(self, namespace: str) -> str:
        return namespace if self._split else ""

    def _keys(self, scope: str) -> list[Key]:
        if not self._split:
            return self.store.keys()
        return [entry.key for entry in self.store.by_index(NAMESPACE, scope)]


def _and(events: list[Event], event: Event | None) -> list[Event]:
    return events if event is None else [*events, event]
