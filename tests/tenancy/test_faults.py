"""The whole tenancy system under every fault of the proxy, over HTTP.

A fleet lives through the same story (see `story`) with and without a fault; it ends in the same
state, nothing doubled, nothing born again, and then nothing is asked any more but watches. Faults of
single requests are told side by side, each in a namespace of its own; faults of streams, which all
fleets share, one after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import math
import os
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from _pytest.mark import ParameterSet

from ctrlruntime.backoff import BackoffOptions
from ctrlruntime.cache.informer import InformerOptions
from ctrlruntime.cache.options import CacheOptions
from ctrlruntime.cache.reflector import ReflectorOptions
from ctrlruntime.envtest.proxy import (
    Action,
    ActiveRule,
    Cut,
    CutWatch,
    Delay,
    DelayEvents,
    DropEvents,
    Fail,
    GoneWatch,
    LoseReply,
    Match,
    Proxy,
    SilenceWatch,
    StaleReads,
)
from internal.tenancy.shared.missing_permissions import GRANTED
from tests.tenancy.fault_scenario import Ending, Story, sample_lists
from tests.tenancy.harness import DEPLOYMENT, TenancyHarness
from tests.tenancy.servers import EMBEDDED, server_of

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.criterion("faults"),
    pytest.mark.xdist_group("faults of tenancy"),
]

INACTIVITY = 2.0
"""Silent watches are noticed soon: the embedded server's bookmarks come four times as often."""
INACTIVITY_REAL = 10.0
"""A real server has one a minute. There a watch of an idle kind is taken up again and again."""


def impatient() -> CacheOptions:
    """A minute of faults is told in seconds: waits grow to one second in place of thirty."""
    reflector = ReflectorOptions(
        inactivity=INACTIVITY if TenancyHarness.shared_server is None else INACTIVITY_REAL,
        backoff=BackoffOptions(initial=0.1, cap=1.0),
    )
    return CacheOptions(informers=InformerOptions(reflector=reflector, resync=None))


LOST = 0.5
"""Seconds after which an event that was dropped is not waited for."""
MOST_FAULTS = 6
"""As many in a row double a wait as often: to a minute, however they fall."""
SMALL = {name: sample_lists()[name] for name in ("configMaps", "secrets")}
UNORDERED = sample_lists(ordered=False)
WRITES_OF_SMALL = 22
"""Writes in the life of a small fleet, statuses of registry and template among them."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(
    shared_server: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[TenancyHarness]:
    """One harness for all; bookmarks come often, so that a watch that brings none is silent."""
    folder = tmp_path_factory.mktemp("faults")
    server = {"bookmark_interval": INACTIVITY / 4}
    async with TenancyHarness.start(
        folder, nodes=True, cache=impatient(), server=server
    ) as harness:
        yield harness
        await harness.idle()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def calm(harness: TenancyHarness) -> Ending:
    """How the five-resource story ends without a fault."""
    return await (await Story.make(harness)).run_scenario()


# -- faults of single requests ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong with a fleet's own requests or events."""

    action: Action
    verb: str = "write"
    nth: int = 1
    times: int | None = None
    every: int | None = None
    """Fires on every so manieth match, MOST_FAULTS times, in place of `nth` and `times`."""
    lists: dict[str, Any] | None = None

    def bring(self, proxy: Proxy, namespace: str) -> Callable[[], int]:
        """Put it in force in one namespace. Returns what tells how often it fired."""
        match = Match(user="manager", verb=self.verb, namespace=namespace)
        if self.every is None:
            rule = proxy.add(self.action, match, nth=self.nth, times=self.times)
            return lambda: rule.fired
        return every(proxy, self.action, match, self.every)


def every(proxy: Proxy, action: Action, match: Match, n: int) -> Callable[[], int]:
    """Let an action fire on every n-th match, MOST_FAULTS times."""
    fired = 0

    def again(rule: ActiveRule, _info: object) -> None:
        nonlocal fired
        fired += 1
        proxy.remove(rule)
        if fired < MOST_FAULTS:
            proxy.add(action, match, nth=n, notify=again)

    proxy.add(action, match, nth=n, notify=again)
    return lambda: fired


