"""Controllers as they are built, against the embedded API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import structlog
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic.errors import PydanticSchemaGenerationError

from ctrlruntime.api import ApiModel, Resource
from ctrlruntime.api.kinds import GroupVersionKind, Manifest, RESTMapping
from ctrlruntime.cache.events import Event, GenericEvent
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import NotFound
from ctrlruntime.controller import (
    Builder,
    BuilderError,
    Channel,
    ChannelSource,
    ControllerOptions,
    Request,
    SourceSyncTimeout,
    enqueue_map_func,
    enqueue_object,
    enqueue_owner,
    reconcile_context,
)
from ctrlruntime.controller.predicates import generation_changed
from ctrlruntime.manager import ElectionOptions
from tests.manager.support import fails_for_want_of, starting
from tests.support.manager_harness import make_manager
from tests.support.waiting import eventually, eventually_succeeds

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
SECRET = GroupVersionKind("", "v1", "Secret")
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
WIDGET = RESTMapping(GroupVersionKind("example.com", "v1", "Widget"), "widgets", True)


class Runs:
    """A reconciler that puts each request into a queue."""

    def __init__(self) -> None:
        self.seen: asyncio.Queue[Request] = asyncio.Queue()
        self.reasons: dict[Request, frozenset[str]] = {}

    async def reconcile(self, request: Request) -> None:
        self.reasons[request] = reconcile_context().reasons
        self.seen.put_nowait(request)

    async def next(self) -> Request:
        return await asyncio.wait_for(self.seen.get(), 60)


@pytest.fixture
async def client(config: Config) -> AsyncIterator[Client]:
    async with Client.connect(config) as client:
        yield client


def config_map(name: str, **metadata: object) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "data": {"key": "value"},
    }


@pytest.mark.criterion("CT-25")
async def test_primary_and_owned_objects_lead_to_the_owner(config: Config, client: Client) -> None:
    subject, runs = make_manager(config), Runs()
    Builder(subject).for_(CONFIG_MAP).owns(SECRET).build(runs)
    key = Request("parent", namespace="default")
    async with subject.running():
        parent = await client.create(config_map("parent"))
        assert await runs.next() == key
        parent["data"] = {"key": "other"}
        await client.update(parent)
        assert await runs.next() == key
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "parent",
            "uid": parent["metadata"]["uid"],
            "controller": True,
        }
        child = await client.create(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {
                    "name": "child",
                    "namespace": "default",
                    "ownerReferences": [reference],
                },
            }
        )
        assert await runs.next() == key
        assert runs.reasons[key] == {"Secret default/child created"}
        child["stringData"] = {"a": "b"}
        await client.update(child)
        assert await runs.next() == key
        await client.delete(SECRET, "child", namespace="default")
        assert await runs.next() == key
        assert runs.reasons[key] == {"Secret default/child deleted"}
        await client.delete(CONFIG_MAP, "parent", namespace="default")
        assert await runs.next() == key


@pytest.mark.criterion("CT-16")
async def test_all_series_exist_with_0_before_the_first_run(config: Config) -> None:
    subject = make_manager(config)
    options = ControllerOptions(max_concurrent_reconciles=3)
    Builder(subject).for_(CONFIG_MAP).named("settings").options(options).build(Runs())
    value = subject.metrics.registry.get_sample_value
    name = {"controller": "settings"}
    for result in ("success", "error", "requeue", "requeue_after"):
        assert value("controller_runtime_reconcile_total", {**name, "result": result}) == 0
    for series in (
        "controller_runtime_reconcile_errors_total",
        "controller_runtime_terminal_reconcile_errors_total",
        "controller_runtime_reconcile_panics_total",
        "controller_runtime_reconcile_timeouts_total",
        "controller_runtime_reconcile_time_seconds_count",
        "controller_runtime_active_workers",
    ):
        assert value(series, name) == 0, series
    assert value("controller_runtime_max_concurrent_reconciles", name) == 3
    both = {**name, "name": "settings"}
    for series in (
        "workqueue_adds_total",
        "workqueue_retries_total",
        "workqueue_queue_duration_seconds_count",
        "workqueue_work_duration_seconds_count",
        "workqueue_unfinished_work_seconds",
        "workqueue_longest_running_processor_seconds",
    ):
        assert value(series, both) == 0, series
    assert value("workqueue_depth", {**both, "priority": "0"}) == 0
    subject.close()


@pytest.mark.criterion("CT-19")
async def test_two_controllers_of_one_name_are_refused_unless_allowed(config: Config) -> None:
    subject = make_manager(config)
    Builder(subject).for_(CONFIG_MAP).build(Runs())
    with pytest.raises(ValueError, match="names must be unique"):
        Builder(subject).for_(CONFIG_MAP).build(Runs())
    relaxed = ControllerOptions(skip_name_validation=True)
    Builder(subject).for_(CONFIG_MAP).options(relaxed).build(Runs())
    another = make_manager(config)
    Builder(another).for_(CONFIG_MAP).build(Runs())
    another.close()
    subject.close()


@pytest.mark.criterion("CT-13")
async def test_without_recovery_a_bug_ends_the_manager(config: Config, client: Client) -> None:
    async def reconcile(request: Request) -> None:
        raise TypeError("None has no spec")

    subject = make_manager(config)
    options = ControllerOptions(recover_panic=False)
    Builder(subject).for_(SECRET).options(options).build(reconcile)
    metadata = {"name": "a", "namespace": "default"}
    await client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    async with asyncio.timeout(60):
        with pytest.raises(TypeError, match="None has no spec"):
            await subject.start()


@pytest.mark.criterion("CT-22")
async def test_what_is_warm_begins_with_the_election(config: Config, client: Client) -> None:
    election: dict[str, Any] = {
        "leader_election": True,
        "leader_election_id": "tests",
        "leader_election_namespace": "default",
        "election": ElectionOptions(retry_period=0.1),
    }
    leading, subject, runs = (
        make_manager(config, **election),
        make_manager(config, **election),
        Runs(),
    )
    metadata = {"name": "a", "namespace": "default"}
    await client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    warm = ControllerOptions(enable_warmup=True)
    controller = Builder(subject).for_(SECRET).options(warm).build(runs)
    async with contextlib.AsyncExitStack() as stack:
        async with leading.running():
            await stack.enter_async_context(subject.running(leading=False))
            await eventually(lambda: len(controller.queue))
            assert runs.seen.empty()
        assert await runs.next() == Request("a", namespace="default")


async def define_widgets(client: Client) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    await client.create(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": names,
                "versions": [version],
            },
        }
    )


@pytest.mark.criterion("SH-01")
async def test_a_kind_that_appears_later_is_waited_for(config: Config, client: Client) -> None:
    subject, runs = make_manager(config), Runs()
    controller = Builder(subject).for_(WIDGET).build(runs)
    async with subject.running():
        await asyncio.sleep(0.3)
        assert not subject.stopped.is_set()
        await define_widgets(client)
        widget = {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "metadata": {"name": "w", "namespace": "default"},
        }
        await eventually_succeeds(lambda: client.create(widget, kind=WIDGET), despite=NotFound)
        subject.cache.notify_discovery_changed()
        assert await runs.next() == Request("w", namespace="default")
        assert controller.name == "widget"


@pytest.mark.criterion("SH-01")
async def test_the_sync_timeout_bounds_the_wait_for_a_kind(config: Config) -> None:
    subject = make_manager(config)
    options = ControllerOptions(cache_sync_timeout=3600)
    Builder(subject).for_(WIDGET).options(options).build(Runs())
    async with starting(subject) as start:
        with pytest.raises(
            SourceSyncTimeout, match=r"waiting for kind source example.com/v1, Kind=Wid"
        ):
            await fails_for_want_of(subject, subject.cache.informer(WIDGET), start, 3600)


@pytest.mark.criterion("SH-01")
async def test_an_optional_kind_holds_nothing_up(config: Config, client: Client) -> None:
    subject, runs = make_manager(config), Runs()
    handler = enqueue_map_func(lambda entry: [Request(f"of-{entry.name}", namespace="default")])
    Builder(subject).for_(CONFIG_MAP).watches(WIDGET, handler, optional=True).build(runs)
    async with subject.running():
        await client.create(config_map("a"))
        assert await runs.next() == Request("a", namespace="default")


@pytest.mark.criterion("SH-10")
async def test_incomplete_controllers_are_refused_with_the_fix(config: Config) -> None:
    subject = make_manager(config)
    with pytest.raises(BuilderError, match="nothing is watched"):
        Builder(subject).named("x").build(Runs())
    with pytest.raises(BuilderError, match="called twice"):
        Builder(subject).for_(CONFIG_MAP).for_(SECRET)
    with pytest.raises(BuilderError, match="needs for_"):
        Builder(subject).owns(SECRET).named("x").build(Runs())
    with pytest.raises(BuilderError, match="needs a name"):
        Builder(subject).watches(SECRET, enqueue_object).build(Runs())
    with pytest.raises(BuilderError, match="needs a reconciler"):
        Builder(subject).for_(SECRET).named("none").build(None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="RESTMapping"):
        Builder(subject).for_("Widget")  # a text with group and version is resolved at the start
    with pytest.raises(ValueError, match="RESTMapping"):
        enqueue_owner(WIDGET.gvk)  # outside of a builder nothing resolves it
    builder = Builder(subject).for_(CONFIG_MAP)
    builder.build(Runs())
    with pytest.raises(BuilderError, match="one builder for each"):
        builder.build(Runs())
    subject.close()


@pytest.mark.criterion("SH-11")
async def test_name_and_log_keys_come_from_the_kind(config: Config) -> None:
    subject = make_manager(config)
    controller = Builder(subject).for_(DEPLOYMENT).build(Runs())
    assert controller.name == "deployment"
    bound = structlog.get_context(controller.logger)
    assert bound["controllerGroup"] == "apps"
    assert bound["controllerKind"] == "Deployment"
    subject.close()


@pytest.mark.criterion("SH-11")
async def test_the_event_filter_comes_before_the_predicates_of_a_watch(
    config: Config, client: Client
) -> None:
    asked: list[str] = []

    def note(name: str, event: Event) -> bool:
        asked.append(name)
        return True

    subject, runs, channel = make_manager(config), Runs(), Channel()
    (
        Builder(subject)
        .for_(CONFIG_MAP, predicates=[lambda event: note("own", event)])
        .event_filter(lambda event: note("global", event))
        .watches_raw(ChannelSource(channel, enqueue_object))
        .build(runs)
    )
    async with subject.running():
        await client.create(config_map("a"))
        await runs.next()
        assert asked == ["global", "own"]
        await channel.send(GenericEvent(key=("default", "raw")))
        assert await runs.next() == Request("raw", namespace="default")
        assert asked == ["global", "own"]


async def test_a_status_update_is_blocked_by_the_generation_predicate(
    config: Config, client: Client
) -> None:
    subject, runs = make_manager(config), Runs()
    Builder(subject).for_(DEPLOYMENT, predicates=[generation_changed]).build(runs)
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    deployment: Manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    async with subject.running():
        created = await client.create(deployment)
        await runs.next()
        created["status"] = {"observedGeneration": 1}
        created = await client.update_status(created)
        created["spec"]["replicas"] = 3
        await client.update(created)
        await runs.next()
        assert runs.reasons[Request("web", namespace="default")] == {
            "Deployment default/web updated"
        }
        assert runs.seen.empty()


async def test_permissions_are_those_of_the_declared_watches(config: Config) -> None:
    subject = make_manager(config)
    controller = (
        Builder(subject)
        .for_(WIDGET)
        .owns(DEPLOYMENT, metadata_only=True)
        .watches(SECRET, enqueue_object)
        .permission("", "pods", "delete")
        .build(Runs())
    )
    assert controller.permissions() == (
        ("", "pods", ("delete",)),
        ("", "secrets", ("get", "list", "watch")),
        ("apps", "deployments", ("create", "delete", "get", "list", "patch", "update", "watch")),
        ("example.com", "widgets", ("get", "list", "patch", "update", "watch")),
        ("example.com", "widgets/finalizers", ("update",)),
        ("example.com", "widgets/status", ("get", "patch", "update")),
    )
    subject.close()


async def test_spans_lead_from_the_event_to_the_write(config: Config, client: Client) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    subject = make_manager(config, tracer_provider=provider)
    done = asyncio.Event()

    async def reconcile(request: Request) -> None:
        if request.name != "source":
            return
        await subject.client.create(config_map("written"))
        done.set()

    Builder(subject).for_(CONFIG_MAP).build(reconcile)
    async with subject.running():
        await client.create(config_map("source"))
        await asyncio.wait_for(done.wait(), 60)
    spans = exporter.get_finished_spans()
    write = next(span for span in spans if span.name == "create configmaps")
    run = next(
        span
        for span in spans
        if span.name == "reconcile configmap"
        and (span.attributes or {}).get("k8s.object.name") == "source"
    )
    by_id = {span.context.span_id: span for span in spans if span.context}
    path = [write]
    while path[-1].parent is not None:
        path.append(by_id[path[-1].parent.span_id])
    assert [span.name for span in path] == [
        "create configmaps",
        "reconcile configmap",
        "queue wait",
        "ConfigMap event",
    ]
    assert path[1] is run
    assert (path[-1].attributes or {})["event"] == "ConfigMap default/source created"
    assert len({span.context.trace_id for span in path if span.context}) == 1


class Unreadable:
    """Nothing that pydantic knows."""


class OddSpec(ApiModel):
    field: Unreadable


class OddStatus(ApiModel):
    field: int = 0


class Odd(Resource[OddSpec, OddStatus], group="builder.example.com", version="v1"):
    pass


async def test_a_kind_with_a_field_that_cannot_be_read_is_reported_when_the_controller_is_built(
    config: Config,
) -> None:
    subject = make_manager(config)
    with pytest.raises(PydanticSchemaGenerationError, match="Unreadable"):
        Builder(subject).for_(Odd)
    subject.close()
