"""A sharded controller while slots come and go: what is queued, what runs to its end, and what may be written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from typing import Any, Final, cast

import pytest
from structlog.testing import capture_logs

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import NotFound
from ctrlruntime.client.fence import SlotNotHeld
from ctrlruntime.controller import Builder, BuilderError, ControllerOptions, Result, slot_labels
from ctrlruntime.controller.slot_gate import SlotGate
from ctrlruntime.envtest.server import APIServer
from ctrlruntime.manager import Manager
from ctrlruntime.manager.sharding import ManagerHandOver
from ctrlruntime.queue import PriorityQueue, Request
from ctrlruntime.sharding import SLOT_LABEL, ShardingOptions, SlotHandOver, current_slot, slot_of
from ctrlruntime.sharding.shards import Shards
from tests.support.manager_harness import make_manager
from tests.support.waiting import eventually

CONFIG_MAP: Final = GroupVersionKind("", "v1", "ConfigMap")
NAMESPACE: Final = "default"
ONE: Final = frozenset({1})
TWO: Final = frozenset({2})


def name_in(slot: int, number: int = 0) -> str:
    """Return the name of an object of a slot."""
    found = (
        name for name in map("o{}".format, count()) if slot_of(name, namespace=NAMESPACE) == slot
    )
    return [next(found) for _ in range(number + 1)][number]


def request(slot: int, number: int = 0) -> Request:
    return Request(namespace=NAMESPACE, name=name_in(slot, number))


class Held:
    """Slots by the word of a test."""

    def __init__(self) -> None:
        self.held: frozenset[int] = frozenset()
        self.writable: frozenset[int] = frozenset()

    def may_write(self, slot: int) -> bool:
        return slot in self.writable

    def subscribe(self, handover: SlotHandOver) -> None:
        raise NotImplementedError

    def start(self) -> None:
        return

    async def end(self, *, release: bool) -> None:
        return


class Place:
    """A manager of which a test moves the slots; its reconciler waits while it is told to."""

    def __init__(self, server: APIServer) -> None:
        self.held = Held()
        sharding = ShardingOptions(group="test", slots=ONE, namespace=NAMESPACE)
        self.manager: Manager = make_manager(Config(host=server.url), sharding=sharding)
        self.manager.shards = cast("Shards", self.held)
        self.client = self.manager.live_client
        self.handover = ManagerHandOver(
            lambda: [self.manager.cache], lambda: self.manager.controllers
        )
        self.passes: list[str] = []
        self.slots: list[int | None] = []
        self.refused: list[int | None] = []
        self.goes_on = asyncio.Event()
        self.goes_on.set()
        self.controller = (
            Builder(self.manager)
            .for_(CONFIG_MAP, namespaces=[NAMESPACE])
            .sharded()
            .options(ControllerOptions(max_concurrent_reconciles=4))
            .build(self.reconcile)
        )

    async def reconcile(self, request: Request) -> Result:
        self.passes.append(request.name)
        self.slots.append(current_slot.get())
        await self.goes_on.wait()
        try:
            await self.manager.client.create(
                config_map(f"made-{request.name}", slot_labels(request))
            )
        except SlotNotHeld:
            self.refused.append(current_slot.get())
        return Result(requeue_after=3600.0)

    async def take(self, slots: frozenset[int]) -> None:
        await self.handover.take(slots)
        self.held.held |= slots
        self.held.writable |= slots
        self.handover.begin(slots)

    def release(self, slots: frozenset[int]) -> asyncio.Task[None]:
        self.held.held -= slots
        return asyncio.create_task(self.handover.release(slots))

    async def make(self, slot: int, number: int = 0) -> None:
        name = name_in(slot, number)
        await self.client.create(config_map(name, {SLOT_LABEL: str(slot)}))


def config_map(name: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with APIServer() as server:
        place = Place(server)
        async with place.manager.running():
            yield place
            place.goes_on.set()


@pytest.mark.criterion("SH-15")
async def test_passes_begin_when_a_slot_is_held_and_not_before(place: Place) -> None:
    await place.make(1)
    await place.make(2)
    await place.handover.take(ONE)
    await eventually(lambda: len(place.manager.cache.entries(CONFIG_MAP, NAMESPACE)) == 1)
    assert place.passes == []
    await place.take(ONE)
    await eventually(lambda: place.passes == [name_in(1)])
    assert place.slots == [1]
    place.controller.queue.add(request(2))
    await place.take(TWO)
    await eventually(lambda: name_in(2) in place.passes)
    await eventually(lambda: not place.controller.busy)
    assert sorted(place.passes) == sorted([name_in(1), name_in(2)]), "each once"


@pytest.mark.criterion("SH-15")
async def test_what_is_cached_of_all_slots_is_queued_when_its_slot_is_held() -> None:
    held, roots = Held(), [request(1), request(2)]
    gate = SlotGate[Request](held, roots=lambda: roots)
    queue = PriorityQueue[Request](gate=gate)
    held.held = ONE
    gate.begin(ONE, queue)
    found = queue.core.pop()
    assert found is not None
    assert (found.request, len(queue)) == (request(1), 0)


@pytest.mark.criterion("SH-15")
async def test_the_leader_labels_what_has_no_slot(place: Place) -> None:
    await place.take(ONE)
    await place.client.create(config_map(name_in(1)))
    await eventually(lambda: place.passes == [name_in(1)])
    found = await place.client.get(CONFIG_MAP, name_in(1), namespace=NAMESPACE)
    assert found["metadata"]["labels"] == {SLOT_LABEL: "1"}


@pytest.mark.criterion("SH-15")
async def test_an_object_with_a_label_of_another_slot_is_left_alone(place: Place) -> None:
    await place.take(ONE)
    with capture_logs() as logs:
        await place.client.create(config_map(name_in(2), {SLOT_LABEL: "1"}))
        await place.make(1)
        await eventually(lambda: place.passes == [name_in(1)])
    (remedy,) = [each["remedy"] for each in logs if each.get("name") == name_in(2)]
    assert remedy == f"kubectl label configmaps {name_in(2)} -n default {SLOT_LABEL}-"


@pytest.mark.criterion("SH-14")
@pytest.mark.criterion("SH-16")
async def test_a_release_waits_for_its_passes_whose_late_writes_are_not_sent(place: Place) -> None:
    place.goes_on.clear()
    await place.make(1)
    await place.make(2)
    await place.take(ONE | TWO)
    await eventually(lambda: len(place.passes) == 2)
    place.controller.queue.add(request(1))
    place.controller.queue.add(request(1, 1), after=0.2)
    releasing = place.release(ONE)
    queue = place.controller.queue
    await eventually(lambda: queue.core.waiting == len(queue) == 0)
    place.held.writable -= ONE
    assert not releasing.done()
    place.goes_on.set()
    await releasing
    assert sorted(place.passes) == sorted([name_in(1), name_in(2)]), "none began"
    assert place.refused == [1]
    entries = place.manager.cache.entries(CONFIG_MAP, NAMESPACE)
    assert {each.labels.get(SLOT_LABEL) for each in entries} == {"2"}
    with pytest.raises(NotFound):
        await place.client.get(CONFIG_MAP, f"made-{name_in(1)}", namespace=NAMESPACE)
    await eventually(
        lambda: place.client.get(CONFIG_MAP, f"made-{name_in(2)}", namespace=NAMESPACE),
        despite=NotFound,
    )
    assert place.controller.queue.core.waiting == 1, "what the other slot's pass asked for"


@pytest.mark.criterion("SH-14")
async def test_a_write_that_waited_for_its_turn_is_refused_when_it_leaves(place: Place) -> None:
    """The slot is asked after the wait for a connection, not before."""
    place.held.writable = ONE
    async with place.manager.cluster.connect(place.manager.fence) as client:
        token = current_slot.set(1)
        writing = asyncio.create_task(client.create(config_map("late")))
        current_slot.reset(token)
        await asyncio.sleep(0)  # it connects now
        place.held.writable = frozenset()
        with pytest.raises(SlotNotHeld, match="slot 1 is not held any more"):
            await writing
        await client.create(config_map("without"))  # outside of a pass leadership decides alone


@pytest.mark.criterion("SH-15")
async def test_what_is_kept_of_a_slot_that_never_comes_is_dropped() -> None:
    held = Held()
    gate: SlotGate[Request] = SlotGate(held)
    queue: PriorityQueue[Request] = PriorityQueue(gate=gate)
    gate.expect(ONE)
    queue.add(request(1), priority=3)
    queue.add(request(1), priority=7)
    await gate.release(ONE, queue)
    held.held = ONE
    gate.begin(ONE, queue)
    assert len(queue) == 0
    held.held = frozenset()
    gate.expect(ONE)
    queue.add(request(1), priority=7)
    held.held = ONE
    gate.begin(ONE, queue)
    assert (await queue.get()).priority == 7


async def test_a_sharded_controller_cannot_be_the_leaders_alone(place: Place) -> None:
    builder = Builder(place.manager).for_(CONFIG_MAP).named("other").sharded()
    builder.options(ControllerOptions(needs_leader_election=True))
    with pytest.raises(BuilderError, match="leave needs_leader_election out"):
        builder.build(place.reconcile)
