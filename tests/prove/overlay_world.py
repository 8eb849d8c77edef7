"""The write overlay of a cache: what it shows is never older than what its process knows, and becomes what is."""

from __future__ import annotations

import marshal
from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from types import FunctionType
from typing import Any, Final, Self, TypeVar

from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.events import CreateEvent, DeleteEvent, Event, UpdateEvent
from ctrlruntime.cache.own_changes import OwnChanges, _Answered
from ctrlruntime.cache.store import Store
from ctrlruntime.cache.unseen import UnseenDeletes
from ctrlruntime.cache.versions import number, version
from ctrlruntime.cache.write_overlay import (
    ListTicket,
    PendingWrite,
    StaleList,
    WriteOverlay,
    _Scope,
    _Tombstone,
)
from tests.prove.explorer import Model, ModelScope, Violated

_NEVER: Final = 64
"""Events until an overlay prunes what it knows, at the least."""
T = TypeVar("T")
Known = tuple[int, int] | None
"""Number and version of an object; None where there is none."""


@dataclass(slots=True)
class Request:
    """One of ours. `outcome` is None before the server has it."""

    verb: str
    name: str
    ticket: PendingWrite
    outcome: tuple[str, int, Known] | None = None
    """What the server answers, its revision then, and the object."""


@dataclass(slots=True)
class Server:
    """Every revision of every object."""

    revisions: list[tuple[str, Known]] = field(default_factory=lambda: [("", None)])
    """Of which name, and what it was from then on. The first one is of nothing: a version is above 0."""
    others: list[int] = field(default_factory=list)
    """The revisions that are not ours."""

    @property
    def revision(self) -> int:
        return len(self.revisions)

    def at(self, revision: int, name: str) -> Known:
        """Return what an object was at a revision."""
        for found, known in reversed(self.revisions[:revision]):
            if found == name:
                return known
        return None

    def write(self, verb: str, name: str, *, own: bool) -> tuple[str, int, Known]:
        """Carry out a write, as far as it can be."""
        before, now = self.at(self.revision, name), self.revision + 1
        if (before is None) != (verb == "create"):
            return "refused", self.revision, before
        after = None if verb == "delete" else (now if before is None else before[0], now)
        self.revisions.append((name, after))
        if not own:
            self.others.append(now)
        return verb, now, before if verb == "delete" else after


