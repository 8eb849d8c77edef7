"""KO-01: a manager is idle by its state, however long that takes and however short."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from ctrlruntime import Builder, GroupVersionKind, Manifest, Request, Result
from ctrlruntime.cache.events import CreateEvent, Event
from ctrlruntime.client.client import Client
from ctrlruntime.controller.event_dispatch import EventDispatcher, EventQueue
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest import idle as subject
from ctrlruntime.envtest.eventually import TIMEOUT
from ctrlruntime.envtest.idle import WITHIN, idle
from ctrlruntime.envtest.proxy import Delay, DelayEvents, DropEvents, Match
from ctrlruntime.manager import Manager
from tests.support.clocks import standing_still
from tests.support.manager_harness import make_manager

pytestmark = pytest.mark.criterion("KO-01")

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
SECRET = GroupVersionKind("", "v1", "Secret")
LATE = 0.15
"""Seconds that something is late by: many times what a look takes."""
FOREVER = 3600.0


def config_map(name: str, kind: str = "ConfigMap", **labels: str) -> Manifest:
    metadata = {"name": name, "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata}


@dataclass(slots=True)
class Recorder:
    """A reconciler of ConfigMaps: records what it has done, and does what it is given."""

    results: list[float] = field(default_factory=list)
    """The delays after which it runs again."""
    work: Callable[[str], Awaitable[None]] | None = None
    done: list[str] = field(default_factory=list)
    """Names of objects whose reconcile has ended; that of an object that is gone begins with a dash."""
    client: Client | None = None

    async def reconcile(self, request: Request) -> Result | None:
        assert self.client is not None
        if self.work is not None:
            await self.work(request.name)
        there = await self.client.list(CONFIG_MAP, "default")
        names = {each["metadata"]["name"] for each in there}
        self.done.append(request.name if request.name in names else f"-{request.name}")
        return Result(requeue_after=self.results.pop(0)) if self.results else None


@dataclass(slots=True)
class Running:
    """A manager that runs, its reconciler, and a client past the proxy."""

    env: Environment
    manager: Manager
    recorder: Recorder
    client: Client

    async def idle(
        self,
        *,
        within: float = WITHIN,
        lost_after: float = math.inf,
        timeout: float = TIMEOUT,
    ) -> None:
        await idle(self.manager, self.client, within=within, lost_after=lost_after, timeout=timeout)


@pytest.fixture
async def env() -> AsyncIterator[Environment]:
    async with Environment(proxy=True) as environment:
        yield environment


@pytest.fixture
async def running(env: Environment) -> AsyncIterator[Running]:
    manager, recorder = make_manager(env.config("manager")), Recorder()
    recorder.client = manager.client
    builder = Builder(manager).for_(CONFIG_MAP, namespaces=["default"], labels="mine")
    builder.watches(SECRET, deferred).build(recorder)
    async with manager.running():
        made = Running(env, manager, recorder, env.client("envtest"))
        await made.idle()
        yield made


def deferred(event: Event, queue: EventQueue[Request]) -> None:
    """Enqueue a request of a Secret's name, by work that takes a while."""

    async def work() -> None:
        await asyncio.sleep(LATE)
        assert isinstance(event, CreateEvent)
        queue.add(Request(event.new.name, namespace="default"))

    queue.defer(work)