FAULTS = {
    **{
        f"no answer to write {n}": Fault(LoseReply(), nth=n, times=1, lists=SMALL)
        for n in range(1, WRITES_OF_SMALL)
    },
    "no answer to any write": Fault(LoseReply()),
    "no answer to every second write": Fault(LoseReply(), every=2),
    "no answer to every third write": Fault(LoseReply(), every=3),
    "every second write cut off": Fault(Cut(), every=2),
    "every second write answered 500": Fault(Fail(code=500), every=2),
    "every second write answered 503": Fault(Fail(code=503), every=2),
    "every second write answered 504": Fault(Fail(code=504, reason="Timeout"), every=2),
    "every second write in conflict": Fault(Fail(code=409, reason="Conflict"), every=2),
    "every second write told to wait": Fault(Fail(code=429, retry_after=1), every=2),
    "every second write told to wait by 503": Fault(Fail(code=503, retry_after=1), every=2),
    "every read cut off at first": Fault(Cut(), verb="read", times=MOST_FAULTS),
    "answers later than their events": Fault(Delay(seconds=0.4, when="after")),
    "slow requests": Fault(Delay(seconds=0.4, when="before")),
}
NEVER_LOUD = {"every read cut off at first", "no answer to write 20", "no answer to write 21"}
"""Faults that need not find anything to meet."""

Tale = tuple[Story, Ending, int]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tales(
    request: pytest.FixtureRequest, harness: TenancyHarness, calm: Ending, calm_small: Ending
) -> AsyncIterator[dict[str, asyncio.Task[Tale]]]:
    """The stories with faults of their own that are asked for, told at the same time, after the calm ones."""
    asked = {
        item.callspec.params.get("name")
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and hasattr(item, "callspec")
        and (server_of(item) == EMBEDDED) is not harness.is_real
    }
    told = {
        name: asyncio.create_task(under(harness, fault))
        for name, fault in FAULTS.items()
        if name in asked
    }
    yield told
    for task in told.values():
        task.cancel()
    await asyncio.gather(*told.values(), return_exceptions=True)


async def under(harness: TenancyHarness, fault: Fault) -> Tale:
    story = await Story.make(harness, fault.lists)
    fired = fault.bring(harness.environment.proxy, story.fleet.namespace)
    return story, await story.run_scenario(), fired()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def calm_small(harness: TenancyHarness) -> Ending:
    return await (await Story.make(harness, SMALL)).run_scenario()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def calm_unordered(harness: TenancyHarness) -> Ending:
    return await (await Story.make(harness, UNORDERED)).run_scenario()


OF_THE_SERVER = {
    "no answer to write 1",
    "no answer to any write",
    "no answer to every second write",
    "answers later than their events",
}
"""Faults after a request was carried out. Others stop requests before they reach the server."""


def param(name: str) -> ParameterSet:
    """A fault for a test; those that say little about the server are marked."""
    return pytest.param(name, marks=[] if name in OF_THE_SERVER else [pytest.mark.matrix])


@pytest.mark.parametrize("name", [param(name) for name in FAULTS])
async def test_a_fleet_comes_through(
    name: str,
    tales: dict[str, asyncio.Task[Tale]],
    calm: Ending,
    calm_small: Ending,
) -> None:
    _story, ending, fired = await tales[name]
    expected = calm_small if FAULTS[name].lists is SMALL else calm
    assert fired or name in NEVER_LOUD
    compare(ending, expected)
    lost = isinstance(FAULTS[name].action, LoseReply)
    assert ending.surplus(expected).total() <= (fired if lost else 0)
    assert ending.status_writes <= 5 + fired


def compare(ending: Ending, calm: Ending) -> None:
    """The same objects, and those that were there from the start."""
    assert ending.objects == calm.objects
    assert ending.reborn == []


# -- faults of streams, and of the server as a whole -------------------------------------------------

