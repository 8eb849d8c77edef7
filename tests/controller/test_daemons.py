"""A task for each object that is there, and never two."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest

from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.controller import Builder, Result
from ctrlruntime.controller.object_daemons import ENDS_WITHIN, ObjectDaemons, WithDaemons
from ctrlruntime.controller.slot_gate import SlotGate
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.eventually import eventually, eventually_gone, eventually_holds
from ctrlruntime.queue import Request
from tests.client.support import CONFIG_MAP, config_map
from tests.support.manager_harness import make_manager

from .support import A, B, Script, controller, running, settled
from .test_slots import Held, request

pytestmark = pytest.mark.criterion("D-44")


def entry(uid: str, **metadata: object) -> Entry:
    return EntryDecoder(CONFIG_MAP).decode_manifest(config_map("a", None, uid=uid, **metadata))


GOES = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/f"]}


class Log:
    """Daemons and passes, in their order."""

    def __init__(self, there: dict[Request, Entry]) -> None:
        self.there, self.lines = there, list[str]()
        self.daemons = ObjectDaemons(self.run, there.get)
        self.ending: Callable[[], Awaitable[object]] = settled

    def uid(self, request: Request) -> str:
        found = self.there.get(request)
        return "none" if found is None else found.uid

    async def run(self, request: Request) -> None:
        uid = self.uid(request)
        self.lines.append(f"+{uid}")
        try:
            await asyncio.Event().wait()
        finally:
            await self.ending()
            self.lines.append(f"-{uid}")

    async def reconcile(self, request: Request) -> Result | None:
        await settled()
        self.lines.append(f"pass of {self.uid(request)}")
        return None


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("then", "expected"),
    [
        ({A: entry("1")}, ["pass of 1"]),
        ({}, ["-1", "pass of none"]),
        ({A: entry("1", **GOES)}, ["-1", "pass of 1"]),
        ({A: entry("2")}, ["-1", "+2", "pass of 2"]),
    ],
    ids=["it is there still", "gone", "being deleted", "another of its name"],
)
async def test_a_daemon_has_ended_before_a_pass_sees_its_object_go(
    then: dict[Request, Entry], expected: list[str]
) -> None:
    log = Log({A: entry("1")})
    subject = controller(WithDaemons(log, log.daemons), daemons=log.daemons)
    async with running(subject):
        subject.queue.add(A)
        await asyncio.sleep(1)
        assert log.lines == ["+1", "pass of 1"]
        log.there.clear()
        log.there.update(then)
        subject.queue.add(A)
        await asyncio.sleep(1)
        assert log.lines[2:] == expected
    assert sum(line[0] == "+" for line in log.lines) == sum(line[0] == "-" for line in log.lines)


@pytest.mark.looptime
async def test_one_that_fails_runs_again_later_each_time_and_one_that_returns_does_not() -> None:
    starts: dict[Request, list[float]] = {A: [], B: []}

    async def daemon(request: Request) -> None:
        starts[request].append(asyncio.get_running_loop().time())
        if request == A:
            raise OSError("lost")

    daemons = ObjectDaemons(daemon, {A: entry("1"), B: entry("2")}.get)
    subject = controller(WithDaemons(Script(), daemons), daemons=daemons)
    async with running(subject):
        for _ in range(3):
            subject.queue.add(A)
            subject.queue.add(B)
            await asyncio.sleep(20)
    gaps = [later - before for before, later in pairwise(starts[A])]
    assert gaps[0] >= 1
    assert all(later > 1.5 * before for before, later in pairwise(gaps))
    assert len(gaps) >= 4
    assert len(starts[B]) == 1


@pytest.mark.looptime
async def test_one_that_swallows_its_cancellation_is_waited_for_and_cancelled_again() -> None:
    log = Log({A: entry("1")})
    swallowed = 0

    async def swallow() -> None:
        nonlocal swallowed
        while swallowed < 3:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                swallowed += 1

    log.ending = swallow
    subject = controller(WithDaemons(log, log.daemons), daemons=log.daemons)
    async with running(subject):
        subject.queue.add(A)
        await asyncio.sleep(1)
        log.there.clear()
        subject.queue.add(A)
        await asyncio.sleep(5 * ENDS_WITHIN)
        assert log.lines == ["+1", "pass of 1", "-1", "pass of none"]


@pytest.mark.looptime
async def test_the_daemons_of_released_slots_end_and_no_others() -> None:
    one, two = request(1), request(2)
    log, held = Log({one: entry("1"), two: entry("2")}), Held()
    held.held = held.writable = frozenset({1, 2})
    subject = controller(WithDaemons(log, log.daemons), daemons=log.daemons, gate=SlotGate(held))
    async with running(subject):
        subject.queue.add(one)
        subject.queue.add(two)
        await asyncio.sleep(1)
        held.held = frozenset({2})
        await subject.release_slots(frozenset({1}))
        assert [line for line in log.lines if line[0] == "-"] == ["-1"]


def no_coroutine(request: Request) -> None: ...


async def test_what_is_no_coroutine_function_is_refused() -> None:
    async with Environment() as environment:
        builder = Builder(make_manager(environment.config("manager")))
        with pytest.raises(TypeError, match="async def watch"):
            builder.for_(CONFIG_MAP, daemon=no_coroutine)  # type: ignore[arg-type]


async def test_of_a_manager_it_ends_before_the_finalizer_goes_also_past_a_predicate(
    environment: Environment,
) -> None:
    """Nothing but creations passes the predicate; deletions lead to a pass all the same."""
    running_now: set[str] = set()
    at_the_end: list[bool] = []

    async def daemon(request: Request) -> None:
        running_now.add(request.name)
        try:
            await asyncio.Event().wait()
        finally:
            await settled()
            running_now.discard(request.name)

    manager = make_manager(environment.config("manager"))

    async def reconcile(request: Request) -> None:
        found = manager.cache.get(CONFIG_MAP, request.name, namespace="default")
        if found is not None and "deletionTimestamp" in found["metadata"]:
            at_the_end.append(request.name in running_now)
            patch = {"metadata": {"finalizers": None}}
            await manager.client.patch(CONFIG_MAP, request.name, patch, namespace="default")

    Builder(manager).for_(
        CONFIG_MAP,
        labels="mine=yes",
        daemon=daemon,
        predicates=[lambda event: type(event).__name__ == "CreateEvent"],
    ).build(reconcile)
    client = environment.client("envtest")
    finalizers = ["example.com/f"]
    await client.create(config_map("a", labels={"mine": "yes"}, finalizers=finalizers))
    await client.create(config_map("b", labels={"mine": "yes"}))
    async with manager.running():
        await eventually_holds(lambda: running_now == {"a", "b"})
        for name in ("a", "b"):
            await client.delete(CONFIG_MAP, name, namespace="default")
            await eventually_gone(client, CONFIG_MAP, name, namespace="default")
        await eventually_holds(lambda: not running_now)
        assert at_the_end == [False]
        await client.create(config_map("c", labels={"mine": "yes"}))
        await eventually(client, CONFIG_MAP, "c", {}, namespace="default")
        await eventually_holds(lambda: running_now == {"c"})
    assert not running_now
