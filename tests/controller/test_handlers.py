"""Handlers, predicates, intake: from an event to the queue. Requirements SH-*."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn, cast

import pytest
import structlog
from structlog.testing import capture_logs

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.cache.events import CreateEvent, DeleteEvent, Event, GenericEvent, UpdateEvent
from ctrlruntime.controller import enqueue_map_func, enqueue_object, enqueue_owner
from ctrlruntime.controller.event_dispatch import LOW_PRIORITY, EventDispatcher, EventQueue, Handler
from ctrlruntime.controller.predicates import (
    Predicate,
    all_of,
    annotation_changed,
    any_of,
    deletion_or_finalizers_changed,
    generation_changed,
    label_changed,
    labels_match,
    more_than_status_changed,
    not_,
    resource_version_changed,
)
from ctrlruntime.controller.request_source import RequestSource
from ctrlruntime.controller.sources import Channel, ChannelSource, FuncSource
from ctrlruntime.manager.controller_series import ControllerSeries
from ctrlruntime.queue import Item, PriorityQueue, Request

from .support import settled

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
NAMESPACE = GroupVersionKind("", "v1", "Namespace")


def entry(name: str = "a", *, rv: str = "1", **metadata: object) -> Entry:
    metadata = {"namespace": "default", "uid": f"uid-{name}", **metadata}
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "resourceVersion": rv, **metadata},
    }
    return EntryDecoder(CONFIG_MAP).decode_manifest(manifest)


def owner(
    name: str, *, version: str = "apps/v1", kind: str = "Deployment", controller: bool = True
) -> dict[str, Any]:
    reference = {"apiVersion": version, "kind": kind, "name": name, "uid": f"uid-{name}"}
    return {**reference, "controller": True} if controller else reference


@pytest.fixture
async def queue() -> PriorityQueue:
    return PriorityQueue()


@pytest.fixture
async def intake(queue: PriorityQueue) -> EventDispatcher:
    return EventDispatcher(queue, structlog.get_logger())


def taken(queue: PriorityQueue) -> list[Item]:
    items = []
    while (item := queue.core.pop()) is not None:
        items.append(item)
        queue.done(item.request)
    return items


def requests(
    intake: EventDispatcher,
    event: Event,
    handler: Handler,
    *predicates: Predicate,
    cluster: str = "",
) -> list[Request]:
    intake.deliver(event, handler, predicates, kind="ConfigMap", cluster=cluster)
    return [item.request for item in taken(intake.queue)]


class TestHandlers:
    async def test_self_names_the_object(self, intake: EventDispatcher) -> None:
        assert requests(intake, CreateEvent(entry()), enqueue_object) == [
            Request("a", namespace="default")
        ]
        by_key = GenericEvent(key=("default", "x"))
        assert requests(intake, by_key, enqueue_object) == [Request("x", namespace="default")]
        there = Request("a", namespace="default", cluster="east")
        assert requests(intake, CreateEvent(entry()), enqueue_object, cluster="east") == [there]

    @pytest.mark.criterion("SH-03")
    async def test_owner_by_group_and_kind_whatever_the_version(
        self, intake: EventDispatcher
    ) -> None:
        handler = enqueue_owner(DEPLOYMENT)
        old = entry(ownerReferences=[owner("web", version="apps/v1beta1")])
        new = entry(ownerReferences=[owner("api"), owner("x", version="other/v1")], rv="2")
        found = requests(intake, UpdateEvent(old, new), handler)
        assert found == [Request("web", namespace="default"), Request("api", namespace="default")]

    @pytest.mark.criterion("SH-03")
    async def test_only_the_controller_owner_unless_asked_otherwise(
        self, intake: EventDispatcher
    ) -> None:
        event = CreateEvent(entry(ownerReferences=[owner("a"), owner("b", controller=False)]))
        assert requests(intake, event, enqueue_owner(DEPLOYMENT)) == [
            Request("a", namespace="default")
        ]
        both = requests(intake, event, enqueue_owner(DEPLOYMENT, controller_only=False))
        assert both == [Request("a", namespace="default"), Request("b", namespace="default")]

    @pytest.mark.criterion("SH-03")
    async def test_a_cluster_scoped_owner_has_no_namespace(self, intake: EventDispatcher) -> None:
        event = CreateEvent(entry(ownerReferences=[owner("prod", version="v1", kind="Namespace")]))
        assert requests(intake, event, enqueue_owner(NAMESPACE)) == [Request("prod")]

    async def test_an_unknown_owner_kind_is_refused_at_once(self) -> None:
        with pytest.raises(ValueError, match="Resource class or a RESTMapping"):
            enqueue_owner(GroupVersionKind("example.com", "v1", "Widget"))

    @pytest.mark.criterion("SH-04")
    async def test_mapped_requests_of_old_and_new_are_given_once(
        self, queue: PriorityQueue
    ) -> None:
        adds: list[Request] = []

        class Counting(EventQueue):
            def add(self, request: Request, **_: object) -> None:
                adds.append(request)

        def to_team(entry: Entry) -> list[Request]:
            team = Request(entry.labels["team"], namespace="default")
            return [team, team, Request("all", namespace="default")]

        old, new = entry(labels={"team": "red"}), entry(labels={"team": "blue"}, rv="2")
        enqueue_map_func(to_team)(UpdateEvent(old, new), Counting(queue))
        assert [request.name for request in adds] == ["red", "all", "blue"]

    @pytest.mark.criterion("SH-05")
    @pytest.mark.parametrize("unknown", [True, False])
    async def test_a_deletion_carries_the_last_state(
        self, intake: EventDispatcher, unknown: bool
    ) -> None:
        event = DeleteEvent(entry(ownerReferences=[owner("web")]), unknown=unknown)
        assert requests(intake, event, enqueue_owner(DEPLOYMENT)) == [
            Request("web", namespace="default")
        ]

    async def test_a_handler_that_raises_loses_its_event_only(
        self, intake: EventDispatcher
    ) -> None:
        def broken(event: Event, queue: EventQueue) -> None:
            raise KeyError("team")

        with capture_logs() as logs:
            assert requests(intake, CreateEvent(entry()), broken) == []
        assert logs[0]["event"] == "Event handler failed; the event is lost"
        assert requests(intake, CreateEvent(entry()), enqueue_object) == [
            Request("a", namespace="default")
        ]


def owned_handler() -> Handler:
    return enqueue_owner(DEPLOYMENT)


def own_function(event: Event, queue: EventQueue) -> None:
    queue.add(Request("own", namespace="default"))


@pytest.mark.criterion("SH-06")
class TestPriorities:
    @pytest.mark.parametrize(
        "handler",
        [
            enqueue_object,
            owned_handler(),
            enqueue_map_func(lambda _: [Request("x", namespace="default")]),
            own_function,
        ],
    )
    @pytest.mark.parametrize(
        ("event", "priority"),
        [
            (CreateEvent(entry(ownerReferences=[owner("web")]), initial=True), LOW_PRIORITY),
            (CreateEvent(entry(ownerReferences=[owner("web")])), 0),
            (
                UpdateEvent(
                    entry(ownerReferences=[owner("web")]), entry(ownerReferences=[owner("web")])
                ),
                LOW_PRIORITY,
            ),
            (
                UpdateEvent(
                    entry(ownerReferences=[owner("web")]),
                    entry(ownerReferences=[owner("web")], rv="2"),
                ),
                0,
            ),
            (DeleteEvent(entry(ownerReferences=[owner("web")])), 0),
        ],
    )
    async def test_initial_list_and_unchanged_updates_are_low(
        self, intake: EventDispatcher, handler: Handler, event: Event, priority: int
    ) -> None:
        intake.deliver(event, handler, (), kind="ConfigMap")
        assert [item.priority for item in taken(intake.queue)] == [priority]

    async def test_a_priority_given_by_the_handler_stays(self, intake: EventDispatcher) -> None:
        def urgent(event: Event, queue: EventQueue) -> None:
            queue.add(Request("a", namespace="default"), priority=12)

        intake.deliver(CreateEvent(entry(), initial=True), urgent, (), kind="ConfigMap")
        assert [item.priority for item in taken(intake.queue)] == [12]

    async def test_the_event_is_the_reason(self, intake: EventDispatcher) -> None:
        intake.deliver(UpdateEvent(entry(), entry(rv="2")), enqueue_object, (), kind="ConfigMap")
        intake.deliver(DeleteEvent(entry()), enqueue_object, (), kind="ConfigMap")
        reasons = taken(intake.queue)[0].reasons
        assert reasons == {"ConfigMap default/a updated", "ConfigMap default/a deleted"}


OLD = entry(generation=1)


@pytest.mark.parametrize(
    ("predicate", "new", "passes"),
    [
        pytest.param(generation_changed, entry(rv="2", generation=2), True, id="spec"),
        pytest.param(generation_changed, entry(rv="2", generation=1), False, id="status"),
        pytest.param(generation_changed, entry(rv="2", generation=1, uid="other"), True, id="new"),
        pytest.param(annotation_changed, entry(annotations={"a": "1"}), True, id="annotated"),
        pytest.param(annotation_changed, entry(labels={"a": "1"}), False, id="not annotated"),
        pytest.param(label_changed, entry(labels={"a": "1"}), True, id="labelled"),
        pytest.param(label_changed, entry(annotations={"a": "1"}), False, id="not labelled"),
        pytest.param(resource_version_changed, entry(rv="2"), True, id="newer"),
        pytest.param(resource_version_changed, entry(rv="1"), False, id="replayed"),
        pytest.param(
            deletion_or_finalizers_changed,
            entry(deletionTimestamp="2026-01-01T00:00:00Z"),
            True,
            id="deleting",
        ),
        pytest.param(deletion_or_finalizers_changed, entry(generation=5), False, id="alive"),
        pytest.param(
            more_than_status_changed, entry(rv="2", generation=1), False, id="only status"
        ),
        pytest.param(more_than_status_changed, entry(rv="2", generation=2), True, id="more: spec"),
        pytest.param(
            more_than_status_changed,
            entry(generation=1, labels={"a": "1"}),
            True,
            id="more: labels",
        ),
        pytest.param(
            more_than_status_changed,
            entry(generation=1, finalizers=["example.com/a"]),
            True,
            id="more: finalizers",
        ),
        pytest.param(
            more_than_status_changed, entry(generation=1, uid="other"), True, id="more: successor"
        ),
    ],
)
@pytest.mark.criterion("SH-07")
@pytest.mark.criterion("SH-08")
def test_predicates_on_updates(predicate: Predicate, new: Entry, passes: bool) -> None:
    assert predicate(UpdateEvent(OLD, new)) is passes
    for other in (CreateEvent(new), DeleteEvent(new), GenericEvent(key=("default", "a"))):
        assert predicate(other)


@pytest.mark.criterion("SH-08")
def test_label_selector_and_combinations() -> None:
    red, none = CreateEvent(entry(labels={"team": "red"})), GenericEvent(key=("default", "a"))
    is_red = labels_match("team in (red, blue)")
    assert is_red(red)
    assert not is_red(CreateEvent(entry()))
    assert not is_red(none)
    assert is_red(UpdateEvent(entry(), entry(labels={"team": "blue"})))
    assert labels_match({"team": "red"})(red)
    assert not not_(is_red)(red)
    assert any_of(not_(is_red), is_red)(red)
    assert not all_of(not_(is_red), is_red)(red)


@pytest.mark.criterion("SH-09")
async def test_all_predicates_must_pass_and_the_first_false_ends_it(
    intake: EventDispatcher,
) -> None:
    asked: list[str] = []

    def answer(name: str, value: bool) -> Predicate:
        def predicate(event: Event) -> bool:
            asked.append(name)
            return value

        return predicate

    predicates = [answer("first", True), answer("second", False), answer("third", True)]
    assert requests(intake, CreateEvent(entry()), enqueue_object, *predicates) == []
    assert asked == ["first", "second"]


@pytest.mark.criterion("SH-02")
@pytest.mark.looptime
class TestChannel:
    async def test_every_subscriber_gets_each_event(self, intake: EventDispatcher) -> None:
        channel, seen = Channel(), []

        def note(name: str) -> Handler:
            return lambda event, queue: seen.append((name, event.key))  # type: ignore[union-attr]

        sources = [ChannelSource(channel, note(name)) for name in ("one", "two")]
        for source in sources:
            await source.start(intake)
        await channel.send(GenericEvent(key=("default", "a")))
        await settled()
        assert sorted(seen) == [("one", ("default", "a")), ("two", ("default", "a"))]
        for source in sources:
            await source.stop()

    async def test_closing_ends_it_after_what_was_sent_before(
        self, intake: EventDispatcher, queue: PriorityQueue
    ) -> None:
        channel = Channel()
        source = ChannelSource(channel, enqueue_object)
        await channel.send(GenericEvent(key=("default", "early")))
        await channel.close()
        await source.start(intake)
        await settled()
        assert [item.request.name for item in taken(queue)] == ["early"]
        assert source._task is not None
        assert source._task.done()
        with pytest.raises(RuntimeError, match="closed"):
            await channel.send(GenericEvent())
        await source.stop()

    async def test_predicates_apply(self, intake: EventDispatcher, queue: PriorityQueue) -> None:
        channel = Channel()
        source = ChannelSource(channel, enqueue_object, predicates=[labels_match("a=b")])
        await source.start(intake)
        await channel.send(GenericEvent(entry("no")))
        await channel.send(GenericEvent(entry("yes", labels={"a": "b"})))
        await settled()
        assert [item.request.name for item in taken(queue)] == ["yes"]
        await source.stop()

    async def test_a_full_buffer_holds_the_sender_until_the_source_runs(
        self, intake: EventDispatcher
    ) -> None:
        channel = Channel()
        source = ChannelSource(channel, enqueue_object, buffer=2)
        for name in "ab":
            await channel.send(GenericEvent(key=("default", name)))
        third = asyncio.create_task(channel.send(GenericEvent(key=("default", "c"))))
        await asyncio.sleep(10)
        assert not third.done()
        await source.start(intake)
        await asyncio.wait_for(third, 1)
        await source.stop()


@pytest.mark.looptime
@pytest.mark.criterion("LV-1")
@pytest.mark.parametrize("wrong", ["a", {"metadata": {"name": "a"}}, ("default", "a")], ids=repr)
async def test_an_event_of_a_channel_that_names_no_object_costs_itself(
    queue: PriorityQueue, wrong: object
) -> None:
    channel, metrics = Channel(), ControllerSeries("test", 1)
    source = ChannelSource(channel, enqueue_object)
    await source.start(EventDispatcher(queue, structlog.get_logger(), metrics=metrics))
    with capture_logs() as logs:
        await channel.send(GenericEvent(entry=cast("Entry", wrong)))
        await channel.send(GenericEvent(entry("good")))
        assert (await asyncio.wait_for(queue.get(), 60)).request.name == "good"
    assert metrics.lost_events == 1
    assert [line["change"] for line in logs] == ["channel event"]
    no_event: Any
    for no_event in (None, wrong):
        with pytest.raises(TypeError, match="a channel takes a GenericEvent"):
            await channel.send(no_event)
    await source.stop()


async def test_a_request_source_adds_requests_only_while_its_controller_runs(
    intake: EventDispatcher, queue: PriorityQueue
) -> None:
    source = RequestSource("runs of a task")
    assert str(source) == "runs of a task"
    source.enqueue(Request("early", namespace="default"), "its run ended")
    await source.start(intake)
    await source.wait_synced()
    source.enqueue(Request("a", namespace="default"), "its run ended")
    await source.stop()
    source.enqueue(Request("late", namespace="default"), "its run ended")
    found = [(item.request.name, set(item.reasons)) for item in taken(queue)]
    assert found == [("a", {"its run ended"})]


async def test_a_func_source_gets_the_queue(intake: EventDispatcher, queue: PriorityQueue) -> None:
    async def fill(queue: PriorityQueue) -> None:
        queue.add(Request("polled", namespace="default"))

    source = FuncSource(fill)
    assert str(source) == "func source fill"
    await source.start(intake)
    await source.wait_synced()
    assert [item.request.name for item in taken(queue)] == ["polled"]
    await source.stop()


@pytest.mark.criterion("LV-1")
@pytest.mark.parametrize("error", [KeyError("plan"), asyncio.CancelledError()], ids=repr)
@pytest.mark.parametrize("part", ["predicate", "map function", "handler"])
async def test_user_code_that_raises_costs_that_event_and_is_counted(
    queue: PriorityQueue, part: str, error: BaseException
) -> None:
    def fail(*_arguments: object) -> NoReturn:
        raise error

    metrics = ControllerSeries("test", 1)
    intake = EventDispatcher(queue, structlog.get_logger(), metrics=metrics)
    handler: Handler = {"map function": enqueue_map_func(fail), "handler": fail}.get(
        part, enqueue_object
    )
    predicates = [fail] if part == "predicate" else []
    with capture_logs() as logs:
        intake.deliver(CreateEvent(entry("a")), handler, predicates, kind="ConfigMap")
    assert metrics.lost_events == 1
    assert [(line["change"], line["exc_info"]) for line in logs] == [
        ("ConfigMap default/a created", error)
    ]
    intake.deliver(CreateEvent(entry("b")), enqueue_object, [], kind="ConfigMap")
    assert (await queue.get()).request == Request("b", namespace="default")


@pytest.mark.criterion("LV-1")
@pytest.mark.looptime
@pytest.mark.parametrize("error", [KeyError("plan"), asyncio.CancelledError()], ids=repr)
async def test_a_map_function_that_awaits_is_retried_until_it_returns(
    queue: PriorityQueue, error: BaseException
) -> None:
    failures = [error, error]

    async def owners(found: Entry) -> list[Request]:
        if found.name == "a" and failures:
            raise failures.pop()
        return [Request(found.name, namespace="default")]

    metrics = ControllerSeries("test", 1)
    intake = EventDispatcher(queue, structlog.get_logger(), metrics=metrics)
    loop = asyncio.get_running_loop()
    start = loop.time()
    with capture_logs() as logs:
        for name in ("a", "b"):
            intake.deliver(CreateEvent(entry(name)), enqueue_map_func(owners), [], kind="ConfigMap")
        assert (await asyncio.wait_for(queue.get(), 3600)).request == Request(
            "b", namespace="default"
        )
        assert loop.time() - start < 0.5, "another object's event does not wait"
        assert (await asyncio.wait_for(queue.get(), 3600)).request == Request(
            "a", namespace="default"
        )
    assert loop.time() - start == pytest.approx(1.5)
    assert (metrics.retried_events, metrics.lost_events) == (2, 0)
    assert [(line["change"], line["exc_info"]) for line in logs] == [
        ("ConfigMap default/a created", error)
    ]


@pytest.mark.criterion("LV-1")
@pytest.mark.looptime
async def test_a_map_function_that_always_raises_loses_its_event_and_is_counted(
    queue: PriorityQueue,
) -> None:
    attempts = []

    async def owners(found: Entry) -> list[Request]:
        attempts.append(found.name)
        raise KeyError("plan")

    metrics = ControllerSeries("test", 1)
    intake = EventDispatcher(queue, structlog.get_logger(), metrics=metrics)
    with capture_logs() as logs:
        intake.deliver(CreateEvent(entry("a")), enqueue_map_func(owners), [], kind="ConfigMap")
        await asyncio.sleep(3600)
    assert (len(attempts), metrics.retried_events, metrics.lost_events) == (12, 11, 1)
    assert [line["event"] for line in logs] == [
        "Event handler failed; it is retried",
        "Event handler failed; the event is lost",
    ]


@pytest.mark.looptime
async def test_retries_of_map_functions_end_with_the_controller(queue: PriorityQueue) -> None:
    attempts = []

    async def owners(found: Entry) -> list[Request]:
        attempts.append(found.name)
        raise KeyError("plan")

    intake = EventDispatcher(queue, structlog.get_logger())
    intake.deliver(CreateEvent(entry("a")), enqueue_map_func(owners), [], kind="ConfigMap")
    await asyncio.sleep(1)
    await intake.close()
    seen = len(attempts)
    await asyncio.sleep(3600)
    assert len(attempts) == seen == 2
