"""Reconcilers of objects, requests of one's own type, map functions that await, selections of a kind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

import pytest
from structlog.testing import capture_logs

from ctrlruntime import (
    ApiModel,
    Builder,
    Client,
    Config,
    Entry,
    GroupVersionKind,
    Manifest,
    ObjectMeta,
    Request,
    Resource,
    Result,
    as_reconciler,
    enqueue_map_func,
    logger_from_context,
)
from ctrlruntime.controller.event_dispatch import Handler
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.eventually import eventually_holds
from ctrlruntime.json import Json
from tests.support.manager_harness import make_manager

pytestmark = pytest.mark.criterion("DX-4")

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
SECRET = GroupVersionKind("", "v1", "Secret")
LIMIT = 60


class ShopSpec(ApiModel):
    open: bool = True


class Shop(Resource[ShopSpec], group="example.com", version="v1"):
    """A shop."""


class Recorder:
    """What reconciles were called with, in order."""

    def __init__(self) -> None:
        self.seen: asyncio.Queue[Any] = asyncio.Queue()

    async def next(self) -> Json:
        return await asyncio.wait_for(self.seen.get(), LIMIT)


@pytest.fixture
async def environment() -> AsyncIterator[Environment]:
    async with Environment() as environment:
        await environment.install_crds(Shop)
        yield environment


def shop(name: str, **labels: str) -> Shop:
    return Shop(metadata=ObjectMeta(name=name, namespace="default", labels=labels), spec=ShopSpec())


def config_map(name: str, **labels: str) -> Manifest:
    metadata = {"name": name, "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}}


# -- objects -----------------------------------------------------------------------------------


class ShopReconciler(Recorder):
    async def reconcile(self, obj: Shop) -> Result | None:
        self.seen.put_nowait(obj)
        return None


async def test_an_object_reconciler_receives_the_typed_object(environment: Environment) -> None:
    subject, reconciler = make_manager(environment.config("manager")), ShopReconciler()
    Builder(subject).for_(Shop).build(as_reconciler(subject.client, Shop, reconciler))
    async with subject.running():
        await environment.client("admin").create(shop("corner"))
        found = await reconciler.next()
    assert isinstance(found, Shop)
    assert (found.metadata.name, found.spec.open) == ("corner", True)


async def test_a_request_whose_object_is_gone_is_done(api_config: Config) -> None:
    subject, runs = make_manager(api_config), Recorder()

    async def reconcile(obj: Manifest) -> None:
        runs.seen.put_nowait(obj["metadata"]["name"])

    builder = Builder(subject).for_(CONFIG_MAP, labels="mine=yes")
    builder.watches(SECRET, enqueue_map_func(lambda _entry: [Request("gone", namespace="default")]))
    controller = builder.build(as_reconciler(subject.client, CONFIG_MAP, reconcile))
    async with Client.connect(api_config) as client, subject.running():
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "a", "namespace": "default"},
        }
        await client.create(secret)
        value = subject.metrics.registry.get_sample_value
        labels = {"controller": controller.name, "result": "success"}
        total = "controller_runtime_reconcile_total"
        await eventually_holds(lambda: value(total, labels) == 1, timeout=LIMIT)
        await client.create(config_map("there", mine="yes"))
        assert await runs.next() == "there"  # nothing was recorded for the one that is gone
        labels["result"] = "error"
        assert value(total, labels) == 0


async def test_a_not_found_of_the_reconciler_itself_is_its_failure(api_config: Config) -> None:
    subject, failed = make_manager(api_config), Recorder()

    async def reconcile(obj: Manifest) -> None:
        failed.seen.put_nowait(obj["metadata"]["name"])
        await subject.live_client.get(SECRET, "no-such-secret", namespace="default")

    Builder(subject).for_(CONFIG_MAP, labels="mine=yes").build(
        as_reconciler(subject.client, CONFIG_MAP, reconcile)
    )
    async with Client.connect(api_config) as client, subject.running():
        await client.create(config_map("a", mine="yes"))
        assert [await failed.next(), await failed.next()] == ["a", "a"]  # it was retried


def test_an_object_reconciler_that_is_a_generator_is_refused() -> None:
    def reconcile(obj: Shop) -> Iterable[Shop]:
        yield obj

    wrong: Any = reconcile
    client: Any = None
    with pytest.raises(TypeError, match="is a generator"):
        as_reconciler(client, Shop, wrong)


# -- the logger of a request -------------------------------------------------------------------


async def test_the_logger_of_a_request_reports_controller_object_and_run(
    api_config: Config,
) -> None:
    logs: list[MutableMapping[str, Any]]
    with capture_logs() as logs:
        subject, runs = make_manager(api_config), Recorder()

        async def helper() -> None:
            logger_from_context().info("Helping")

        async def reconcile(request: Request) -> None:
            await helper()
            runs.seen.put_nowait(request)

        Builder(subject).for_(CONFIG_MAP, labels="mine=yes").named("settings").build(reconcile)
        async with Client.connect(api_config) as client, subject.running():
            await client.create(config_map("a", mine="yes"))
            await runs.next()
        logger_from_context().info("Outside")
    (line,) = [line for line in logs if line["event"] == "Helping"]
    assert (line["controller"], line["namespace"], line["name"]) == ("settings", "default", "a")
    assert len(line["reconcileID"]) == 36
    (line,) = [line for line in logs if line["event"] == "Outside"]
    assert "reconcileID" not in line


# -- requests of another type ------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A row of a table."""

    table: str
    number: int


