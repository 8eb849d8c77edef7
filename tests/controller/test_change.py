"""What a reconcile finds of its object, beside what the last successful one found."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.controller import Builder, TerminalError, reconcile_context
from ctrlruntime.controller.last_reconciled import LastReconciled
from ctrlruntime.controller.object_change import ObjectChange
from ctrlruntime.envtest import Environment
from ctrlruntime.kinds.core.v1 import ConfigMap
from ctrlruntime.manager import Manager
from ctrlruntime.queue import Request
from ctrlruntime.resources.field_changes import FieldChange
from tests.client.support import CONFIG_MAP, config_map
from tests.support.manager_harness import make_manager

from .support import Script, controller, running

pytestmark = pytest.mark.criterion("D-32")

LIMIT = 120


class Watching:
    """A reconciler of ConfigMaps that hands on what it is shown, and fails where the data has `fail`."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.client = environment.client("envtest")
        self.shown: asyncio.Queue[ObjectChange[ConfigMap]] = asyncio.Queue()

    def manager(self) -> Manager:
        manager = make_manager(self.environment.config("manager"))
        for_ = Builder(manager).for_(ConfigMap, labels="mine=yes", keep_old=True)
        for_.build(self.reconcile)
        return manager

    async def reconcile(self, request: Request) -> None:
        change = reconcile_context().change(ConfigMap)
        self.shown.put_nowait(change)
        if change.new is not None and "fail" in (change.new.data or {}):
            raise TerminalError("as it was wanted")

    async def create(self, **data: str) -> None:
        await self.client.create(config_map("a", data, labels={"mine": "yes"}))

    async def patch(self, **data: str | None) -> None:
        await self.client.patch(CONFIG_MAP, "a", {"data": data}, namespace="default")

    async def next(self) -> tuple[object, object, tuple[FieldChange, ...]]:
        change = await asyncio.wait_for(self.shown.get(), LIMIT)
        old, new = (None if each is None else each.data for each in (change.old, change.new))
        return old, new, change.diff


@pytest.fixture
async def watching() -> AsyncIterator[Watching]:
    async with Environment(proxy=True) as environment:
        yield Watching(environment)


async def test_old_is_that_of_the_last_success_until_the_process_ends(watching: Watching) -> None:
    async with watching.manager().running():
        await watching.create(a="1")
        assert await watching.next() == (None, {"a": "1"}, ())
        await watching.patch(a="2", fail="now")
        failed = ({"a": "1"}, {"a": "2", "fail": "now"})
        assert (await watching.next())[:2] == failed
        await watching.patch(a="3", fail=None, b="4")
        assert await watching.next() == (
            {"a": "1"},
            {"a": "3", "b": "4"},
            (FieldChange("data.a", "1", "3"), FieldChange("data.b", None, "4")),
        )
        await watching.patch(b=None)
        changed = (FieldChange("data.b", "4", None),)
        assert await watching.next() == ({"a": "3", "b": "4"}, {"a": "3"}, changed)
    mark = watching.environment.proxy.log.mark()
    async with watching.manager().running():
        assert await watching.next() == (None, {"a": "3"}, ())
        await watching.client.delete(CONFIG_MAP, "a", namespace="default")
        assert await watching.next() == ({"a": "3"}, None, ())
        await watching.create(a="5")
        assert await watching.next() == (None, {"a": "5"}, ())
    log = watching.environment.proxy.log.since(mark).select(user="manager")
    assert log.writes == 0, "something was kept in an object"


def entry(name: str, uid: str = "1", **metadata: object) -> Entry:
    manifest = config_map(name, {"a": uid}, uid=uid, **metadata)
    return EntryDecoder(CONFIG_MAP).decode_manifest(manifest)


@pytest.mark.looptime
async def test_another_object_of_the_name_has_no_old_and_bookkeeping_is_no_difference() -> None:
    there: dict[Request, Entry] = {}
    shown: list[ObjectChange[Any]] = []

    async def note() -> None:
        shown.append(reconcile_context().change(CONFIG_MAP))

    request, script = Request("a", namespace="default"), Script(*[note] * 5)
    subject = controller(LastReconciled(script, lambda request: there.get(request)))
    async with running(subject):
        for count, found in enumerate(
            [
                entry("a", resourceVersion="1"),
                entry("a", resourceVersion="2", generation=2),
                entry("a", "2"),
                None,
                None,
            ]
        ):
            there = {} if found is None else {request: found}
            subject.queue.add(request)
            await script.until(count + 1)
            await asyncio.sleep(1)
    assert [each.old is None for each in shown] == [True, False, True, False, True]
    assert {each.diff for each in shown} == {()}


@pytest.mark.looptime
async def test_objects_that_went_without_a_pass_are_not_remembered_for_ever() -> None:
    there: dict[Request, Entry] = {}
    subject = LastReconciled(script := Script(), there.get)
    runs = controller(subject)
    async with running(runs):
        for index in range(500):
            there.clear()
            request = Request(f"{index}", namespace="default")
            there[request] = entry(f"{index}")
            runs.queue.add(request)
            await script.until(index + 1)
    assert len(subject._last) < 100


@pytest.mark.looptime
async def test_without_the_option_the_error_names_it() -> None:
    found: list[str] = []

    async def ask() -> None:
        with pytest.raises(LookupError) as caught:
            reconcile_context().change(CONFIG_MAP)
        found.append(str(caught.value))

    async with running(subject := controller(script := Script(ask))):
        subject.queue.add(Request("a"))
        await script.until(1)
        await asyncio.sleep(1)
    assert "keep_old=True" in found[0]