STREAMS = Match(user="manager")
LISTS = Match(user="manager", verb="list")
WATCHES = Match(user="manager", verb="watch")


async def test_own_writes_that_are_seen_late_are_not_repeated(
    harness: TenancyHarness, calm: Ending
) -> None:
    """Every event comes 0.3 s after its forerunner: many of them long after the next write."""
    story = await Story.make(harness)
    rule = harness.environment.proxy.add(DelayEvents(seconds=0.3), STREAMS, times=None)
    with removing(harness, rule):
        ending = await story.run_scenario()
    compare(ending, calm)
    assert rule.fired > 20
    assert ending.surplus(calm).total() == 0
    assert await story.versions("a-app") == ending.writes_of("tenants", "a-app")


@pytest.mark.parametrize(
    "resource",
    [
        pytest.param("tenants.*", marks=pytest.mark.matrix, id="tenants"),
        pytest.param("deployments.apps", marks=pytest.mark.matrix, id="deployments"),
        pytest.param("*s", id="all"),
    ],
)
async def test_a_fleet_is_driven_by_answers_where_no_event_comes(
    harness: TenancyHarness, calm_unordered: Ending, resource: str
) -> None:
    """Run alone: an answer that comes after a later event of the same watch, or a bookmark, is old news.

    Only a proxy drops one event and delivers the next.
    """
    story = await Story.make(harness, UNORDERED)
    story.lost_after = LOST
    lost = Match(user="manager", resource=resource, namespace=story.fleet.namespace)
    rule = harness.environment.proxy.add(DropEvents(), lost, times=None)
    bookmarks = harness.environment.proxy.add(DropEvents(types=("BOOKMARK",)), STREAMS, times=None)
    with removing(harness, rule), removing(harness, bookmarks):
        ending = await story.run_scenario()
    await list_again(harness)
    assert rule.fired
    compare(ending, calm_unordered)
    assert ending.surplus(calm_unordered).total() == 0
    assert ending.status_writes <= 5 + rule.fired


async def test_events_of_others_that_were_lost_are_made_up_for_by_the_next_list(
    harness: TenancyHarness, calm: Ending
) -> None:
    """The Deployment is ready, and nobody said so: the list after an expired watch does."""
    story, proxy = await Story.make(harness), harness.environment.proxy
    lost = Match(user="manager", resource="deployments.apps", namespace=story.fleet.namespace)
    # A list that a slow machine brings about, after a silent watch, would make up for them too soon.
    lists = Match(user="manager", verb="list", resource="deployments.apps")
    with (
        removing(harness, proxy.add(DropEvents(), lost, times=None)),
        removing(harness, proxy.add(Fail(code=500), lists, times=None)),
    ):
        beginning = asyncio.create_task(story.begin())
        for name in ("a", "b"):
            await story.fleet.there(DEPLOYMENT, f"{name}-web", is_available)
        story.lost_after = LOST
        await story.idle()
    assert not beginning.done()
    await list_again(harness)
    story.lost_after = math.inf
    await beginning
    await story.change()
    compare(await story.end(), calm)


@pytest.mark.matrix
@pytest.mark.parametrize("clean", [True, False], ids=["ended", "broken"])
async def test_watches_cut_again_and_again(
    harness: TenancyHarness, calm: Ending, clean: bool
) -> None:
    def cut() -> None:
        cut_watches(harness.environment.proxy, clean=clean)

    await run_during(harness, calm, cut, period=0.3)


async def test_watches_that_expire_again_and_again(harness: TenancyHarness, calm: Ending) -> None:
    await run_during(harness, calm, lambda: expire_watches(harness), period=0.5)


@pytest.mark.matrix
async def test_an_expired_event_in_place_of_every_fourth(
    harness: TenancyHarness, calm: Ending
) -> None:
    """A server whose bookmarks come seldom has fewer events: there the story is told again."""
    fired = every(harness.environment.proxy, GoneWatch(), STREAMS, 4)
    with clearing(harness):
        while fired() < MOST_FAULTS:
            ending = await (await Story.make(harness)).run_scenario()
            compare(ending, calm)
            assert ending.surplus(calm).total() == 0