async def test_a_controller_may_have_requests_of_a_type_of_its_own(api_config: Config) -> None:
    logs: list[MutableMapping[str, Any]]
    with capture_logs() as logs:
        subject, runs = make_manager(api_config), Recorder()
        failures = [RuntimeError("once")]

        async def reconcile(row: Row) -> None:
            runs.seen.put_nowait(row)
            if failures:
                raise failures.pop()

        def rows(entry: Entry) -> Iterable[Row]:
            return [Row(entry.name, 1), Row(entry.name, 1)]

        builder = Builder[Row](subject).watches(
            CONFIG_MAP, enqueue_map_func(rows), labels="mine=yes"
        )
        builder.named("rows").build(reconcile)
        async with Client.connect(api_config) as client, subject.running():
            await client.create(config_map("people", mine="yes"))
            assert await runs.next() == Row("people", 1)
            assert await runs.next() == Row("people", 1)  # the retry of the one that failed
            await client.create(config_map("places", mine="yes"))
            assert await runs.next() == Row("places", 1)
    (line,) = [line for line in logs if line["event"] == "Reconciler error"]
    assert line["request"] == str(Row("people", 1))
    assert line["controller"] == "rows"


# -- map functions that await ------------------------------------------------------------------


async def test_a_map_function_may_await_and_costs_only_its_event(api_config: Config) -> None:
    subject, runs = make_manager(api_config), Recorder()
    async with Client.connect(api_config) as client:

        async def owners(entry: Entry) -> list[Request]:
            found = await client.list(SECRET, entry.namespace, labels=f"of={entry.name}")
            if entry.name == "broken":
                raise KeyError("broken")
            return [Request(each["metadata"]["name"], namespace="default") for each in found]

        async def reconcile(request: Request) -> None:
            runs.seen.put_nowait(request)

        builder = Builder(subject).watches(CONFIG_MAP, enqueue_map_func(owners), labels="mine=yes")
        builder.named("mapped").build(reconcile)
        metadata = {"name": "s", "namespace": "default", "labels": {"of": "a"}}
        await client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
        async with subject.running():
            await client.create(config_map("broken", mine="yes"))
            await client.create(config_map("a", mine="yes"))
            assert await runs.next() == Request("s", namespace="default")
            value = subject.metrics.registry.get_sample_value
            labels = {"controller": "mapped"}

            def counted(name: str) -> float:
                return value(f"ctrlruntime_controller_{name}_events_total", labels) or 0

            await eventually_holds(lambda: counted("retried") >= 1, timeout=LIMIT)
            assert counted("lost") == 0


