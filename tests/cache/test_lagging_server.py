"""A server that lags, as one of several behind a load balancer may: older answers are not taken over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from ctrlruntime.cache.cache import Cache, CacheOptions
from ctrlruntime.cache.events import CreateEvent, DeleteEvent, Event, UpdateEvent
from ctrlruntime.cache.informer import InformerOptions
from ctrlruntime.cache.reflector import ReflectorOptions
from ctrlruntime.client.client import Client
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.proxy import DropEvents, GoneWatch, Match, StaleReads
from tests.client.support import CONFIG_MAP, config_map

LISTS = Match(user="manager", verb="list", resource="configmaps")
WATCHES = Match(user="manager", verb="watch", resource="configmaps")


@pytest.fixture
async def environment() -> AsyncGenerator[Environment, None]:
    async with Environment(proxy=True) as environment:
        yield environment


@pytest.fixture
async def cache(environment: Environment) -> AsyncGenerator[Cache, None]:
    options = ReflectorOptions(streaming=False, sleep=lambda _seconds: asyncio.sleep(0.01))
    async with Client.connect(environment.config("manager")) as client:
        cache = Cache(client, CacheOptions(informers=InformerOptions(reflector=options)))
        yield cache
        await cache.stop()


async def shown(cache: Cache, *names: str) -> None:
    """Until the cache holds exactly these."""
    reached = asyncio.Event()

    def check(_event: Event) -> None:
        if {entry.name for entry in cache.informer(CONFIG_MAP).store} == set(names):
            reached.set()

    registration = cache.informer(CONFIG_MAP).add_handler(check)
    async with asyncio.timeout(60.0):
        await reached.wait()
    registration.remove()


@pytest.mark.criterion("RF-24")
async def test_a_list_older_than_what_the_watch_has_reported_is_refused(
    environment: Environment, cache: Cache
) -> None:
    admin, proxy = environment.client("admin"), environment.proxy
    stale = proxy.add(StaleReads(), LISTS, times=None)
    await admin.create(config_map("old"))
    informer = cache.declare(CONFIG_MAP, namespaces=["default"]).informer
    await cache.start()
    await shown(cache, "old")
    await admin.create(config_map("new"))
    await admin.delete(CONFIG_MAP, "old", namespace="default")
    await shown(cache, "new")
    told: list[Event] = []
    registration = informer.add_handler(told.append)
    await registration.wait_synced(10.0)
    told.clear()
    before = informer.resource_version

    proxy.add(GoneWatch(), WATCHES)
    await admin.create(config_map("newest"))
    await shown(cache, "new", "newest")
    assert stale.fired == 1  # the first relist was the old list; the second asked for NotOlderThan
    assert informer.resource_version > before
    assert [event.new.name for event in told if isinstance(event, CreateEvent)] == ["newest"]
    assert not [event for event in told if isinstance(event, DeleteEvent)]


@pytest.mark.criterion("CL-14")
async def test_an_object_in_doubt_is_not_settled_by_an_older_answer(
    environment: Environment, cache: Cache
) -> None:
    admin, proxy = environment.client("admin"), environment.proxy
    await admin.create(config_map("a", {"k": "1"}))
    informer = cache.declare(CONFIG_MAP, namespaces=["default"]).informer
    await cache.start()
    await shown(cache, "a")
    proxy.add(DropEvents(), WATCHES, times=None)
    stale = proxy.add(StaleReads(), LISTS, times=None)
    await cache.refresh(CONFIG_MAP, "a", namespace="default")  # the answer that is given again
    await cache.client().patch(CONFIG_MAP, "a", {"data": {"k": "2"}}, namespace="default")
    await admin.patch(CONFIG_MAP, "a", {"data": {"k": "3"}}, namespace="default")
    informer.doubt(("default", "a"))
    found = await cache.client().get(CONFIG_MAP, "a", namespace="default")
    assert stale.fired == 1
    assert found["data"] == {"k": "3"}
    assert not cache.unconfirmed(CONFIG_MAP, "a", namespace="default")


@pytest.mark.criterion("SIM-F1")
async def test_handlers_end_with_the_state_that_a_list_brought(
    environment: Environment, cache: Cache
) -> None:
    """A list hides what an own write went past, so its change is reported again: as it is by then."""
    admin, proxy = environment.client("admin"), environment.proxy
    await admin.create(config_map("a", {"k": "1"}))
    informer = cache.declare(CONFIG_MAP, namespaces=["default"]).informer
    await cache.start()
    await shown(cache, "a")
    proxy.add(DropEvents(), WATCHES, times=None)
    events: list[Event] = []
    informer.add_handler(events.append)
    await cache.client().patch(CONFIG_MAP, "a", {"data": {"k": "2"}}, namespace="default")
    await admin.patch(CONFIG_MAP, "a", {"data": {"k": "3"}}, namespace="default")

    proxy.clear()
    proxy.add(GoneWatch(), WATCHES)
    await admin.create(config_map("b"))
    await shown(cache, "a", "b")
    changes = [each for each in events if isinstance(each, UpdateEvent) and each.new.name == "a"]
    assert len(changes) >= 3, "the write, the list, and the write's change again"
    assert [each.new.decode()["data"]["k"] for each in changes][-2:] == ["3", "3"]