async def test_an_idle_manager_is_not_waited_for(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No time passes but that of the lists: nothing is slept for, whatever the delays are."""
    await running.client.create(config_map("a", mine=""))
    await running.idle()
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(subject, "sleep", sleep)
    mark = running.env.proxy.log.mark()
    await running.idle(within=FOREVER)
    assert slept == []
    assert running.env.proxy.log.since(mark).total == 0  # it is not asked on the manager's behalf
    assert running.recorder.done == ["a"]


async def test_an_event_on_its_way_is_waited_for(running: Running) -> None:
    running.env.proxy.add(DelayEvents(seconds=LATE), Match(resource="configmaps"))
    await running.client.create(config_map("a", mine=""))
    await running.idle()
    assert running.recorder.done == ["a"]


async def test_the_event_of_a_deletion_is_waited_for(running: Running) -> None:
    await running.client.create(config_map("a", mine=""))
    await running.idle()
    running.env.proxy.add(DelayEvents(seconds=LATE), Match(resource="configmaps"))
    await running.client.delete(CONFIG_MAP, "a", namespace="default")
    await running.idle()
    assert running.recorder.done == ["a", "-a"]


async def test_an_object_that_leaves_a_selection_is_waited_for(running: Running) -> None:
    await running.client.create(config_map("a", mine=""))
    await running.idle()
    running.env.proxy.add(DelayEvents(seconds=LATE), Match(resource="configmaps"))
    patch = {"metadata": {"labels": {"mine": None}}}
    await running.client.patch(CONFIG_MAP, "a", patch, namespace="default")
    await running.idle()
    assert running.recorder.done == ["a", "-a"]


async def test_what_is_not_selected_is_not_waited_for(running: Running) -> None:
    """Objects without the label, and of another namespace, send no events."""
    await running.client.create(config_map("a"))
    await running.client.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
    )
    other = config_map("b", mine="")
    other["metadata"]["namespace"] = "other"
    await running.client.create(other)
    await running.idle()
    assert running.recorder.done == []


async def test_a_reconcile_that_runs_is_waited_for(running: Running) -> None:
    started, released = asyncio.Event(), asyncio.Event()

    async def work(_name: str) -> None:
        started.set()
        await released.wait()

    running.recorder.work = work
    await running.client.create(config_map("a", mine=""))
    await started.wait()
    waiting = asyncio.create_task(running.idle())
    await asyncio.wait({waiting}, timeout=LATE)
    assert not waiting.done()
    released.set()
    await waiting
    assert running.recorder.done == ["a"]


async def test_work_that_a_handler_deferred_is_waited_for(running: Running) -> None:
    await running.client.create(config_map("s", "Secret"))
    await running.idle()
    assert running.recorder.done == ["-s"]


@pytest.mark.parametrize("stands_still", [0.0, 2.0])
async def test_a_batch_is_waited_for_and_a_poll_is_not(
    running: Running, stands_still: float
) -> None:
    """A status that is written after a short delay counts, however slow the machine is; a request each hour does not."""

    with standing_still() as let_pass:

        async def work(_name: str) -> None:
            let_pass(stands_still)

        running.recorder.work = work
        running.recorder.results = [0.1, 0.1, FOREVER]
        await running.client.create(config_map("a", mine=""))
        await running.idle()
    assert running.recorder.done == ["a"] * 3


async def test_a_longer_delay_is_waited_for_on_request(running: Running) -> None:
    running.recorder.results = [TIMEOUT / 2, FOREVER]
    await running.client.create(config_map("a", mine=""))
    await running.idle()
    assert running.recorder.done == ["a"]
    waiting = asyncio.create_task(running.idle(within=TIMEOUT))
    with standing_still() as let_pass:
        await asyncio.wait({waiting}, timeout=LATE)
        assert not waiting.done()
        let_pass(TIMEOUT / 2)
        await waiting
    assert running.recorder.done == ["a"] * 2


async def test_a_poll_that_sends_nothing_ends(running: Running) -> None:
    """Of a request that comes again and again only what is due within the time is waited for."""
    running.recorder.results = [0.02] * 100_000
    await running.client.create(config_map("a", mine=""))
    await running.idle(within=0.1)
    assert 2 <= len(running.recorder.done) < 1000


async def test_the_retry_of_an_error_is_waited_for(running: Running) -> None:
    failures = [RuntimeError("once"), RuntimeError("twice")]

    async def work(_name: str) -> None:
        if failures:
            raise failures.pop()

    running.recorder.work = work
    await running.client.create(config_map("a", mine=""))
    await running.idle()
    assert running.recorder.done == ["a"]


async def test_a_write_by_the_manager_is_waited_for_and_seen(running: Running) -> None:
    """A reconcile's own write changes the object: the event, and the reconcile that it starts, count."""

    async def work(name: str) -> None:
        if not running.recorder.done:
            patch = {"data": {"written": "yes"}}
            await running.manager.live_client.patch(CONFIG_MAP, name, patch, namespace="default")

    running.recorder.work = work
    running.env.proxy.add(DelayEvents(seconds=LATE, types=("MODIFIED",)), Match(name="a"))
    await running.client.create(config_map("a", mine=""))
    await running.idle()
    assert running.recorder.done == ["a", "a"]


async def test_events_that_are_recorded_are_waited_for(running: Running) -> None:
    running.env.proxy.add(Delay(seconds=LATE), Match(verb="create", resource="events*"))
    found = await running.client.create(config_map("a"))
    running.manager.recorder.event(found, "Normal", "Done", "Do", "as wanted")
    await running.idle()
    assert (
        running.env.proxy.log.counts().select(resource="events.events.k8s.io", code=201).total == 1
    )


async def test_a_request_under_way_is_waited_for(running: Running) -> None:
    """Whoever in the process sent it by the manager's client."""
    running.env.proxy.add(Delay(seconds=LATE), Match(verb="create", resource="configmaps"))
    request = asyncio.create_task(running.manager.client.create(config_map("a", mine="")))
    await asyncio.sleep(0)
    await running.idle()
    assert request.done()
    assert running.recorder.done == ["a"]


async def test_a_kind_that_is_declared_while_it_runs_is_waited_for(running: Running) -> None:
    running.env.proxy.add(Delay(seconds=LATE), Match(resource="services"))
    handle = running.manager.cache.declare(GroupVersionKind("", "v1", "Service"))
    await running.idle()
    assert handle.informer.synced


async def test_a_kind_that_the_server_lacks_is_not_waited_for(running: Running) -> None:
    running.manager.cache.declare(GroupVersionKind("example.com", "v1", "Shop"), optional=True)
    await running.idle()
    assert running.manager.cache.synced, "an optional kind holds nothing up"


async def test_what_is_left_to_do_is_in_the_error(running: Running) -> None:
    released = asyncio.Event()

    async def work(_name: str) -> None:
        await released.wait()

    running.recorder.work = work
    await running.client.create(config_map("a", mine=""))
    with pytest.raises(AssertionError, match=r"not idle after 0\.2 s: .*has requests"):
        await running.idle(timeout=0.2)
    released.set()


async def test_an_event_that_was_lost_is_waited_for_unless_the_test_expects_it(
    running: Running,
) -> None:
    running.env.proxy.add(DropEvents(), Match(resource="configmaps"))
    await running.client.create(config_map("a", mine=""))
    with pytest.raises(
        AssertionError, match=r"events on their way to informers of v1, Kind=ConfigMap in"
    ):
        await running.idle(timeout=0.3)
    await running.idle(lost_after=0.1)
    assert running.recorder.done == []


async def test_a_delay_counts_from_the_event_that_came_late(running: Running) -> None:
    running.recorder.results = [0.05]
    running.env.proxy.add(DelayEvents(seconds=LATE), Match(resource="configmaps"))
    await running.client.create(config_map("a", mine=""))
    await running.idle(within=0.1)
    assert running.recorder.done == ["a", "a"]


class SlowSource:
    """A source that takes a while to report what there is."""

    async def start(self, intake: EventDispatcher) -> None:
        self._queue = intake.queue

    async def wait_synced(self) -> None:
        await asyncio.sleep(LATE)
        self._queue.add(Request("late", namespace="default"))

    async def stop(self) -> None:
        """Do nothing."""


async def test_a_controller_that_has_not_started_is_waited_for(env: Environment) -> None:
    """Its sources are still being read when the manager runs."""
    manager, recorder = make_manager(env.config("manager")), Recorder()
    recorder.client = manager.client
    builder = Builder(manager).for_(CONFIG_MAP, namespaces=["default"])
    builder.watches_raw(SlowSource()).build(recorder)
    async with manager.running():
        await idle(manager, env.client("envtest"))
        assert recorder.done == ["-late"]