async def test_asynchronous_map_functions_are_cancelled_at_the_end(api_config: Config) -> None:
    subject, ended = make_manager(api_config, graceful_shutdown_timeout=60.0), asyncio.Event()
    begun = asyncio.Event()

    async def forever(entry: Entry) -> list[Request]:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return []

    async def reconcile(request: Request) -> None: ...

    builder = Builder(subject).watches(CONFIG_MAP, enqueue_map_func(forever), labels="mine=yes")
    builder.named("mapped").build(reconcile)
    async with Client.connect(api_config) as client, subject.running():
        await client.create(config_map("a", mine="yes"))
        await asyncio.wait_for(begun.wait(), LIMIT)
    assert ended.is_set()


# -- what a watch selects and keeps ------------------------------------------------------------


def without_data(entry: Entry) -> Entry:
    entry.fields.pop("data", None)
    return entry


async def test_one_kind_is_watched_in_several_selections_with_a_handler_each(
    api_config: Config,
) -> None:
    subject, runs = make_manager(api_config), Recorder()

    async def reconcile(request: Request) -> None:
        runs.seen.put_nowait(request.name)

    def of(prefix: str) -> Handler[Any, Request]:
        return enqueue_map_func(lambda entry: [Request(f"{prefix}-{entry.name}")])

    builder = Builder(subject)
    builder.watches(CONFIG_MAP, of("red"), labels={"color": "red"}, transform=without_data)
    builder.watches(CONFIG_MAP, of("blue"), labels="color=blue")
    builder.watches(CONFIG_MAP, of("one"), fields="metadata.name=one")
    builder.named("colors").build(reconcile)
    async with Client.connect(api_config) as client, subject.running():
        for name, labels in (
            ("a", {"color": "red"}),
            ("b", {"color": "blue"}),
            ("c", {"color": "green"}),
            ("one", {"color": "green"}),
        ):
            await client.create(config_map(name, **labels))
        assert {await runs.next() for _ in range(3)} == {"red-a", "blue-b", "one-one"}
        cache = subject.cache
        red = cache.entry(CONFIG_MAP, "a", namespace="default")
        blue = cache.entry(CONFIG_MAP, "b", namespace="default")
        assert red is not None
        assert blue is not None
        assert (red.field("data"), blue.field("data")) == (None, {"a": "1"})
        assert cache.entry(CONFIG_MAP, "c", namespace="default") is None


async def test_the_primary_and_owned_kinds_take_selectors_and_transforms(
    api_config: Config,
) -> None:
    subject, runs = make_manager(api_config), Recorder()

    async def reconcile(request: Request) -> None:
        runs.seen.put_nowait(request.name)

    builder = Builder(subject).for_(
        CONFIG_MAP,
        labels={"mine": "yes"},
        fields="metadata.namespace=default",
        transform=without_data,
    )
    builder.owns(SECRET, labels="mine=yes", fields="type=Opaque").build(reconcile)
    async with Client.connect(api_config) as client, subject.running():
        await client.create(config_map("other"))
        elsewhere = config_map("elsewhere", mine="yes")
        elsewhere["metadata"]["namespace"] = "kube-public"
        await client.create(elsewhere)
        parent = await client.create(config_map("a", mine="yes"))
        assert await runs.next() == "a"
        entry = subject.cache.entry(CONFIG_MAP, "a", namespace="default")
        assert entry is not None
        assert entry.field("data") is None
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "controller": True}
        metadata = {
            "name": "child",
            "namespace": "default",
            "labels": {"mine": "yes"},
            "ownerReferences": [{**reference, "uid": parent["metadata"]["uid"]}],
        }
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
        unlabelled = {**metadata, "name": "unlabelled", "labels": {}}
        await client.create({**secret, "metadata": unlabelled})
        other_type = {**metadata, "name": "other-type"}
        await client.create({**secret, "metadata": other_type, "type": "example.com/other"})
        await client.create(secret)
        assert await runs.next() == "a"
        kept = {each.name for each in subject.cache.entries(SECRET)}
        kept |= {each.name for each in subject.cache.entries(CONFIG_MAP)}
        assert kept == {"a", "child"}, "what the server selects, and nothing else"
