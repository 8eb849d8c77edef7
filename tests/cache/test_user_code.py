"""LV-1: user code that raises costs one object; an unexpected error of ours costs one start of the watch."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, MutableMapping
from dataclasses import replace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.backoff import BackoffOptions
from ctrlruntime.cache.cache import Cache, CacheOptions
from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.events import DeleteEvent, Event
from ctrlruntime.cache.informer import InformerOptions
from ctrlruntime.cache.observe import NoInformerObserver
from ctrlruntime.cache.reflector import ReflectorOptions
from ctrlruntime.client.call import Call, Execute
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.transport import Response
from tests.client.support import CONFIG_MAP, config_map
from tests.support.waiting import eventually

pytestmark = pytest.mark.criterion("LV-1")

Logs = list[MutableMapping[str, Any]]

FAILURES = [
    pytest.param(KeyError("plan"), id="exception"),
    pytest.param(asyncio.CancelledError(), id="cancelled"),
    pytest.param(BaseExceptionGroup("", [asyncio.CancelledError()]), id="group"),
]


class Counter(NoInformerObserver):
    """Counts the failures that informers report."""

    def __init__(self) -> None:
        self.index = self.transform = self.handler = self.restarts = 0

    def index_failed(self, gvk: GroupVersionKind) -> None:
        self.index += 1

    def transform_failed(self, gvk: GroupVersionKind) -> None:
        self.transform += 1

    def handler_failed(self, gvk: GroupVersionKind) -> None:
        self.handler += 1

    def restarted(self, gvk: GroupVersionKind) -> None:
        self.restarts += 1


@pytest.fixture(autouse=True)
def logs() -> Iterator[Logs]:
    with capture_logs() as logs:
        yield logs


@pytest.fixture
async def client(api_config: Config) -> AsyncGenerator[Client, None]:
    async with Client.connect(api_config) as client:
        yield client


@pytest.fixture
def counter() -> Counter:
    return Counter()


@pytest.fixture
async def make_cache(
    client: Client, counter: Counter
) -> AsyncGenerator[Callable[..., Cache], None]:
    made: list[Cache] = []

    def make(**reflector: object) -> Cache:
        quick = BackoffOptions(initial=0.01, cap=0.05)
        given: dict[str, Any] = {"backoff": quick, **reflector}
        options = InformerOptions(reflector=ReflectorOptions(**given))
        made.append(Cache(client, CacheOptions(informers=options), counter))
        return made[-1]

    yield make
    for cache in made:
        await cache.stop()


@pytest.fixture
def cache(make_cache: Callable[..., Cache]) -> Cache:
    return make_cache()


async def started(cache: Cache) -> Cache:
    await cache.start()
    await cache.wait_synced(60.0)
    return cache


def plan(name: str, value: str) -> dict[str, Any]:
    return {**config_map(name), "data": {"plan": value}}


def by_plan(error: BaseException) -> Callable[[Entry], Iterable[str]]:
    """Return an index function that raises for objects of the plan `bad`."""

    def index(entry: Entry) -> Iterable[str]:
        value = (entry.field("data") or {}).get("plan", "")
        if value == "bad":
            raise error
        return (value,)

    return index


def names(cache: Cache, value: str) -> list[str]:
    return [entry.name for entry in cache.entries(CONFIG_MAP, index={"plan": value})]


@pytest.mark.parametrize("error", FAILURES)
async def test_an_index_function_that_raises_costs_the_value_in_that_index(
    client: Client, cache: Cache, counter: Counter, logs: Logs, error: BaseException
) -> None:
    for name, value in (("a", "good"), ("b", "bad")):
        await client.create(plan(name, value))
    cache.declare(CONFIG_MAP, namespaces=["default"], indexes={"plan": by_plan(error)})
    await started(cache)
    assert names(cache, "good") == ["a"]
    assert cache.get(CONFIG_MAP, "b", namespace="default") is not None
    assert counter.index == 1
    failures = [line for line in logs if line["event"].startswith("an index function failed")]
    assert [(line["key"], line["exc_info"]) for line in failures] == [(("default", "b"), error)]

    await client.patch(CONFIG_MAP, "a", {"data": {"plan": "bad"}}, namespace="default")
    await eventually(lambda: names(cache, "good") == [])
    await client.patch(CONFIG_MAP, "b", {"data": {"plan": "good"}}, namespace="default")
    await eventually(lambda: names(cache, "good") == ["b"])
    await client.delete(CONFIG_MAP, "a", namespace="default")
    await eventually(lambda: cache.get(CONFIG_MAP, "a", namespace="default") is None)
    assert cache.synced


@pytest.mark.parametrize("error", FAILURES)
async def test_a_write_succeeds_whatever_an_index_function_does(
    cache: Cache, error: BaseException
) -> None:
    cache.declare(CONFIG_MAP, indexes={"plan": by_plan(error)})
    await started(cache)
    made = await cache.client().create(plan("a", "bad"))
    assert made["data"] == {"plan": "bad"}
    assert cache.get(CONFIG_MAP, "a", namespace="default") is not None
    await cache.client().patch(CONFIG_MAP, "a", {"data": {"plan": "good"}}, namespace="default")
    assert names(cache, "good") == ["a"]


async def test_an_index_function_that_begins_to_raise_leaves_no_value_behind(
    client: Client, cache: Cache
) -> None:
    broken = False

    def index(entry: Entry) -> Iterable[str]:
        if broken:
            raise KeyError("plan")
        return ((entry.field("data") or {}).get("plan", ""),)

    cache.declare(CONFIG_MAP, namespaces=["default"], indexes={"plan": index})
    await started(cache)
    for name in ("a", "b"):
        await cache.client().create(plan(name, "good"))
    assert names(cache, "good") == ["a", "b"]
    broken = True
    await client.patch(CONFIG_MAP, "a", {"data": {"plan": "other"}}, namespace="default")
    await eventually(lambda: names(cache, "good") == ["b"])
    await client.delete(CONFIG_MAP, "b", namespace="default")
    await eventually(lambda: names(cache, "good") == [])


@pytest.mark.parametrize(
    "index",
    [lambda _entry: None, lambda _entry: ({},), lambda _entry: (1 / 0 for _ in range(1))],
    ids=["none", "unhashable", "late"],
)
async def test_an_index_function_of_the_wrong_type_costs_the_value_too(
    client: Client, cache: Cache, index: Callable[[Entry], Any]
) -> None:
    await client.create(plan("a", "good"))
    cache.declare(CONFIG_MAP, namespaces=["default"], indexes={"plan": index})
    await started(cache)
    assert cache.get(CONFIG_MAP, "a", namespace="default") is not None


def only_good(error: BaseException | None) -> Callable[[Entry], Entry]:
    def transform(entry: Entry) -> Entry:
        if (entry.field("data") or {}).get("plan") == "bad":
            if error is None:
                return cast("Entry", {"plan": "bad"})
            raise error
        return entry

    return transform


@pytest.mark.parametrize("error", [*FAILURES, pytest.param(None, id="no entry")])
async def test_a_transform_that_raises_costs_that_state_of_the_object(
    client: Client, cache: Cache, counter: Counter, error: BaseException | None
) -> None:
    for name, value in (("a", "good"), ("b", "bad")):
        await client.create(plan(name, value))
    told: list[Event] = []
    informer = cache.declare(
        CONFIG_MAP, namespaces=["default"], transform=only_good(error)
    ).informer
    informer.add_handler(told.append)
    await started(cache)
    assert cache.get(CONFIG_MAP, "b", namespace="default") is None
    assert counter.transform == 1

    await client.patch(CONFIG_MAP, "a", {"data": {"plan": "bad"}}, namespace="default")
    await eventually(lambda: counter.transform == 2)
    informer.check_served()  # a list does not take for deleted what it cannot transform
    await eventually(lambda: informer.stats().lists == 2)
    entry = cache.get(CONFIG_MAP, "a", namespace="default")
    assert entry is not None
    assert entry["data"] == {"plan": "good"}
    assert not any(isinstance(event, DeleteEvent) for event in told)
    assert (await informer.refresh(("default", "a"))) is not None

    await client.delete(CONFIG_MAP, "a", namespace="default")
    await eventually(lambda: cache.get(CONFIG_MAP, "a", namespace="default") is None)
    last = told[-1]
    assert isinstance(last, DeleteEvent)
    assert last.old.field("data") == {"plan": "good"}
    await client.create(plan("c", "good"))
    await eventually(lambda: cache.get(CONFIG_MAP, "c", namespace="default") is not None)


@pytest.mark.parametrize("error", FAILURES)
async def test_a_handler_that_raises_loses_that_event(
    client: Client, cache: Cache, counter: Counter, error: BaseException
) -> None:
    def fail(event: Event) -> None:
        raise error

    cache.declare(CONFIG_MAP, namespaces=["default"]).informer.add_handler(fail)
    await started(cache)
    await client.create(plan("a", "good"))
    await eventually(lambda: cache.get(CONFIG_MAP, "a", namespace="default") is not None)
    assert counter.handler >= 1


async def test_coroutine_functions_are_refused_where_a_function_is_called(cache: Cache) -> None:
    async def index(entry: Entry) -> Iterable[str]:
        return ()

    async def transform(entry: Entry) -> Entry:
        return entry

    with pytest.raises(TypeError, match=r"index function 'plan'.*plain `def`"):
        cache.declare(CONFIG_MAP, indexes={"plan": cast("Any", index)})
    with pytest.raises(TypeError, match=r"transform.*plain `def`"):
        cache.declare(CONFIG_MAP, transform=cast("Any", transform))


class Fails:
    """A watch timeout that cannot be read the first `times` times: an error that no server gave."""

    def __init__(self, times: int, error: BaseException) -> None:
        self.times = times
        self.error = error

    def __iter__(self) -> Iterator[float]:
        if self.times:
            self.times -= 1
            raise self.error
        return iter((300.0, 600.0))


@pytest.mark.parametrize("error", FAILURES[:2])
async def test_an_unexpected_error_starts_list_and_watch_again(
    client: Client,
    make_cache: Callable[..., Cache],
    counter: Counter,
    logs: Logs,
    error: BaseException,
) -> None:
    cache = make_cache(watch_timeout=Fails(3, error))
    cache.declare(CONFIG_MAP, namespaces=["default"])
    await started(cache)
    await client.create(plan("a", "good"))
    await eventually(lambda: cache.get(CONFIG_MAP, "a", namespace="default") is not None)
    assert counter.restarts == 3
    assert cache.synced
    assert cache.failed() == {}
    lines = [line for line in logs if line["event"].startswith("an unexpected error")]
    assert [line["in_a_row"] for line in lines] == [1, 2, 3]
    assert all(line["exc_info"] is error for line in lines)


async def test_unexpected_errors_in_a_row_wait_longer_each_time(
    client: Client, make_cache: Callable[..., Cache]
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.sleep(0)

    cache = make_cache(watch_timeout=Fails(5, KeyError("lost")), sleep=sleep, random=lambda: 0.0)
    cache.declare(CONFIG_MAP, namespaces=["default"])
    await started(cache)
    await client.create(plan("a", "good"))
    await eventually(lambda: cache.get(CONFIG_MAP, "a", namespace="default") is not None)
    assert slept == [0.01, 0.02, 0.04, 0.05, 0.05]


async def test_an_informer_that_keeps_failing_is_named(make_cache: Callable[..., Cache]) -> None:
    trouble = Fails(1_000_000, KeyError("lost"))
    cache = make_cache(watch_timeout=trouble)
    informer = cache.declare(CONFIG_MAP).informer
    await cache.start()
    await eventually(lambda: informer.failed)
    assert not cache.synced
    assert [str(error) for error in cache.failed().values()] == ["'lost'"]
    trouble.times = 0  # it went on trying
    await cache.wait_synced(60.0)
    assert cache.synced


async def test_while_list_and_watch_start_again_the_cache_is_not_synced(
    client: Client, make_cache: Callable[..., Cache]
) -> None:
    trouble = Fails(0, KeyError("lost"))
    cache = make_cache(watch_timeout=trouble)
    informer = cache.declare(CONFIG_MAP, namespaces=["default"]).informer
    await started(cache)
    trouble.times = 1_000_000
    informer.check_served()  # the watch ends, and none can be started
    await eventually(lambda: informer.failed)
    assert not cache.synced
    assert list(cache.unsynced()) == [CONFIG_MAP]
    trouble.times = 0
    await eventually(lambda: cache.synced)
    assert cache.unsynced() == {}


async def test_an_answer_that_cannot_be_taken_over_is_no_error_of_the_write(
    client: Client, counter: Counter, logs: Logs
) -> None:
    """The object is stored: the informer reads it from the server instead."""

    async def changed(call: Call, execute: Execute) -> Response:
        answer = await execute(call)
        if call.verb != "create":
            return answer
        body = answer.body.replace(b'"kind":"ConfigMap"', b'"kind":null')
        assert body != answer.body
        return replace(answer, body=body)

    cache = Cache(client.intercepted(changed), None, counter)
    informer = cache.declare(CONFIG_MAP, namespaces=["default"]).informer
    try:
        await started(cache)
        made = await cache.client().create(plan("a", "good"))
        assert made["data"] == {"plan": "good"}
        assert cache.unconfirmed(CONFIG_MAP, "a", namespace="default")
        await eventually(lambda: informer.stats().lists >= 2)
        assert not cache.unconfirmed(CONFIG_MAP, "a", namespace="default")
        assert cache.get(CONFIG_MAP, "a", namespace="default") is not None
        assert [line for line in logs if "could not be taken over" in line["event"]]
    finally:
        await cache.stop()
