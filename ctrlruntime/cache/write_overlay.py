"""Read your own writes: what may enter the store when watch, lists and answers to writes interleave.

The watch lags behind our own writes, and the answer to a write may come after the watch has already
reported more. The ledger decides, by resourceVersion and uid, which of two reports about an object is the
newer, so that the store never steps back behind a write whose answer we have seen:

- An answer enters the store when it is newer than the entry and than the watch's progress.
- A watch event that is not newer than the entry is dropped.
- A list older than an own write, or than what the watch has reported, is refused: a server that lags.
- A delete leaves a tombstone under the object's uid until the watch or a later list confirms it.
- A *floor* remembers the version up to which news of an absent object is old news.
- Where a selective informer did not have what was deleted, the version of the delete is unknown. Until the
  watch has passed it, an object of that name that appears may be an older one: its key is uncertain.
- A write without an answer, or whose effect does not follow from the answer, makes its key
  *uncertain*: the next read goes to the server once (`settle`).

Everything here is synchronous and pure but for the clock it is given. Every change of the store is
returned as an event, so handlers see exactly what readers see.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from ctrlruntime.cache.entry import Entry, Key
from ctrlruntime.cache.events import CreateEvent, DeleteEvent, Event, UpdateEvent
from ctrlruntime.cache.store import NAMESPACE, Store
from ctrlruntime.cache.unseen import UnseenDeletes
from ctrlruntime.cache.versions import number, version
from ctrlruntime.fast_dataclass import fast_dataclass

Matches = Callable[[Entry], bool | None]
"""Whether the informer's selectors admit an object; None if that is unknown here."""

TOMBSTONE_SECONDS = 3600.0
"""Unconfirmed tombstones go after an hour: by then the watch has confirmed or never will."""


class StaleList(Exception):
    """A list older than what was known before the request: an own write, or an event of the watch."""

    def __init__(self, listed: int, newest: int) -> None:
        super().__init__(f"listed at resourceVersion {listed}, when {newest} was known already")
        self.newest = newest


@fast_dataclass(frozen=True, slots=True)
class PendingWrite:
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
    """What a list that is being applied holds: an entry, or None if deleted."""
    trusting: bool = False
    """The list being taken over overrules everything known before."""
    listed_at: int = 0
    """The number of the list being taken over."""
    refreshing: bool = False
    """The list being taken over replaces entries of the same version: they are decoded differently."""


def _always(_entry: Entry) -> bool | None:
    return True


