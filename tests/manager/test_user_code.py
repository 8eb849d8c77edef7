"""LV-1 as a whole: every function of the user raises, and the manager works, tells the truth and counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from structlog.testing import capture_logs

from ctrlruntime import Builder, ClientOptions, Config, Entry, Request, enqueue_map_func
from ctrlruntime.cache.events import Event
from tests.client.support import config_map
from tests.support.waiting import eventually

from .support import CONFIG_MAP, LONG, manager, running
from .test_manager import get

pytestmark = pytest.mark.criterion("LV-1")

INFORMER = {"kind": "ConfigMap"}
CONTROLLER = {"controller": "user"}
COUNTED = {
    "ctrlruntime_informer_index_failures_total": INFORMER,
    "ctrlruntime_informer_transform_failures_total": INFORMER,
    "ctrlruntime_controller_lost_events_total": CONTROLLER,
    "ctrlruntime_controller_retried_events_total": CONTROLLER,
    "ctrlruntime_client_lost_warnings_total": {},
}


def failing_for(name: str) -> Callable[[Entry], Entry]:
    """Return a function of an entry that raises for the object `name`."""

    def look(entry: Entry) -> Entry:
        if entry.name == name:
            raise KeyError(name)
        return entry

    return look


async def test_whatever_raises_costs_its_object_is_counted_and_the_probes_stay_true(
    config: Config,
) -> None:
    def warned(text: str) -> None:
        raise KeyError(text)

    def index(entry: Entry) -> Iterable[str]:
        return [failing_for("index")(entry).name]

    def passes(event: Event) -> bool:
        entry: Entry = getattr(event, "new", None) or getattr(event, "old")  # noqa: B009
        failing_for("predicate")(entry)
        return True

    def owner(entry: Entry) -> list[Request]:
        return [Request(failing_for("map")(entry).name)]

    async def found(entry: Entry) -> list[Request]:
        return [Request(failing_for("awaited")(entry).name)]

    seen: set[str] = set()

    async def reconcile(request: Request) -> None:
        seen.add(request.name)

    subject = manager(config, client=ClientOptions(field_validation="Warn", warning_handler=warned))
    builder = Builder(subject).named("user")
    builder.watches(
        CONFIG_MAP,
        enqueue_map_func(owner),
        namespaces=["default"],
        predicates=[passes],
        indexes={"name": index},
        transform=failing_for("transform"),
    )
    builder.watches(CONFIG_MAP, enqueue_map_func(found), namespaces=["default"])
    builder.build(reconcile)
    with capture_logs() as logs:
        async with asyncio.timeout(LONG), running(subject):
            for name in ("index", "transform", "predicate", "map", "awaited"):
                await subject.client.create(config_map(name))
            made = await subject.client.create({**config_map("warned"), "daat": {}})
            assert made["metadata"]["uid"], "the answer to a write whose warning handler raised"
            await subject.client.create(config_map("well"))
            # the predicate and each map function lose their object's event, the others' goes on
            await eventually(lambda: {"index", "warned", "well"} <= seen)
            value = subject.metrics.registry.get_sample_value
            await eventually(lambda: all(value(name, of) for name, of in COUNTED.items()))
            lines = (await get(subject.metrics_port, "/metrics"))[1].splitlines()
            for name in COUNTED:
                assert [line for line in lines if line.startswith(name)], name
            assert (await get(subject.health_port, "/healthz"))[0] == 200
            assert (await get(subject.health_port, "/readyz"))[0] == 200
            kept = {entry.name for entry in subject.cache.entries(CONFIG_MAP, "default")}
            assert {"index", "predicate", "map", "awaited", "warned", "well"} <= kept
            assert "transform" not in kept
            found_by = subject.cache.entries(CONFIG_MAP, "default", index={"name": "well"})
            assert [entry.name for entry in found_by] == ["well"]
            assert subject.cache.entries(CONFIG_MAP, "default", index={"name": "index"}) == []
    errors = [line["exc_info"].args for line in logs if "exc_info" in line]
    for name in ("index", "transform", "predicate", "map", "awaited", 'unknown field "daat"'):
        assert (name,) in errors, "each is logged with its traceback"


async def test_a_warning_handler_that_is_not_awaited_is_refused_when_the_options_are_made() -> None:
    async def warned(text: str) -> None: ...

    wrong: Any = warned
    with pytest.raises(TypeError, match=r"warning_handler.*plain `def`"):
        ClientOptions(warning_handler=wrong)