@pytest.mark.matrix
async def test_watches_that_fall_silent(harness: TenancyHarness, calm: Ending) -> None:
    """Open connections that carry nothing: after a while without a bookmark they are given up."""
    story = await Story.make(harness)
    rule = harness.environment.proxy.add(SilenceWatch(), STREAMS, times=12)
    with removing(harness, rule):
        ending = await story.run_scenario()
    assert rule.fired == 12
    compare(ending, calm)
    assert ending.surplus(calm).total() == 0


async def test_lists_older_than_our_own_writes(harness: TenancyHarness, calm: Ending) -> None:
    """Whenever the manager lists, it is answered from the past."""
    stale = harness.environment.proxy.add(StaleReads(), LISTS, times=None)
    expire = functools.partial(expire_watches, harness, pages=True)
    await run_during(harness, calm, expire, period=0.5, until=lambda: stale.fired > 0)


@pytest.mark.matrix
async def test_lists_that_fail(harness: TenancyHarness, calm: Ending) -> None:
    failed = every(harness.environment.proxy, Fail(code=500), LISTS, 2)
    expire = functools.partial(expire_watches, harness, pages=True)
    await run_during(harness, calm, expire, period=0.5, until=lambda: failed() > 0)


@pytest.mark.matrix
async def test_nothing_gets_through_for_a_while(harness: TenancyHarness, calm: Ending) -> None:
    """The network between manager and server is cut for two seconds, twice."""
    story = await Story.make(harness)

    async def cut() -> None:
        proxy = harness.environment.proxy
        with clearing(harness):
            proxy.add(Cut(), STREAMS, times=None)
            cut_watches(proxy, clean=False)
            await asyncio.sleep(2)

    beginning = asyncio.create_task(story.begin())
    await asyncio.sleep(0.2)
    await cut()
    await beginning
    changing = asyncio.create_task(story.change())
    await asyncio.sleep(1)
    await cut()
    await changing
    compare(await story.end(), calm)


async def test_the_server_restarts(harness: TenancyHarness, calm: Ending) -> None:
    """It is gone for two seconds in the midst of the work, and comes back with what it had.

    A real one on a busy machine takes a minute for that, and waits between attempts have grown so long.
    """
    story = await Story.make(harness)
    await story.plant()

    async def at_work() -> bool:
        return story.writes().total() > 2

    await harness.eventually(at_work)
    await harness.outage(seconds=2)
    ending = await story.go_on()
    for item in ending.objects.values():  # a server that starts refuses what it allows later
        if item["conditions"].get(GRANTED, ["True"])[0] == "True":
            item["conditions"].pop(GRANTED, None)
    compare(ending, calm)


# -- a storm ---------------------------------------------------------------------------------------

STORM_SECONDS = 8.0


@pytest.mark.matrix
@pytest.mark.parametrize("seed", [int(os.environ.get("STORM_SEED", "20260102"))])
async def test_a_storm_of_faults(harness: TenancyHarness, calm: Ending, seed: int) -> None:
    """All faults in turn and at once, as a seed says, on three fleets. STORM_SEED tells another."""
    print(f"STORM_SEED={seed}")
    chance = random.Random(seed)
    stories = [await Story.make(harness) for _ in range(3)]
    storm = asyncio.create_task(blow(harness, chance))
    try:
        for step in (Story.begin, Story.change):
            await asyncio.gather(*(step(story) for story in stories))
    finally:
        storm.cancel()
        await asyncio.gather(storm, return_exceptions=True)
    await list_again(harness)
    for story in stories:
        compare(await story.end(), calm)