class Cache(Model):
    """One informer, with its watch, its lists and some requests under way."""

    def __init__(self, names: str, most: int, under_way: int) -> None:
        """`most`: revisions of the server; `under_way`: requests of ours at a time."""
        self.names, self.most, self.under_way = names, most, under_way
        self.server = Server()
        self.overlay = WriteOverlay(Store(), clock=_clock)
        self.overlay.bookmark("", "1")
        self.own = OwnChanges()
        self.requests: list[Request] = []
        self.delivered = 1
        """The revision up to which the watch has reported."""
        self.watching = True
        self.listing: tuple[ListTicket, int] | None = None
        """A list that was asked for, and the revision it is of; -1: it is not answered."""
        self.known = dict.fromkeys(names, 1)
        """The newest revision of each object that the process was shown."""
        self.view: dict[str, Known] = {}
        """What handlers were shown."""
        self.foreign: dict[str, int] = {}
        """The newest version of each that was reported as not our own."""

    def copy(self) -> Self:
        """Return a copy. It shares what never changes: entries, events that were shown, and tickets."""
        made = object.__new__(type(self))
        vars(made).update(_copied(vars(self)))
        made.overlay._until_prune = _NEVER  # it counts events, which are no part of a state
        return made

    def key(self) -> Hashable:
        """Return a hash of all that decides what comes next; numbers of requests by their order.

        Of what was before all that anything can still see, only that it was: two ways to one present are one state.
        """
        overlay, server = self.overlay, self.server
        unseen = overlay._unseen._read
        sequences = sorted(
            {
                *(each.ticket.sequence for each in self.requests),
                *overlay._uncertain.values(),
                *overlay._gone.values(),
                *(each.sequence for each in overlay._tombstones.values()),
                *([self.listing[0].sequence] if self.listing else ()),
                *([unseen[0]] if unseen else ()),
                overlay._sequence,
            }
        )
        order = {sequence: at for at, sequence in enumerate(sequences)}
        low = overlay.progress()
        parts: Any = (
            (self.most, self.under_way),
            tuple(server.revisions),
            tuple(server.others),
            tuple((e.name, e.uid, e.resource_version) for e in overlay.store),
            tuple(
                (r.verb, r.name, r.ticket.bound, order[r.ticket.sequence], r.outcome)
                for r in self.requests
            ),
            tuple((key, order[at]) for key, at in sorted(overlay._uncertain.items())),
            tuple((uid, order[at]) for uid, at in sorted(overlay._gone.items())),
            tuple((uid, order[each.sequence]) for uid, each in sorted(overlay._tombstones.items())),
            tuple(sorted(each for each in overlay._floors.items() if each[1] > low)),
            (overlay._newest, low, self.delivered, self.watching),
            order[overlay._sequence],
            unseen and (order[unseen[0]], unseen[1]),
            self.listing
            and (self.listing[0].newest, order[self.listing[0].sequence], self.listing[1]),
            tuple(self.known.values()),
            tuple(sorted(self.foreign.items())),
            tuple(
                (key, _change(each.change), *sorted(each.versions))
                for key, each in sorted(self.own._answered.items())
            ),
            tuple(
                (key, *((seen, _change(each)) for seen, each in sorted(presumed.items())))
                for key, presumed in sorted(self.own._presumed.items())
            ),
        )
        return blake2b(marshal.dumps(parts, 2), digest_size=16).digest()

    # -- what happens --------------------------------------------------------------------------------------

    def acts(self) -> Iterable[tuple[str, tuple[object, ...], bool]]:
        """Writes of others and of ours, what becomes of them, the watch and lists."""
        for name in self.names:
            there = self.server.at(self.server.revision, name) is not None
            if self.server.revision < self.most:
                for verb in ("update", "delete") if there else ("create",):
                    yield "other", (verb, name), False
                    if len(self.requests) < self.under_way:
                        yield "send", (verb, name), False
            reading = any(each.verb == "get" for each in self.requests)
            if self.overlay.unconfirmed(("", name)) and not reading:
                yield "send", ("get", name), True
        for number_, each in enumerate(self.requests):
            if each.outcome is None:
                yield "commit", (number_,), True
            else:
                yield "answer", (number_,), True
            if each.verb != "get":
                yield "lose", (number_,), False
        yield from self._watch_acts()

    def _watch_acts(self) -> Iterable[tuple[str, tuple[object, ...], bool]]:
        if self.watching:
            if self.delivered < self.server.revision:
                yield "deliver", (), True
            yield "cut", (), False
        elif self.listing is None:
            yield "ask", (), True
        elif self.listing[1] < 0:
            yield "list", (self.server.revision,), True
            if self.server.revision > 1:
                yield "list", (self.server.revision - 1,), False
        else:
            yield "take", (), True
            for number_, each in enumerate(self.requests):
                if each.outcome is not None:
                    yield "take", (number_,), False

    def other(self, verb: str, name: str) -> None:
        """Have another one write."""
        self.server.write(verb, name, own=False)

    def send(self, verb: str, name: str) -> None:
        """Send a request of ours."""
        if verb != "get":
            self.own.begin(("", name))
        self.requests.append(Request(verb, name, self.overlay.begin(("", name))))

    def commit(self, at: int) -> None:
        """Have the server carry it out."""
        request, server = self.requests[at], self.server
        if request.verb == "get":
            request.outcome = ("get", server.revision, server.at(server.revision, request.name))
        else:
            request.outcome = server.write(request.verb, request.name, own=True)

    def answer(self, at: int) -> None:
        """Have its answer arrive."""
        request = self.requests.pop(at)
        if request.outcome is None:
            raise Violated("no answer")
        verb, revision, found = request.outcome
        events: list[Event] = []
        if verb == "get":
            entry = found and _entry(request.name, found)
            events = self.overlay.settle(request.ticket, entry, str(revision))
        elif verb == "delete" and found is not None:
            events = self.overlay.deleted(request.ticket, _uid(request.name, found))
            if events and isinstance(events[-1], DeleteEvent):
                self.own.gone(request.ticket.key)
        elif verb != "refused" and found is not None:
            entry = _entry(request.name, found)
            events = self.overlay.wrote(entry, request.ticket)
            self.own.wrote(entry, events)
        if verb != "refused":
            self.known[request.name] = max(self.known[request.name], revision)
        self._show(events)
        self._end(request)

    def lose(self, at: int) -> None:
        """Have its answer be lost, whether it was carried out or never will be."""
        request = self.requests.pop(at)
        self.overlay.doubt(request.ticket.key)
        self._end(request)

    def _end(self, request: Request) -> None:
        self.overlay.end(request.ticket)
        if request.verb != "get":
            self._show(self._as_of_now(self.own.end(request.ticket.key)))
        self._check()

    def deliver(self) -> None:
        """Have the watch report the next revision."""
        self.delivered += 1
        name, after = self.server.revisions[self.delivered - 1]
        before = self.server.at(self.delivered - 1, name)
        gone = before is not None and after is None
        entry = _entry(name, (before[0], self.delivered) if gone and before else after or (0, 0))
        event = self.overlay.observe("", entry, deleted=gone)
        if not gone:
            reported = self.own.observed(entry, event)
            if reported is not event and isinstance(reported, UpdateEvent):
                reported = next(iter(self._as_of_now([reported])), None)
            event = reported
        self.known[name] = max(self.known[name], self.delivered)
        self._show([] if event is None else [event])
        self._check()

    def cut(self) -> None:
        """Have the watch end, without a version to go on from."""
        self.watching = False

    def ask(self) -> None:
        """Ask for a list."""
        self.listing = (self.overlay.begin_list(), -1)

    def list(self, revision: int) -> None:
        """Have a server list, which may lag behind."""
        if self.listing is not None:
            self.listing = (self.listing[0], revision)

    def take(self, amid: int | None = None) -> None:
        """Take the list over; an answer may arrive amid that."""
        if self.listing is None:
            raise Violated("no list")
        ticket, revision = self.listing
        self.listing = None
        found = [_entry(n, known) for n in self.names if (known := self.server.at(revision, n))]
        current = revision == self.server.revision and revision >= ticket.newest
        try:
            changes = self.overlay.replace(ticket, found, str(revision), consistent=current)
        except StaleList:
            return
        self.known = {name: max(known, revision) for name, known in self.known.items()}
        if amid is not None:
            self._show([each for each, _ in zip(changes, range(1), strict=False)])
            self.answer(amid)
        self._show(changes)
        self._show(self._as_of_now(self.own.relisted()))
        self.watching, self.delivered = True, revision
        self._check()

    # -- what holds ---------------------------------------------------------------------------------------------

    def _as_of_now(self, changes: Iterable[UpdateEvent]) -> Iterable[Event]:
        for each in changes:
            now = self.overlay.store.get_by_key(each.new.key)
            if now is not None and now.uid == each.new.uid:
                yield UpdateEvent(each.old, now)

    def _show(self, events: Iterable[Event]) -> None:
        for event in events:
            match event:
                case CreateEvent(new):
                    if self.view.get(new.name):
                        raise Violated(f"{new.name} is reported as created, and was there")
                    self.view[new.name] = _known(new)
                    self.foreign[new.name] = version(new)
                case UpdateEvent(_, new):
                    if not self.view.get(new.name):
                        raise Violated(f"{new.name} is reported as updated, and was not there")
                    self.view[new.name] = _known(new)
                    if not event.own:
                        self.foreign[new.name] = version(new)
                case DeleteEvent(old):
                    if not self.view.pop(old.name, None):
                        raise Violated(f"{old.name} is reported as deleted, and was not there")
                    self.foreign.pop(old.name, None)

    def _check(self) -> None:
        for name in self.names:
            entry = self.overlay.store.get_by_key(("", name))
            shown = None if entry is None else _known(entry)
            if self.view.get(name) != shown:
                raise Violated(f"{name} is {shown}, and handlers were shown {self.view.get(name)}")
            if self.overlay.unconfirmed(("", name)) or self.overlay.takes_over(""):
                continue
            since = range(self.known[name], self.server.revision + 1)
            if all(self.server.at(revision, name) != shown for revision in since):
                raise Violated(
                    f"{name} is {shown}, which is older than revision {self.known[name]}"
                )

    def is_calm(self) -> bool:
        """Whether all is known. Then it is as it is on the server, and every change by others was reported."""
        server = self.server
        unsettled = any(self.overlay.unconfirmed(("", name)) for name in self.names)
        if self.requests or unsettled or not self.watching or self.delivered < server.revision:
            return False
        for name in self.names:
            entry, is_ = self.overlay.store.get_by_key(("", name)), server.at(server.revision, name)
            if (None if entry is None else _known(entry)) != is_:
                raise Violated(f"{name} is {entry}, and {is_} on the server")
            changed = [at for at in server.others if server.revisions[at - 1][0] == name]
            if is_ is not None and changed and self.foreign.get(name, 0) < changed[-1] > is_[0]:
                raise Violated(f"the change of {name} by another at {changed[-1]} was not reported")
        return True


