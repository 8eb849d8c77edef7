"""Informers whose slots come and go while they run: one watch, one list for what comes, no events for what goes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.cache import Cache, CacheOptions
from ctrlruntime.cache.entry import Key
from ctrlruntime.cache.events import CreateEvent, DeleteEvent, Event, GenericEvent
from ctrlruntime.cache.informer import InformerOptions
from ctrlruntime.cache.observe import NoInformerObserver
from ctrlruntime.cache.reflector import ReflectorOptions
from ctrlruntime.cache.slot_watch import SlotWatch
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import AlreadyExists, APIError, NotFound
from ctrlruntime.envtest.server import APIServer
from ctrlruntime.lifecycle import PerObject, PerUID
from ctrlruntime.lifecycle.owner_index import uid_index
from ctrlruntime.queue import Request
from ctrlruntime.sharding.slots import SLOT_LABEL, slot_of_labels
from tests.cache.conftest import manifest
from tests.cache.test_reflector import event, page
from tests.client.peer import Peer, says, streams
from tests.client.support import CONFIG_MAP, Widget, widget_crd
from tests.support.waiting import eventually

NAMESPACE: Final = "default"
IN_PAGES: Final = CacheOptions(
    sharded=True, informers=InformerOptions(reflector=ReflectorOptions(streaming=False))
)


class Relists(NoInformerObserver):
    """Counts lists after the first."""

    def __init__(self) -> None:
        self.count = 0

    def relisted(self, kind: GroupVersionKind) -> None:
        self.count += 1


class Mirror:
    """What a handler knows by events alone. An object that comes twice, or goes without having come, is an error."""

    def __init__(self) -> None:
        self.known: dict[Key, str] = {}
        self.slots: dict[Key, int | None] = {}
        self.held: frozenset[int] = frozenset()
        self.events: list[tuple[str, str]] = []
        self.initial: set[str] = set()
        self.faults: list[object] = []

    def __call__(self, event: Event) -> None:
        assert not isinstance(event, GenericEvent)
        entry = event.old if isinstance(event, DeleteEvent) else event.new
        if isinstance(event, CreateEvent):
            self.faults += [(event, entry)] * (entry.key in self.known)
            self.initial |= {entry.name} if event.initial else set()
        else:
            self.faults += [(event, entry)] * (entry.key not in self.known)
        self.events.append((type(event).__name__, entry.name))
        if isinstance(event, DeleteEvent):
            del self.known[entry.key]
        else:
            self.known[entry.key] = entry.resource_version
            self.slots[entry.key] = slot_of_labels(entry.labels)

    def forget(self, slots: frozenset[int]) -> None:
        """Let go what a dropped slot has: there is no event of it."""
        self.held -= slots
        self.known = {key: each for key, each in self.known.items() if self.slots[key] in self.held}


class Place:
    """A server, a cache whose ConfigMaps are sharded, and a client beside it."""

    def __init__(self, server: APIServer, client: Client) -> None:
        self.server = server
        self.client = client
        self.relists = Relists()
        self.cache = Cache(client, CacheOptions(sharded=True), self.relists)
        self.mirror = Mirror()
        self.informer = self.cache.declare(CONFIG_MAP).informer
        self.informer.add_handler(self.mirror)

    @property
    def names(self) -> set[str]:
        return {entry.name for entry in self.informer.store}

    async def watches(self) -> int:
        """Count the watches of the server, which notices the end of one by what it sends."""
        patch = {"data": {"n": str(len(self.mirror.events))}}
        await self.client.patch(CONFIG_MAP, "s1", patch, namespace=NAMESPACE)
        kind = self.server.state.catalog.find("", "v1", "configmaps")
        assert kind is not None
        return len(self.server.state.bucket(kind).watchers)

    async def make(self, name: str, slot: object) -> None:
        await self.client.create(config_map(name, slot))


def config_map(name: str, slot: object) -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {SLOT_LABEL: str(slot)}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with APIServer() as server, Client.connect(Config(host=server.url)) as client:
        place = Place(server, client)
        await place.cache.start()
        await place.cache.wait_synced(10.0)
        yield place
        await place.cache.stop()


def scripted(name: str, version: int, slot: str) -> dict[str, Any]:
    labels = {SLOT_LABEL: slot}
    return manifest(name, uid=f"uid-{name}", resourceVersion=str(version), labels=labels)


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    async with Peer() as peer:
        yield peer


def slots(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


@pytest.mark.criterion("SH-12")
async def test_slots_come_by_one_list_and_go_without_events(place: Place) -> None:
    for slot in range(4):
        await place.make(f"s{slot}", slot)
    assert place.names == set(), "a process without slots has nothing"
    await place.cache.take_slots(slots(0, 1))
    assert place.names == place.mirror.initial == {"s0", "s1"}
    await place.cache.take_slots(slots(1, 2))
    assert place.names == place.mirror.initial == {"s0", "s1", "s2"}
    await place.make("later", 2)
    await eventually(lambda: "later" in place.names)
    assert "later" not in place.mirror.initial
    await place.cache.drop_slots(slots(0, 2))
    assert place.names == {"s1"}
    assert {kind for kind, _ in place.mirror.events} == {"CreateEvent"}
    assert place.relists.count == 0
    await eventually(place.watches, lambda count: count == 1)


@pytest.mark.criterion("SH-16")
@pytest.mark.parametrize("memory", [PerObject[int], PerUID[int]])
async def test_what_is_remembered_of_an_object_goes_with_its_slot(
    place: Place, memory: type[PerObject[int] | PerUID[int]]
) -> None:
    informer = place.cache.informer(CONFIG_MAP)
    informer.store.add_index("uid", uid_index)
    kept = memory(informer)
    for slot in range(2):
        await place.make(f"s{slot}", slot)
    await place.cache.take_slots(slots(0, 1))
    for entry in informer.store:
        key: Any = Request(entry.name, namespace=NAMESPACE)
        uid: Any = entry.uid
        kept.put(key if memory is PerObject[int] else uid, 1)
    assert len(kept) == 2
    await place.cache.drop_slots(slots(0))
    assert len(kept) == 1
    await place.cache.take_slots(slots(0))
    assert len(kept) == 1, "another process worked on it meanwhile"


@pytest.mark.criterion("SH-12")
async def test_changes_of_a_slot_that_is_gone_are_not_seen(place: Place) -> None:
    await place.make("a", 0)
    await place.make("b", 1)
    await place.cache.take_slots(slots(0, 1))
    await place.cache.drop_slots(slots(0))
    known = list(place.mirror.events)
    for name in ("a", "b"):
        await place.client.delete(CONFIG_MAP, name, namespace=NAMESPACE)
    await eventually(lambda: place.names == set())
    assert place.mirror.events == [*known, ("DeleteEvent", "b")]


@pytest.mark.criterion("SH-12")
async def test_an_own_write_beside_the_slots_leaves_nothing_behind(place: Place) -> None:
    cached = place.cache.client()
    await place.cache.take_slots(slots(0))
    await cached.create(config_map("mine", 0))
    await cached.create(config_map("other", 1))
    assert place.names == {"mine"}
    await place.cache.take_slots(slots(1))
    assert place.names == {"mine", "other"}, "its own write is no reason to leave it out"


@pytest.mark.criterion("SH-12")
@pytest.mark.parametrize("seed", range(3))
async def test_nothing_is_lost_or_doubled_while_everything_moves(place: Place, seed: int) -> None:
    """Objects are written, relabelled and deleted while slots come and go in no order."""
    chance = random.Random(seed)
    mirror = place.mirror
    writing = True

    async def write() -> None:
        while writing:
            name, slot = f"o{chance.randrange(12)}", chance.randrange(4)
            try:
                if chance.random() < 0.4:
                    await place.client.delete(CONFIG_MAP, name, namespace=NAMESPACE)
                elif chance.random() < 0.5:
                    await place.make(name, slot)
                else:
                    patch = {"metadata": {"labels": {SLOT_LABEL: str(slot)}}}
                    await place.client.patch(CONFIG_MAP, name, patch, namespace=NAMESPACE)
            except (AlreadyExists, NotFound):
                continue

    writers = [asyncio.create_task(write()) for _ in range(3)]
    for _ in range(60):
        some = slots(*chance.sample(range(4), chance.randrange(1, 3)))
        if chance.random() < 0.55:
            mirror.held |= some
            await place.cache.take_slots(some)
        else:
            mirror.forget(some)
            await place.cache.drop_slots(some)
    mirror.held |= slots(0, 1)
    await place.cache.take_slots(slots(0, 1))
    writing = False
    await asyncio.gather(*writers)
    there = await place.client.list(CONFIG_MAP, NAMESPACE)
    wanted = {
        (NAMESPACE, each["metadata"]["name"]): each["metadata"]["resourceVersion"]
        for each in there
        if slot_of_labels(each["metadata"].get("labels")) in mirror.held
    }
    await eventually(lambda: mirror.known == wanted)
    assert {entry.key: entry.resource_version for entry in place.informer.store} == wanted
    assert (mirror.faults, place.relists.count) == ([], 0)


@pytest.mark.criterion("SH-12")
async def test_a_kind_that_is_not_served_does_not_hold_slots_up(place: Place) -> None:
    """Its objects come once it is served. Waits for them, at most 120 s."""
    place.cache.declare(Widget)
    await place.cache.take_slots(slots(0))
    await place.client.create(widget_crd())
    place.cache.notify_discovery_changed()
    widget = config_map("w", 0) | {"apiVersion": "client.example.com/v1", "kind": "Widget"}
    await eventually(lambda: place.cache.informer(Widget).synced)
    await place.client.create(widget)
    await eventually(lambda: [e.name for e in place.cache.informer(Widget).store] == ["w"])


@pytest.mark.criterion("SH-12")
async def test_a_list_that_fails_takes_nothing_and_can_be_repeated(peer: Peer) -> None:
    listed = page(10)
    mine = scripted("mine", 11, "0")
    peer.answers = [
        says(listed),
        streams(then=peer.released.wait),
        says(b"busy", status=500),
        says(page(12, mine)),
        streams(then=peer.released.wait),
    ]
    async with Client.connect(Config(host=peer.url)) as client:
        cache = Cache(client, IN_PAGES)
        informer = cache.declare(CONFIG_MAP).informer
        await cache.start()
        await cache.wait_synced(10.0)
        with pytest.raises(APIError):
            await cache.take_slots(slots(0))
        assert list(informer.store) == []
        await cache.take_slots(slots(0))
        assert [entry.name for entry in informer.store] == ["mine"]
        peer.released.set()
        await cache.stop()


@pytest.mark.criterion("SH-13")
async def test_what_a_server_sends_of_other_slots_is_left_alone(peer: Peer) -> None:
    """A server that filters nothing, in lists and in watches. Waits for what is taken in of it, at most 120 s."""
    mine, other, bare = (
        scripted("mine", 3, "0"),
        scripted("other", 4, "1"),
        scripted("bare", 5, "none"),
    )
    moved = scripted("mine", 14, "1")
    changes = [event("ADDED", scripted("late", 13, "2")), event("MODIFIED", moved)]
    listed = page(10, mine, other, bare)
    lines = b"".join(line + b"\n" for line in changes)
    peer.answers = [
        says(listed),
        streams(then=peer.released.wait),
        says(listed),
        streams(lines, then=peer.released.wait),
    ]
    async with Client.connect(Config(host=peer.url)) as client:
        cache = Cache(client, IN_PAGES)
        mirror = Mirror()
        cache.declare(CONFIG_MAP).informer.add_handler(mirror)
        await cache.start()
        await cache.wait_synced(10.0)
        await cache.take_slots(slots(0))
        await eventually(
            lambda: mirror.events == [("CreateEvent", "mine"), ("DeleteEvent", "mine")]
        )
        peer.released.set()
        await cache.stop()


@pytest.mark.criterion("SH-12")
async def test_what_leaves_a_slot_stays_in_the_one_whose_list_had_it(peer: Peer) -> None:
    """The watch reports a relabelled object as DELETED, with its former slot and the version that the list has already."""
    left = event("DELETED", scripted("moved", 12, "0"))
    after = event("ADDED", scripted("after", 13, "0"))
    peer.answers = [
        says(page(10)),
        streams(then=peer.released.wait),
        says(page(12, scripted("moved", 12, "1"))),
        streams(left + b"\n" + after + b"\n", then=peer.released.wait),
    ]
    async with Client.connect(Config(host=peer.url)) as client:
        cache = Cache(client, IN_PAGES)
        mirror = Mirror()
        informer = cache.declare(CONFIG_MAP).informer
        informer.add_handler(mirror)
        await cache.start()
        await cache.wait_synced(10.0)
        await cache.take_slots(slots(0, 1))
        await eventually(lambda: ("CreateEvent", "after") in mirror.events)
        assert {entry.name for entry in informer.store} == {"moved", "after"}
        assert ("DeleteEvent", "moved") not in mirror.events
        peer.released.set()
        await cache.stop()


def test_the_next_watch_begins_at_the_oldest_version_and_repeats_nothing() -> None:
    watch = SlotWatch()
    watch.slots = watch.watched = slots(0)
    watch.listed(slots(0), "10")
    watch.add(slots(1), "20")
    assert watch.resume("15") == "15"
    watch.watched = watch.slots
    assert [watch.is_repeated(1, 20), watch.is_repeated(1, 21)] == [True, False]
    assert not watch.is_repeated(0, 16)
    watch.remove(slots(0))
    assert watch.resume("17") == "20", "what is gone needs no events"
    watch.add(slots(2), "")
    assert watch.resume("21") == "", "a slot that was never listed takes a list"