class WriteOverlay:
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
        """Use the store. ``selective``: the watch has selectors, so its DELETED may only mean that an object left them."""
        self.store = store
        self._clock = clock
        self._matches = matches
        self._scopes = {name: _Scope() for name in namespaces or ("",)}
        self._split = bool(namespaces)
        self._selective = selective
        self._newest = 0
        self._sequence = 0
        self._open: dict[int, PendingWrite] = {}
        self._gone: dict[str, int] = {}
        self._tombstones: dict[str, _Tombstone] = {}
        self._floors: dict[Key, int] = {}
        self._uncertain: dict[Key, int] = {}
        self._unseen = UnseenDeletes()
        self._deleting: dict[Key, tuple[str, int]] = {}
        """Keys that are uncertain only until the watch confirms a deletion: its uid, and the doubt's number."""
        self._until_prune = 64

    # -- what is known ---------------------------------------------------------------------

    def progress(self, scope: str = "") -> int:
        """Return the version up to which the watch of ``scope`` has reported everything."""
        return self._scopes[scope].progress

    def takes_over(self, scope: str) -> bool:
        """Whether a list of ``scope`` is being taken over: its progress is then ahead of the store."""
        return bool(self._scopes[scope].pending)

    @property
    def unconfirmed_keys(self) -> list[Key]:
        return list(self._uncertain)

    def unconfirmed(self, key: Key) -> bool:
        return key in self._uncertain

    def covers(self, namespace: str) -> bool:
        return not self._split or namespace in self._scopes

    # -- the watch -------------------------------------------------------------------------

    def bookmark(self, scope: str, resource_version: str) -> None:
        self._advance(self._scopes[scope], number(resource_version))

    def observe(self, scope: str, entry: Entry, *, deleted: bool = False) -> Event | None:
        """One watch event. Returns the change it made, None if it was old news."""
        self._advance(self._scopes[scope], version(entry))
        if self._deleting:
            self._confirm_deletion(entry, deleted=deleted)
        return self._observe_deleted(entry) if deleted else self._accept(entry)

    def _observe_deleted(self, entry: Entry) -> Event | None:
        if not self._selective:
            if self._open:
                self._gone[entry.uid] = self._sequence
            self._tombstones.pop(entry.uid, None)
        old = self.store.get(entry.name, namespace=entry.namespace)
        if old is None or (version(old) > version(entry) > 0):
            return None
        self.store.remove(old.key)
        return DeleteEvent(entry)

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
        keys: Iterable[Key] | None = None,
    ) -> Iterator[Event]:
        """Take over a list: deletions first, then what was listed. Lazy, so the caller can pause.

        ``consistent``: the list reflects everything committed before it was asked for. Raises
        StaleList at once if it cannot be that, unless ``trusted``, which gives up what was known
        (a server restored from an older backup). ``keys``: the known objects that the list speaks for; None: all
        of its scope.
        """
        listed = number(resource_version)
        scope = self._scopes[ticket.scope]
        scope.trusting, scope.refreshing = trusted, refreshing
        scope.listed_at = ticket.sequence if consistent else 0
        if trusted:
            self._forget(scope)
        elif listed and listed < ticket.newest:
            raise StaleList(listed, ticket.newest)
        pending: dict[Key, Entry | None] = dict.fromkeys(
            self._keys(ticket.scope) if keys is None else keys
        )
        found: dict[Key, Entry | None] = {entry.key: entry for entry in entries}
        for key in found:
            pending.pop(key, None)
        pending.update(found)
        scope.pending = pending
        self._advance(scope, listed)
        return self._take_over(ticket, scope, listed, initial=initial, settle=consistent)

    def adopt(
        self, ticket: ListTicket, entries: Iterable[Entry], resource_version: str
    ) -> Iterator[Event]:
        """Take in a list of objects that the watch did not select so far. Lazy; raises StaleList at once.

        The watch's own progress stays what it is.
        """
        listed = number(resource_version)
        if listed and listed < ticket.newest:
            raise StaleList(listed, ticket.newest)
        return self._adopt(ticket, entries, listed)

    def _adopt(self, ticket: ListTicket, entries: Iterable[Entry], listed: int) -> Iterator[Event]:
        for entry in entries:
            if self._floors.get(entry.key, 0) <= listed:
                self._floors.pop(entry.key, None)
            event = self._accept(entry, initial=True, since=ticket.sequence)
            if event is not None:
                yield event

    def pass_over(self, unwanted: Callable[[Entry], bool]) -> None:
        """Leave out of lists that are being taken over what is unwanted by now."""
        for scope in self._scopes.values():
            for key in [k for k, entry in scope.pending.items() if entry and unwanted(entry)]:
                del scope.pending[key]

    def drop(self, keys: Iterable[Key]) -> None:
        """Forget objects without an event."""
        for key in keys:
            self.store.remove(key)
            self._uncertain.pop(key, None)
            self._deleting.pop(key, None)
            self._scopes[self._scope_name(key[0])].pending.pop(key, None)

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
                return self._put(entry, self.store.get_by_key(key), initial=initial)
            return self._accept(
                entry, initial=initial, same=scope.refreshing, since=scope.listed_at
            )
        old = self.store.get_by_key(key)
        if old is None or (version(old) > listed > 0 and not scope.trusting):
            return None
        self.store.remove(key)
        return DeleteEvent(old, unknown=True)

    def _confirm(self, ticket: ListTicket) -> None:
        """Settle with a list what was in doubt before it was requested."""
        if not self._split:
            self._pass(ticket.sequence)
            self._unseen.passed(ticket.sequence)
        for key in [k for k, sequence in self._uncertain.items() if sequence < ticket.sequence]:
            if self._scope_name(key[0]) == ticket.scope:
                del self._uncertain[key]
                self._deleting.pop(key, None)

    def _forget(self, scope: _Scope) -> None:
        scope.progress = 0
        self._newest = 0
        self._tombstones.clear()
        self._floors.clear()
        self._unseen.clear()

    # -- our own requests ------------------------------------------------------------------

    def begin(self, key: Key) -> PendingWrite:
        """Before a write or a live read of ``key`` is sent. Pass the ticket to `end` in any case."""
        bound = max(
            self._scopes[self._scope_name(key[0])].progress,
            self._newest,
            version(self.store.get_by_key(key)),
        )
        ticket = PendingWrite(key, bound, self._next())
        self._open[ticket.sequence] = ticket
        return ticket

    def end(self, ticket: PendingWrite) -> None:
        self._open.pop(ticket.sequence, None)
        if not self._open:
            self._gone.clear()
        elif len(self._gone) > 64:
            oldest = next(iter(self._open))
            self._gone = {uid: s for uid, s in self._gone.items() if s >= oldest}

    def wrote(self, entry: Entry, ticket: PendingWrite | None = None) -> list[Event]:
        """Take in the answer to a create, update, patch or apply, or to a delete that left the object there.

        ``ticket``: that of the write, where its key was known before it was sent.
        """
        written = version(entry)
        if not written:
            self.doubt(entry.key)
            return []
        scope = self._scopes[self._scope_name(entry.namespace)]
        events = self._catch_up(entry.key) if scope.pending else []
        self._newest = max(self._newest, written)
        if written <= scope.progress:
            return events
        admitted = self._matches(entry)
        if admitted is None:
            self.doubt(entry.key)
            return events
        if admitted:
            since = 0 if ticket is None else ticket.sequence
            return _and(events, self._accept(entry, since=since))
        return _and(events, self._leave(entry, written))

    def deleted(self, ticket: PendingWrite, uid: str | None) -> list[Event]:
        """Take in the answer to a delete that reports the object as gone."""
        events = self._catch_up(ticket.key)
        old = self.store.get_by_key(ticket.key)
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
            self.doubt(ticket.key)
        else:
            # Behind selectors what is absent most likely never matched, and no read would settle the doubt.
            self._unseen.add(ticket.key, self._sequence)
        if old is not None and (old.uid == uid or version(old) <= ticket.bound):
            self.store.remove(ticket.key)
            return [*events, DeleteEvent(old)]
        return events

    def doubt(self, key: Key) -> None:
        """Mark ``key`` as unconfirmed: it is read from the server before it is acted on."""
        self._uncertain[key] = self._next()

    def deleting(self, entry: Entry) -> list[Event]:
        """Take in one object of the answer to a deletecollection: it is gone, or being deleted.

        Which of the two is not in the answer, so the key is uncertain until the watch confirms either. An object
        that the watch has confirmed before the answer came is not.
        """
        events = self._catch_up(entry.key)
        if self._matches(entry) is not False and not self._is_deletion_confirmed(entry):
            only_deletion = self._is_uncertain_only_by_deletion(entry.key)
            self.doubt(entry.key)
            if only_deletion:
                self._deleting[entry.key] = (entry.uid, self._uncertain[entry.key])
        return events

    def _is_uncertain_only_by_deletion(self, key: Key) -> bool:
        """Return whether nothing but a deletecollection has made ``key`` uncertain, if anything has."""
        number_of_doubt = self._uncertain.get(key)
        return number_of_doubt is None or number_of_doubt == self._deleting.get(key, ("", 0))[1]

    def _is_deletion_confirmed(self, entry: Entry) -> bool:
        old = self.store.get_by_key(entry.key)
        listed = version(entry)
        if old is None:  # the watch reported it, and its end
            return 0 < listed <= self._scopes[self._scope_name(entry.namespace)].progress
        if old.uid != entry.uid:
            return version(old) > listed > 0
        return old.deletion_timestamp is not None

    def _confirm_deletion(self, entry: Entry, *, deleted: bool) -> None:
        """Clear the doubt of a deletecollection, unless another was added since."""
        uid, number_of_doubt = self._deleting.get(entry.key, ("", 0))
        if uid != entry.uid or not (deleted or entry.deletion_timestamp is not None):
            return
        del self._deleting[entry.key]
        if self._uncertain.get(entry.key) == number_of_doubt:
            del self._uncertain[entry.key]

    def settle(
        self, ticket: PendingWrite, entry: Entry | None, resource_version: str
    ) -> list[Event]:
        """Take in what a live read found, as of ``resource_version``: the object, or that there is none."""
        events = self._catch_up(ticket.key)
        if self._uncertain.get(ticket.key, 0) < ticket.sequence:
            self._uncertain.pop(ticket.key, None)
            self._deleting.pop(ticket.key, None)
        listed = number(resource_version)
        progress = self._scopes[self._scope_name(ticket.key[0])].progress
        self._unseen.read(ticket.sequence, listed)
        if 0 < listed <= progress:
            return events
        if entry is not None:
            return _and(events, self._accept(entry, since=ticket.sequence))
        old = self.store.get_by_key(ticket.key)
        self._raise_floor(ticket.key, listed)
        if old is None or version(old) > listed > 0:
            return events
        self.store.remove(ticket.key)
        return [*events, DeleteEvent(old, unknown=True)]

    # -- the rules -------------------------------------------------------------------------

    def _accept(
        self, entry: Entry, *, initial: bool = False, same: bool = False, since: int = 0
    ) -> Event | None:
        """Put ``entry`` into the store, unless something newer is known, or something as new and not ``same``.

        ``since``: the number of the request that returned it; 0 for an event of the watch.
        """
        new = version(entry)
        key = entry.key
        if entry.uid in self._tombstones or (new and new <= self._floors.get(key, 0)):
            return None
        old = self.store.get_by_key(key)
        if old is entry and new and not same:
            return None
        if old is not None and new:
            have = version(old)
            if have > new or (have == new and not same):
                return None
        elif old is None and self._unseen.newest(key) > since:
            self.doubt(key)
        return self._put(entry, old, initial=initial)

    def _put(self, entry: Entry, old: Entry | None, *, initial: bool) -> Event:
        self.store.put(entry)
        return CreateEvent(entry, initial) if old is None else UpdateEvent(old, entry)

    def _leave(self, entry: Entry, written: int) -> Event | None:
        """Our own write took the object out of what the informer selects."""
        old = self.store.get_by_key(entry.key)
        if old is not None and version(old) >= written:
            return None
        self._raise_floor(entry.key, written)
        if old is None:
            return None
        self.store.remove(entry.key)
        return DeleteEvent(entry)

    def _catch_up(self, key: Key) -> list[Event]:
        """If a list is being applied, its state of ``key`` precedes any later one."""
        scope = self._scopes[self._scope_name(key[0])]
        if key not in scope.pending:
            return []
        event = self._resolve(key, scope.pending.pop(key), scope.progress)
        return [] if event is None else [event]

    def _advance(self, scope: _Scope, to: int) -> None:
        if to > scope.progress:
            scope.progress = to
            if self._unseen.awaiting:
                self._reach()
        if self._floors or self._tombstones:
            self._until_prune -= 1
            if self._until_prune <= 0:
                self._prune()

    def _reach(self) -> None:
        """Forget the deletes that every watch has passed."""
        if passed := self._unseen.reached(self._low):
            self._pass(passed)

    def _pass(self, sequence: int) -> None:
        """Drop the tombstones of deletes that were answered before ``sequence``."""
        self._tombstones = {u: t for u, t in self._tombstones.items() if t.sequence > sequence}

    @property
    def _low(self) -> int:
        """The version that every watch has reached."""
        return min(scope.progress for scope in self._scopes.values())

    def _prune(self) -> None:
        """Amortised: runs once per as many events as there are floors and tombstones."""
        low = self._low
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