def _copied(value: T) -> T:
    """Return a copy of what may change, and of what it holds."""
    copy = _COPIES.get(type(value))
    if copy is not None:
        made: T = copy(value)
        return made
    if not isinstance(value, _SHARED):
        raise TypeError(f"{type(value)}: is it ever changed?")
    return value


def _copied_store(store: Store) -> Store:
    made: Store = Store()
    for entry in store:
        made.put(entry)
    return made


def _copied_members(value: T) -> T:
    made = object.__new__(type(value))
    for name in getattr(type(value), "__slots__", None) or vars(value):
        setattr(made, name, _copied(getattr(value, name)))
    return made


_COPIES: Final[Mapping[type, Callable[[Any], Any]]] = {
    dict: lambda each: {key: _copied(value) for key, value in each.items()},
    list: lambda each: [_copied(value) for value in each],
    array: lambda each: each[:],
    **{kind: kind for kind in (set, Counter)},
    Store: _copied_store,
    **dict.fromkeys(
        (WriteOverlay, OwnChanges, UnseenDeletes, Request, Server, _Answered, _Scope),
        _copied_members,
    ),
}
_SHARED: Final = (
    int, str, tuple, type(None), Entry, UpdateEvent, PendingWrite, _Tombstone, FunctionType,
)  # fmt: skip
"""What does not change once it is there."""


def _change(event: UpdateEvent) -> Hashable:
    """Return all of an event: bytes of it would also show which of its objects are one."""
    return _known(event.old), _known(event.new), event.own


def _clock() -> float:
    return 0.0


def _uid(name: str, known: tuple[int, int]) -> str:
    return f"{name}{known[0]}"


def _known(entry: Entry) -> Known:
    return int(entry.uid[1:]), number(entry.resource_version)


def _entry(name: str, known: tuple[int, int]) -> Entry:
    return Entry(
        api_version="v1", kind="Shop", namespace="", name=name, uid=_uid(name, known),
        resource_version=str(known[1]), generation=1, labels={}, annotations={}, owners=(),
        finalizers=(), deletion_timestamp=None, creation_timestamp="", fields={},
    )  # fmt: skip


def overlay_world(*, small: bool = False) -> ModelScope[Cache]:
    """Return the world of a cache of one object, with two writes or one."""
    return ModelScope("write overlay", Cache("a", 2, 1) if small else Cache("a", 3, 1))
