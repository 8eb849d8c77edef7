"""LV-3: what could not work is refused when the controller is built; a wrong result fails one reconcile."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Coroutine
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.api.resource import KindRef
from ctrlruntime.cache.cache import Cache
from ctrlruntime.cache.events import Event
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.controller import (
    Builder,
    BuilderError,
    ControllerOptions,
    ReconcileError,
    Request,
    Result,
    enqueue_object,
)
from ctrlruntime.controller.reconcile import ReconcileFunc
from ctrlruntime.resources import Action, Control, Desired, Owner, UntrackedKind
from tests.client.support import config_map
from tests.support.manager_harness import make_manager

from .support import A, B, Script, controller, running, series

pytestmark = pytest.mark.criterion("LV-3")

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
SECRET = GroupVersionKind("", "v1", "Secret")
NAMESPACE = GroupVersionKind("", "v1", "Namespace")
UNREACHABLE = Config(host="http://127.0.0.1:9")


@pytest.mark.parametrize("recover", [True, False], ids=["recovery", "no recovery"])
@pytest.mark.parametrize("wrong", [True, 0, "soon", {"requeue_after": 5}, (None, None)], ids=repr)
async def test_a_wrong_result_is_a_failed_reconcile(wrong: object, recover: bool) -> None:
    async def answer() -> Result | None:
        return cast("Result", wrong)

    script, counts = Script(answer), series()
    subject = controller(script, ControllerOptions(recover_panic=recover), metrics=counts)
    async with running(subject) as task:
        subject.queue.add(A)
        await script.until(2)  # it is tried again, with back-off
        subject.queue.add(B)
        await script.until(3)
        assert not task.done()
    assert (counts.errors, counts.panics) == (1, 0)
    assert counts.outcomes["error"] == 1


async def test_the_message_of_a_wrong_result_has_the_fix_and_not_its_contents() -> None:
    async def answer() -> Result | None:
        return cast("Result", {"password": "hunter2"})

    with capture_logs() as logs:
        script = Script(answer)
        subject = controller(script)
        async with running(subject):
            subject.queue.add(A)
            await script.until(2)
    text = str([line for line in logs if line["event"] == "Reconciler error"])
    assert "return None" in text
    assert "Result(requeue_after=seconds)" in text
    assert "hunter2" not in text


@pytest.mark.parametrize(
    "values",
    [
        {"requeue_after": "5"},
        {"requeue_after": True},
        {"requeue_after": float("nan")},
        {"requeue_after": float("inf")},
        {"priority": 1.5},
        {"priority": "high"},
    ],
    ids=repr,
)
def test_a_result_of_wrong_values_cannot_be_made(values: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match="|".join(values)):
        Result(**values)
    with pytest.raises(TypeError, match="is a Result"):
        ReconcileError("no", result=values)  # type: ignore[arg-type]


async def asynchronous(request: Request) -> None: ...


class Method:
    async def reconcile(self, request: Request) -> None: ...


class Called:
    async def __call__(self, request: Request) -> None: ...


class Plain:
    def reconcile(self, request: Request) -> None: ...


@functools.wraps(asynchronous)
def wrapped(request: Request) -> Coroutine[Any, Any, None]:
    return asynchronous(request)


def plain(request: Request) -> None: ...


async def two(request: Request, logger: object) -> None: ...


@pytest.mark.parametrize(
    ("reconciler", "fix"),
    [
        (Method, r"pass an instance, Method\(\)"),
        (two, "one argument, the request"),
        (None, "pass a coroutine function"),
        ("reconcile", "pass a coroutine function"),
    ],
    ids=["class", "arguments", "none", "text"],
)
async def test_a_reconciler_that_cannot_be_called_is_refused(
    reconciler: ReconcileFunc[Request], fix: str
) -> None:
    subject = make_manager(UNREACHABLE)
    with pytest.raises(BuilderError, match=fix):
        Builder(subject).for_(CONFIG_MAP).build(reconciler)
    Builder(subject).for_(CONFIG_MAP).build(asynchronous)  # the name was not taken


@pytest.mark.parametrize(
    "reconciler",
    [
        asynchronous,
        Method(),
        Called(),
        wrapped,
        functools.partial(two, logger=None),
        Method().reconcile,
        plain,
        Plain(),
    ],
    ids=["def", "object", "callable", "wrapped", "partial", "bound", "plain", "plain object"],
)
async def test_what_can_be_awaited_is_taken(reconciler: ReconcileFunc[Request]) -> None:
    Builder(make_manager(UNREACHABLE)).for_(CONFIG_MAP).build(reconciler)


@pytest.mark.parametrize(
    "kind",
    ["Deployment", "apps/v1", dict, None, object()],
    ids=["a kind", "a version", "a class", "nothing", "an object"],
)
async def test_what_is_no_kind_is_refused_with_what_to_pass(kind: KindRef) -> None:
    builder = Builder(make_manager(UNREACHABLE))
    match = r'is not a kind: pass a Resource class.*GroupVersionKind\("apps", "v1", "Deployment"\)'
    with pytest.raises(ValueError, match=match):
        builder.for_(kind)
    with pytest.raises(ValueError, match=match):
        builder.owns(kind)
    with pytest.raises(ValueError, match=match):
        builder.watches(kind, enqueue_object)


async def test_coroutine_functions_that_would_not_be_awaited_are_refused() -> None:
    async def handler(event: Event, queue: object) -> None: ...

    async def predicate(event: Event) -> bool:
        return False

    subject = make_manager(UNREACHABLE)
    wrong: Any = handler
    with pytest.raises(BuilderError, match=r"a handler .*plain `def`"):
        Builder(subject).for_(CONFIG_MAP).watches(SECRET, wrong).build(asynchronous)
    wrong = predicate
    with pytest.raises(BuilderError, match=r"a predicate .*plain `def`"):
        Builder(subject).for_(CONFIG_MAP).owns(SECRET, predicates=[wrong]).build(asynchronous)


@pytest.mark.parametrize("tracked", [None, "web-site"], ids=["missing", "wrong"])
async def test_an_owned_kind_that_a_control_cannot_compare_is_refused(tracked: str | None) -> None:
    subject = make_manager(UNREACHABLE)
    Control(subject.cache, field_manager="website")
    with pytest.raises(BuilderError, match=r"v1, Kind=Secret.*pass track_manager='website'"):
        Builder(subject).for_(CONFIG_MAP).owns(SECRET, track_manager=tracked).build(asynchronous)
    Builder(subject).for_(CONFIG_MAP).owns(SECRET, track_manager="website").build(asynchronous)


async def test_a_watched_kind_that_tracks_a_field_manager_of_no_control_is_refused() -> None:
    subject = make_manager(UNREACHABLE)
    Control(subject.cache, field_manager="website")
    wrong = Builder(subject).for_(CONFIG_MAP)
    wrong.watches(SECRET, enqueue_object, track_manager="web-site")
    with pytest.raises(BuilderError, match=r"watches\(v1, Kind=Secret\) tracks 'web-site'"):
        wrong.build(asynchronous)
    right = Builder(subject).for_(CONFIG_MAP)
    right.watches(SECRET, enqueue_object, track_manager="website")
    right.watches(NAMESPACE, enqueue_object)
    right.build(asynchronous)
    assert subject.cache.informer(SECRET).track_manager == "website"
    assert subject.cache.informer(NAMESPACE).track_manager is None


async def test_a_kind_that_no_control_writes_needs_no_field_manager() -> None:
    subject = make_manager(UNREACHABLE)
    Builder(subject).for_(CONFIG_MAP).owns(SECRET).build(asynchronous)
    Control(subject.cache, field_manager="website")
    builder = Builder(subject).for_(SECRET).owns(CONFIG_MAP, track_manager="")
    builder.build(asynchronous)
    assert subject.cache.informer(CONFIG_MAP).track_manager is None
    await asyncio.sleep(0)


@pytest.mark.parametrize("tracked", [None, "another"], ids=["missing", "wrong"])
async def test_a_control_that_the_builder_could_not_know_writes_once_and_then_names_the_fix(
    config: Config, tracked: str | None
) -> None:
    """One made after the build, or one of several: what is wrong shows in the first reconcile that would repeat a write."""
    async with Client.connect(config) as client:
        cache = Cache(client)
        cache.declare(CONFIG_MAP, namespaces=["default"], track_manager=tracked)
        await cache.start()
        try:
            await cache.wait_synced(60.0)
            owner = Owner.of(await client.create(config_map("owner")))
            control = Control(cache, field_manager="website")
            mapping = cache.informer(CONFIG_MAP).mapping
            desired = Desired(mapping=mapping, manifest=config_map("made"))
            assert (await control.ensure(desired, owner)).action is Action.CREATED
            for _ in range(2):
                with pytest.raises(UntrackedKind, match=r"pass track_manager='website'.*owns\(\)"):
                    await control.ensure(desired, owner)
        finally:
            await cache.stop()