async def blow(harness: TenancyHarness, chance: random.Random) -> None:
    """Faults without a pause, for a while, and a list at the end: it tells what was dropped."""
    proxy = harness.environment.proxy
    requests = Match(user="manager", verb="write")
    weather: list[Callable[[], object]] = [
        lambda: proxy.add(LoseReply(), requests, nth=chance.randint(1, 3)),
        lambda: proxy.add(Cut(), requests, nth=chance.randint(1, 3)),
        lambda: proxy.add(Fail(code=chance.choice([500, 503, 504, 409])), requests),
        lambda: proxy.add(Fail(code=429, retry_after=1), requests),
        lambda: proxy.add(Delay(seconds=chance.random(), when="after"), requests, times=3),
        lambda: proxy.add(DelayEvents(seconds=chance.random()), STREAMS, times=3),
        lambda: proxy.add(DropEvents(), STREAMS, times=3),
        lambda: proxy.add(GoneWatch(), STREAMS, times=2),
        lambda: proxy.add(CutWatch(clean=chance.random() < 0.5), STREAMS, times=3),
        lambda: proxy.add(SilenceWatch(), STREAMS, times=1),
        lambda: proxy.add(StaleReads(behind=1), LISTS, times=5),
        lambda: proxy.add(Fail(code=500), LISTS, times=1),
    ]
    try:
        async with asyncio.timeout(STORM_SECONDS):
            for gust in itertools.count(1):
                chance.choice(weather)()
                await asyncio.sleep(chance.uniform(0.05, 0.4))
                if gust % 12 == 0:
                    proxy.clear()
                    expire_watches(harness, pages=chance.random() < 0.5)
    except TimeoutError:
        pass
    finally:
        proxy.clear()
    await list_again(harness)


# -- means -----------------------------------------------------------------------------------------


async def run_during(
    harness: TenancyHarness,
    calm: Ending,
    fault: Callable[[], object],
    *,
    period: float,
    until: Callable[[], bool] = lambda: True,
) -> None:
    """Tell a story while a fault comes every `period` seconds, and at least `until` it was met."""

    async def met() -> bool:
        return until()

    story = await Story.make(harness)

    async def again() -> None:
        while True:
            fault()
            await asyncio.sleep(period)

    faults = asyncio.create_task(again())
    try:
        await story.begin()
        await story.change()
        await harness.eventually(met)
    finally:
        faults.cancel()
        harness.environment.proxy.clear()
    ending = await story.end()
    compare(ending, calm)
    assert ending.surplus(calm).total() == 0


def expire_watches(harness: TenancyHarness, *, pages: bool = False) -> None:
    """End every watch of the manager, and refuse to take any up where it ended.

    `pages`: refuse the list as a stream, too, so that it is read in pages.
    """
    proxy = harness.environment.proxy
    refusals = len(proxy.streams) * (2 if pages else 1)
    if refusals:
        proxy.add(Fail(code=410, reason="Expired"), WATCHES, times=refusals)
    cut_watches(proxy)


def cut_watches(proxy: Proxy, *, clean: bool = True) -> None:
    """End every watch that is open now."""
    proxy.remove(proxy.add(CutWatch(clean=clean), STREAMS, times=100))


def is_available(deployment: Mapping[str, Any]) -> bool:
    """Whether its nodes have started all of it."""
    status = deployment.get("status") or {}
    return bool(status.get("availableReplicas") == deployment["spec"]["replicas"])


async def list_again(harness: TenancyHarness) -> None:
    """Let no watch through before every informer has listed once more, those in a wait included."""
    assert harness.manager is not None
    cache, proxy = harness.manager.cache, harness.environment.proxy
    before = cache.stats()

    async def listed() -> bool:
        cut_watches(proxy)  # again and again: one may have been on its way when the last were cut
        # Informers that came later are behind those that there were.
        return all(now.lists > then.lists for then, now in zip(before, cache.stats(), strict=False))

    with removing(harness, proxy.add(Fail(code=410, reason="Expired"), WATCHES, times=None)):
        await harness.eventually(listed)


@contextlib.contextmanager
def removing(harness: TenancyHarness, rule: ActiveRule) -> Iterator[None]:
    try:
        yield
    finally:
        harness.environment.proxy.remove(rule)


@contextlib.contextmanager
def clearing(harness: TenancyHarness) -> Iterator[None]:
    try:
        yield
    finally:
        harness.environment.proxy.clear()
