"""Read your own writes: whatever the interleaving, the store never steps back behind an answered write."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.entry import Entry, EntryDecoder, Key
from ctrlruntime.cache.events import CreateEvent, DeleteEvent, Event, UpdateEvent
from ctrlruntime.cache.store import Store
from ctrlruntime.cache.unseen import SLOTS
from ctrlruntime.cache.write_overlay import ListTicket, PendingWrite, StaleList, WriteOverlay

EntryOf = Callable[..., Entry]


def ledger_of(
    matches: Callable[[Entry], bool] = lambda _: True,
    *,
    namespaces: Collection[str] = (),
    selective: bool = False,
) -> tuple[WriteOverlay, Store]:
    store = Store()
    ledger = WriteOverlay(
        store, clock=lambda: 0.0, matches=matches, namespaces=namespaces, selective=selective
    )
    return ledger, store


def take_over(
    ledger: WriteOverlay,
    entries: list[Entry],
    version: str,
    *,
    consistent: bool = True,
    trusted: bool = False,
) -> list[Event]:
    ticket = ledger.begin_list()
    return list(ledger.replace(ticket, entries, version, consistent=consistent, trusted=trusted))


@pytest.mark.criterion("CL-14")
class TestWrites:
    def test_an_answer_is_visible_at_once_and_the_late_watch_event_is_dropped(
        self, entry_of: EntryOf
    ) -> None:
        ledger, store = ledger_of()
        take_over(ledger, [entry_of("a", uid="1", resourceVersion="5")], "5")
        written = entry_of("a", uid="1", resourceVersion="7")
        (event,) = ledger.wrote(written)
        assert isinstance(event, UpdateEvent)
        assert store.get("a", namespace="ns") is written
        assert ledger.observe("", entry_of("a", uid="1", resourceVersion="6")) is None
        assert ledger.observe("", entry_of("a", uid="1", resourceVersion="7")) is None
        assert store.get("a", namespace="ns") is written

    def test_an_answer_older_than_the_watch_changes_nothing(self, entry_of: EntryOf) -> None:
        ledger, store = ledger_of()
        take_over(ledger, [], "5")
        created = entry_of("a", uid="1", resourceVersion="6")
        ledger.observe("", created)
        ledger.observe("", entry_of("a", uid="1", resourceVersion="7"), deleted=True)
        assert ledger.wrote(created) == []
        assert store.get("a", namespace="ns") is None

    def test_a_write_out_of_the_selection_removes_the_object(self, entry_of: EntryOf) -> None:
        ledger, store = ledger_of(matches=lambda e: e.labels.get("on") == "1", selective=True)
        take_over(ledger, [entry_of("a", uid="1", resourceVersion="5", labels={"on": "1"})], "5")
        (event,) = ledger.wrote(entry_of("a", uid="1", resourceVersion="8"))
        assert isinstance(event, DeleteEvent)
        late = entry_of("a", uid="1", resourceVersion="7", labels={"on": "1"})
        assert ledger.observe("", late) is None
        assert len(store) == 0

    def test_versions_that_cannot_be_compared_put_the_object_in_doubt(
        self, entry_of: EntryOf
    ) -> None:
        ledger, _ = ledger_of()
        assert ledger.wrote(entry_of("a", uid="1", resourceVersion="xyz")) == []
        assert ledger.unconfirmed(("ns", "a"))


@pytest.mark.criterion("CL-14")
class TestDeletes:
    def test_a_deleted_object_stays_gone_while_the_watch_lags(self, entry_of: EntryOf) -> None:
        ledger, store = ledger_of()
        take_over(ledger, [entry_of("a", uid="1", resourceVersion="5")], "5")
        ticket = ledger.begin(("ns", "a"))
        (event,) = ledger.deleted(ticket, "1")
        ledger.end(ticket)
        assert isinstance(event, DeleteEvent)
        assert ledger.observe("", entry_of("a", uid="1", resourceVersion="6")) is None
        assert ledger.observe("", entry_of("a", uid="1", resourceVersion="7"), deleted=True) is None
        assert len(store) == 0
        assert not ledger.unconfirmed(("ns", "a"))

    def test_a_successor_of_the_same_name_is_seen(self, entry_of: EntryOf) -> None:
        ledger, store = ledger_of()
        take_over(ledger, [entry_of("a", uid="1", resourceVersion="5")], "5")
        ticket = ledger.begin(("ns", "a"))
        ledger.deleted(ticket, "1")
        ledger.end(ticket)
        successor = entry_of("a", uid="2", resourceVersion="9")
        assert isinstance(ledger.observe("", successor), CreateEvent)
        assert store.get("a", namespace="ns") is successor

    def test_an_older_answer_that_comes_after_the_deletes_is_old_news(
        self, entry_of: EntryOf
    ) -> None:
        ledger, store = ledger_of()
        take_over(ledger, [], "1")
        ticket = ledger.begin(("ns", "a"))
        ledger.wrote(entry_of("a", uid="2", resourceVersion="6"))
        ledger.deleted(ticket, "2")
        assert ledger.wrote(entry_of("a", uid="1", resourceVersion="3")) == []
        assert len(store) == 0

    def test_the_watch_may_be_faster_than_the_answer(self, entry_of: EntryOf) -> None:
        ledger, store = ledger_of()
        take_over(ledger, [entry_of("a", uid="1", resourceVersion="5")], "5")
        ticket = ledger.begin(("ns", "a"))
        ledger.observe("", entry_of("a", uid="1", resourceVersion="6"), deleted=True)
        successor = entry_of("a", uid="2", resourceVersion="7")
        ledger.observe("", successor)
        assert ledger.deleted(ticket, "1") == []
        ledger.end(ticket)
        assert store.get("a", namespace="ns") is successor


@pytest.mark.criterion("LV-8")
class TestLateDeleted:
    """A DELETED event of an older object or state, after the answer to a newer write."""

    def test_a_late_deleted_event_of_an_older_object_leaves_its_successor(
        self, entry_of: EntryOf
    ) -> None:
        ledger, store = ledger_of()
        take_over(ledger, [entry_of("a", uid="1", resourceVersion="5")], "5")
        successor = entry_of("a", uid="2", resourceVersion="9")
        ledger.wrote(successor)
        assert ledger.observe("", entry_of("a", uid="1", resourceVersion="8"), deleted=True) is None
        assert store.get("a", namespace="ns") is successor

    def test_a_late_deleted_event_leaves_an_object_that_has_entered_the_selection_since(
        self, entry_of: EntryOf
    ) -> None:
        ledger, store = ledger_of(selective=True)
        take_over(ledger, [entry_of("a", uid="1", resourceVersion="5")], "5")
        entered = entry_of("a", uid="1", resourceVersion="9")
        ledger.wrote(entered)
        assert ledger.observe("", entry_of("a", uid="1", resourceVersion="7"), deleted=True) is None
        assert store.get("a", namespace="ns") is entered

    def test_a_deleted_event_that_is_newer_removes_the_object_whatever_its_uid(
        self, entry_of: EntryOf
    ) -> None:
        ledger, store = ledger_of()
        take_over(ledger, [entry_of("a", uid="1", resourceVersion="5")], "5")
        event = ledger.observe("", entry_of("a", uid="2", resourceVersion="9"), deleted=True)
        assert isinstance(event, DeleteEvent)
        assert len(store) == 0


@pytest.mark.criterion("LV-8")
class TestUnconfirmedWrites:
    """What settles the doubt about a write: a consistent answer to a request made after it, nothing else."""

    KEY = ("ns", "a")

    def test_an_inconsistent_list_settles_no_doubt(self) -> None:
        ledger, _ = ledger_of()
        ledger.doubt(self.KEY)
        take_over(ledger, [], "5", consistent=False)
        assert ledger.unconfirmed(self.KEY)
        take_over(ledger, [], "6")
        assert not ledger.unconfirmed(self.KEY)

    def test_a_list_requested_before_the_write_settles_no_doubt(self) -> None:
        ledger, _ = ledger_of()
        ticket = ledger.begin_list()
        ledger.doubt(self.KEY)
        list(ledger.replace(ticket, [], "5"))
        assert ledger.unconfirmed(self.KEY)

    def test_a_list_of_another_namespace_settles_no_doubt(self) -> None:
        ledger, _ = ledger_of(namespaces=["ns", "other"])
        ledger.doubt(self.KEY)
        list(ledger.replace(ledger.begin_list("other"), [], "5"))
        assert ledger.unconfirmed(self.KEY)
        list(ledger.replace(ledger.begin_list("ns"), [], "6"))
        assert not ledger.unconfirmed(self.KEY)

    def test_a_doubt_later_than_the_live_read_is_not_settled_by_it(self) -> None:
        ledger, _ = ledger_of()
        ledger.doubt(self.KEY)
        read = ledger.begin(self.KEY)
        ledger.doubt(self.KEY)
        ledger.settle(read, None, "5")
        assert ledger.unconfirmed(self.KEY)
        later = ledger.begin(self.KEY)
        ledger.settle(later, None, "6")
        assert not ledger.unconfirmed(self.KEY)

    def test_a_live_read_of_another_object_settles_no_doubt(self) -> None:
        ledger, _ = ledger_of()
        ledger.doubt(self.KEY)
        ledger.settle(ledger.begin(("ns", "b")), None, "5")
        assert ledger.unconfirmed(self.KEY)


@pytest.mark.criterion("CL-14")
class TestLists:
    def test_a_list_older_than_a_write_answered_before_is_refused(self, entry_of: EntryOf) -> None:
        ledger, store = ledger_of()
        ledger.wrote(entry_of("a", uid="1", resourceVersion="9"))
        with pytest.raises(StaleList) as refused:
            take_over(ledger, [], "8")
        assert refused.value.newest == 9
        assert len(store) == 1

    def test_a_write_answered_during_the_list_survives_it(self, entry_of: EntryOf) -> None:
        ledger, store = ledger_of()
        ticket = ledger.begin_list()
        ledger.wrote(entry_of("a", uid="1", resourceVersion="9"))
        list(ledger.replace(ticket, [], "8"))
        assert store.get("a", namespace="ns") is not None

    def test_a_write_answered_while_a_list_is_taken_over(self, entry_of: EntryOf) -> None:
        ledger, store = ledger_of()
        take_over(ledger, [entry_of("gone", uid="1", resourceVersion="3")], "5")
        listed = [entry_of(name, uid=name, resourceVersion="8") for name in ("a", "b")]
        steps = ledger.replace(ledger.begin_list(), listed, "10")
        # Answers to writes from before the list, of which the list knows more:
        ledger.wrote(entry_of("gone", uid="1", resourceVersion="9"))
        assert store.get("gone", namespace="ns") is None
        ledger.wrote(entry_of("b", uid="b", resourceVersion="7"))
        assert store.get("b", namespace="ns") is listed[1]
        list(steps)
        assert {entry.name for entry in store} == {"a", "b"}

    def test_a_trusted_list_overrules_everything(self, entry_of: EntryOf) -> None:
        ledger, store = ledger_of()
        ledger.wrote(entry_of("a", uid="1", resourceVersion="90"))
        ledger.wrote(entry_of("b", uid="2", resourceVersion="91"))
        restored = entry_of("b", uid="2", resourceVersion="20")
        take_over(ledger, [restored], "30", trusted=True)
        assert list(store) == [restored]
        assert ledger.progress() == 30
        assert isinstance(
            ledger.observe("", entry_of("b", uid="2", resourceVersion="31")), UpdateEvent
        )

    @pytest.mark.criterion("RF-07")
    def test_what_vanished_is_reported_as_deleted_with_its_last_state(
        self, entry_of: EntryOf
    ) -> None:
        ledger, _ = ledger_of()
        take_over(ledger, [entry_of("a", uid="1", resourceVersion="5")], "5")
        (event,) = take_over(ledger, [], "9")
        assert isinstance(event, DeleteEvent)
        assert event.unknown
        assert event.old.name == "a"

    @pytest.mark.criterion("RF-21")
    def test_recreation_between_two_lists_is_an_update_with_another_uid(
        self, entry_of: EntryOf
    ) -> None:
        ledger, _ = ledger_of()
        take_over(ledger, [entry_of("a", uid="1", resourceVersion="5")], "5")
        (event,) = take_over(ledger, [entry_of("a", uid="2", resourceVersion="8")], "9")
        assert isinstance(event, UpdateEvent)
        assert (event.old.uid, event.new.uid) == ("1", "2")


@pytest.mark.criterion("RF-24")
def test_progress_is_monotone_and_includes_bookmarks(entry_of: EntryOf) -> None:
    ledger, _ = ledger_of()
    take_over(ledger, [], "5")
    ledger.bookmark("", "12")
    ledger.observe("", entry_of("a", uid="1", resourceVersion="8"))
    assert ledger.progress() == 12


def test_memory_of_old_deletes_does_not_pile_up(entry_of: EntryOf) -> None:
    now = 0.0
    store = Store()
    ledger = WriteOverlay(store, clock=lambda: now)
    take_over(ledger, [], "1")
    for number in range(1000):
        now += 60.0
        ticket = ledger.begin(("ns", f"x{number}"))
        ledger.deleted(ticket, f"u{number}")
        ledger.end(ticket)
        ledger.bookmark("", str(number + 2))
    assert len(ledger._tombstones) < 200
    assert len(ledger._floors) < 200


# -- any interleaving ----------------------------------------------------------------------


@dataclass(frozen=True)
class Version:
    """What a key was from a resourceVersion on: an object (uid, label) or nothing."""

    at: int
    uid: str | None
    on: bool = False


@dataclass
class Server:
    """A model of an API server with one kind and a global resourceVersion."""

    clock: int = 1
    uids: int = 0
    timeline: dict[Key, list[Version]] = field(default_factory=dict)
    log: list[tuple[Key, Version, Version]] = field(default_factory=list)
    """Key, before, after."""

    def live(self, key: Key) -> Version:
        return self.timeline.get(key, [Version(0, None)])[-1]

    def commit(self, key: Key, uid: str | None, on: bool = False) -> Version:
        before = self.live(key)
        self.clock += 1
        after = Version(self.clock, uid, on)
        self.timeline.setdefault(key, [Version(0, None)]).append(after)
        self.log.append((key, before, after))
        return after

    def write(self, key: Key, on: bool, *, changes: bool = True) -> Version:
        """``changes``: a write that changes nothing is answered with the version that the object has."""
        live = self.live(key)
        if live.uid is not None and live.on == on and not changes:
            return live
        uid = live.uid
        if uid is None:
            self.uids += 1
            uid = f"u{self.uids}"
        return self.commit(key, uid, on)


@dataclass
class Request:
    """One of our own writes. ``committed`` is set once the server has carried it out."""

    key: Key
    ticket: PendingWrite
    delete: bool
    on: bool
    changes: bool = True
    committed: Version | None = None
    deleted_uid: str | None = None
    refused: bool = False


@dataclass
class Listing:
    """A relist: asked for, then answered with a snapshot, then taken over step by step."""

    ticket: ListTicket
    snapshot: dict[Key, Version] | None = None
    position: int = 0
    version: int = 0
    steps: Iterator[Event] | None = None


KEYS: list[Key] = [("ns", "a"), ("ns", "b")]
DECODER = EntryDecoder(GroupVersionKind("", "v1", "ConfigMap"))


def entry_at(key: Key, version: Version, at: int | None = None) -> Entry:
    return DECODER.decode_manifest(
        {
            "metadata": {
                "namespace": key[0],
                "name": key[1],
                "uid": version.uid,
                "resourceVersion": str(at or version.at),
                "labels": {"on": "1"} if version.on else {},
            }
        }
    )


class Interleavings(RuleBasedStateMachine):
    """Foreign writes, own writes with late or lost answers, a lagging watch, relists, live reads."""

    selective = False

    def __init__(self) -> None:
        super().__init__()
        self.server = Server()
        self.store = Store()
        self.ledger = WriteOverlay(
            self.store,
            clock=lambda: 0.0,
            matches=lambda entry: self.visible(Version(1, entry.uid, "on" in entry.labels)),
            selective=self.selective,
        )
        self.position = 0
        self.listing: Listing | None = None
        self.requests: list[Request] = []
        self.reads: list[tuple[Key, PendingWrite]] = []
        self.answered: dict[Key, int] = {}
        self.deleted: set[str] = set()
        self.mirror: dict[Key, Entry] = {}
        self.start_list()
        self.answer_list()
        while self.listing is not None:
            self.step_list()

    def visible(self, version: Version) -> bool:
        return version.uid is not None and (version.on or not self.selective)

    def deliver(self, event: Event | None) -> None:
        """Keep a mirror of the store from the events alone."""
        match event:
            case CreateEvent(new=new):
                assert new.key not in self.mirror
                self.mirror[new.key] = new
            case UpdateEvent(old=old, new=new):
                assert self.mirror[new.key] is old
                self.mirror[new.key] = new
            case DeleteEvent(old=old):
                del self.mirror[old.key]

    # foreign writes

    @rule(key=st.sampled_from(KEYS), on=st.booleans())
    def foreign_write(self, key: Key, on: bool) -> None:
        self.server.write(key, on)

    @rule(key=st.sampled_from(KEYS))
    def foreign_delete(self, key: Key) -> None:
        if self.server.live(key).uid:
            self.server.commit(key, None)

    @rule(key=st.sampled_from(KEYS), on=st.booleans())
    def foreign_recreate(self, key: Key, on: bool) -> None:
        self.foreign_delete(key)
        self.server.write(key, on)

    # own writes: begin, commit, answer

    @rule(key=st.sampled_from(KEYS), delete=st.booleans(), on=st.booleans(), changes=st.booleans())
    def begin(self, key: Key, delete: bool, on: bool, changes: bool = True) -> None:
        if len(self.requests) < 4:
            ticket = self.ledger.begin(key)
            self.requests.append(Request(key, ticket, delete, on, changes))

    @precondition(lambda self: any(not r.committed and not r.refused for r in self.requests))
    @rule(pick=st.integers(0, 3))
    def commit(self, pick: int) -> None:
        waiting = [r for r in self.requests if not r.committed and not r.refused]
        request = waiting[pick % len(waiting)]
        uid = self.server.live(request.key).uid
        if not request.delete:
            request.committed = self.server.write(request.key, request.on, changes=request.changes)
        elif uid is None:
            request.refused = True
        else:
            request.deleted_uid = uid
            request.committed = self.server.commit(request.key, None)

    @precondition(lambda self: any(r.committed or r.refused for r in self.requests))
    @rule(pick=st.integers(0, 3))
    def answer(self, pick: int) -> None:
        done = [r for r in self.requests if r.committed or r.refused]
        request = done[pick % len(done)]
        self.requests.remove(request)
        if request.committed is not None:
            if request.deleted_uid is not None:
                events = self.ledger.deleted(request.ticket, request.deleted_uid)
                self.deleted.add(request.deleted_uid)
            else:
                written = entry_at(request.key, request.committed)
                events = self.ledger.wrote(written, request.ticket)
            for event in events:
                self.deliver(event)
            at = request.committed.at
            self.answered[request.key] = max(at, self.answered.get(request.key, 0))
        self.ledger.end(request.ticket)

    @precondition(lambda self: not self.requests)
    @rule(key=st.sampled_from(KEYS))
    def delete(self, key: Key) -> None:
        self.begin(key, delete=True, on=False)
        self.commit(0)
        self.answer(0)

    @precondition(lambda self: self.requests)
    @rule(pick=st.integers(0, 3))
    def lose_answer(self, pick: int) -> None:
        request = self.requests.pop(pick % len(self.requests))
        self.ledger.doubt(request.key)
        self.ledger.end(request.ticket)

    # live reads of objects in doubt

    @rule(key=st.sampled_from(KEYS))
    def begin_read(self, key: Key) -> None:
        if len(self.reads) < 2:
            self.reads.append((key, self.ledger.begin(key)))

    @precondition(lambda self: self.reads)
    @rule()
    def answer_read(self) -> None:
        key, ticket = self.reads.pop(0)
        live = self.server.live(key)
        entry = entry_at(key, live) if self.visible(live) else None
        for event in self.ledger.settle(ticket, entry, str(self.server.clock)):
            self.deliver(event)
        self.ledger.end(ticket)

    # the watch

    @precondition(lambda self: self.listing is None and self.position < len(self.server.log))
    @rule(count=st.integers(1, 3))
    def watch(self, count: int) -> None:
        for _ in range(min(count, len(self.server.log) - self.position)):
            key, before, after = self.server.log[self.position]
            self.position += 1
            recreated = before.uid != after.uid
            if self.visible(before) and (recreated or not self.visible(after)):
                gone = entry_at(key, replace(before, at=after.at))
                self.deliver(self.ledger.observe("", gone, deleted=True))
            elif self.visible(after):
                self.deliver(self.ledger.observe("", entry_at(key, after)))

    @precondition(lambda self: self.listing is None and self.position == len(self.server.log))
    @rule()
    def bookmark(self) -> None:
        self.ledger.bookmark("", str(self.server.clock))

    # relists

    @precondition(lambda self: self.listing is None)
    @rule()
    def start_list(self) -> None:
        self.listing = Listing(self.ledger.begin_list())

    @precondition(lambda self: self.listing is not None and self.listing.snapshot is None)
    @rule()
    def snapshot(self) -> None:
        assert self.listing is not None
        live = {key: self.server.live(key) for key in KEYS}
        self.listing.snapshot = {k: v for k, v in live.items() if self.visible(v)}
        self.listing.position = len(self.server.log)
        self.listing.version = self.server.clock

    @precondition(lambda self: self.listing is not None and self.listing.steps is None)
    @rule()
    def answer_list(self) -> None:
        assert self.listing is not None
        if self.listing.snapshot is None:
            self.snapshot()
        assert self.listing.snapshot is not None
        entries = [entry_at(key, version) for key, version in self.listing.snapshot.items()]
        self.listing.steps = self.ledger.replace(
            self.listing.ticket, entries, str(self.listing.version)
        )

    @precondition(lambda self: self.listing is not None and self.listing.steps is not None)
    @rule()
    def step_list(self) -> None:
        assert self.listing is not None
        assert self.listing.steps is not None
        event = next(self.listing.steps, None)
        self.deliver(event)
        if event is None:
            self.position = self.listing.position
            self.listing = None

    # what must hold

    @invariant()
    def events_tell_the_store(self) -> None:
        assert self.mirror == {entry.key: entry for entry in self.store}

    @invariant()
    def never_older_than_an_answered_write(self) -> None:
        for key, written in self.answered.items():
            if self.ledger.unconfirmed(key):
                continue
            shown = self.store.get_by_key(key)
            if shown is not None:
                assert int(shown.resource_version) >= written
                continue
            # Shown as absent: then it was, at some time since the write.
            states = self.server.timeline[key]
            current = [v for v in states if v.at <= written][-1:]
            since = current + [v for v in states if v.at > written]
            assert any(not self.visible(version) for version in since)

    @invariant()
    def deleted_objects_never_come_back(self) -> None:
        assert not {entry.uid for entry in self.store} & self.deleted

    def teardown(self) -> None:
        """Once everything has been told, the store is what the server has."""
        while self.listing is not None:
            if self.listing.steps is None:
                self.answer_list()
            self.step_list()
        while self.requests:
            self.lose_answer(0)
        while self.position < len(self.server.log):
            self.watch(1)
        shown = {entry.key: (entry.uid, int(entry.resource_version)) for entry in self.store}
        live = {key: self.server.live(key) for key in KEYS}
        assert shown == {k: (v.uid, v.at) for k, v in live.items() if self.visible(v)}


class SelectiveInterleavings(Interleavings):
    """The same, watched through a label selector that objects enter and leave."""

    selective = True


@pytest.mark.criterion("LV-8")
class TestDeletesOfUnseenObjects:
    """What a selective informer did not have when it was deleted: the version of the delete is unknown."""

    KEY = KEYS[0]

    @pytest.fixture
    def machine(self) -> SelectiveInterleavings:
        """The watch has not reached an object that matched, its end, and a successor, which is deleted."""
        machine = SelectiveInterleavings()
        machine.foreign_write(self.KEY, on=True)
        machine.foreign_recreate(self.KEY, on=False)
        return machine

    def check(self, machine: SelectiveInterleavings) -> None:
        machine.events_tell_the_store()
        machine.never_older_than_an_answered_write()
        machine.deleted_objects_never_come_back()

    def test_a_predecessor_that_appears_late_is_uncertain(
        self, machine: SelectiveInterleavings
    ) -> None:
        machine.delete(self.KEY)
        assert not machine.ledger.unconfirmed(self.KEY)
        machine.watch(1)
        self.check(machine)
        assert machine.ledger.unconfirmed(self.KEY)

    def test_a_live_read_settles_it_and_no_later_event_renews_it(
        self, machine: SelectiveInterleavings
    ) -> None:
        machine.delete(self.KEY)
        machine.watch(1)
        machine.begin_read(self.KEY)
        machine.answer_read()
        machine.foreign_write(self.KEY, on=True)
        while machine.position < len(machine.server.log):
            machine.watch(1)
            self.check(machine)
            assert not machine.ledger.unconfirmed(self.KEY)
        assert len(machine.store) == 1
        assert len(machine.ledger._unseen) == 0

    def test_a_live_read_from_before_the_delete_shows_the_predecessor_as_uncertain(
        self,
    ) -> None:
        machine = SelectiveInterleavings()
        machine.begin_read(self.KEY)
        machine.foreign_write(self.KEY, on=True)
        key, ticket = machine.reads.pop()
        found, at = entry_at(key, machine.server.live(key)), machine.server.clock
        machine.foreign_recreate(self.KEY, on=False)
        machine.delete(self.KEY)
        for event in machine.ledger.settle(ticket, found, str(at)):
            machine.deliver(event)
        self.check(machine)
        assert machine.ledger.unconfirmed(self.KEY)

    def test_a_list_from_before_the_delete_shows_the_predecessor_as_uncertain(self) -> None:
        machine = SelectiveInterleavings()
        machine.foreign_write(self.KEY, on=True)
        machine.start_list()
        machine.snapshot()
        machine.foreign_recreate(self.KEY, on=False)
        machine.delete(self.KEY)
        machine.answer_list()
        while machine.listing is not None:
            machine.step_list()
        self.check(machine)
        assert machine.ledger.unconfirmed(self.KEY)

    def test_the_late_answer_to_an_older_write_is_uncertain(self) -> None:
        machine = SelectiveInterleavings()
        machine.begin(self.KEY, delete=False, on=True)
        machine.commit(0)
        machine.foreign_recreate(self.KEY, on=False)
        older = machine.requests.pop()
        machine.delete(self.KEY)
        machine.requests.append(older)
        machine.answer(0)
        self.check(machine)
        assert machine.ledger.unconfirmed(self.KEY)

    def test_what_we_create_after_the_delete_is_certain(
        self, machine: SelectiveInterleavings
    ) -> None:
        machine.delete(self.KEY)
        machine.begin(self.KEY, delete=False, on=True)
        machine.commit(0)
        machine.answer(0)
        self.check(machine)
        assert not machine.ledger.unconfirmed(self.KEY)
        assert len(machine.store) == 1

    def test_a_list_that_was_requested_after_the_delete_passes_it(
        self, machine: SelectiveInterleavings
    ) -> None:
        machine.delete(self.KEY)
        machine.start_list()
        machine.answer_list()
        while machine.listing is not None:
            machine.step_list()
        assert len(machine.ledger._unseen) == len(machine.ledger._tombstones) == 0
        machine.foreign_write(self.KEY, on=True)
        machine.watch(1)
        assert not machine.ledger.unconfirmed(self.KEY)

    def test_memory_is_bounded_however_many_are_deleted_and_nothing_is_uncertain(self) -> None:
        ledger, _ = ledger_of(selective=True)
        take_over(ledger, [], "1")
        for number in range(10_000):
            ticket = ledger.begin(("ns", f"x{number}"))
            ledger.deleted(ticket, f"u{number}")
            ledger.end(ticket)
        assert len(ledger._unseen) <= SLOTS
        assert ledger.unconfirmed_keys == []

    def test_one_live_read_of_any_key_ends_the_memory_of_all_earlier_deletes(self) -> None:
        ledger, _ = ledger_of(selective=True)
        take_over(ledger, [], "1")
        for number in range(100):
            ticket = ledger.begin(("ns", f"x{number}"))
            ledger.deleted(ticket, f"u{number}")
            ledger.end(ticket)
        read = ledger.begin(("ns", "other"))
        ledger.settle(read, None, "500")
        ledger.end(read)
        ledger.bookmark("", "499")
        assert len(ledger._tombstones) == 100
        assert len(ledger._unseen) > 0
        ledger.bookmark("", "500")
        assert len(ledger._tombstones) == len(ledger._unseen) == 0


TestInterleavings = Interleavings.TestCase
TestSelectiveInterleavings = SelectiveInterleavings.TestCase
TestInterleavings.settings = TestSelectiveInterleavings.settings = settings(
    max_examples=300, stateful_step_count=40, deadline=None
)
