"""No task of a manager ends unseen, and no cancellation leaves a manager behind that runs."""

from __future__ import annotations

import asyncio

import pytest

from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.controller import Builder, ControllerOptions, Request
from ctrlruntime.manager import FuncRunnable, Group, Manager
from tests.support.waiting import eventually

from .support import CONFIG_MAP, LEASE, LONG, manager, starting


class Panic(BaseException):
    """What code of another language raises when it gives up; no Exception."""


async def panics() -> None:
    raise Panic("of a library")


class Unready:
    """A runnable that fails while others wait for it."""

    needs_leader_election = False

    async def start(self) -> None:
        await asyncio.Event().wait()

    async def wait_ready(self) -> None:
        raise Panic("of a library")


class Warm(Unready):
    """One that fails in its warm-up."""

    runnable_group = Group.LEADER_ELECTION
    needs_leader_election = True
    needs_warmup = True

    async def wait_ready(self) -> None:
        return

    async def warmup(self) -> None:
        raise Panic("of a library")


@pytest.mark.criterion("R-4")
@pytest.mark.parametrize("leader_election", [False, True])
@pytest.mark.parametrize(
    "runnable",
    [
        FuncRunnable(panics),
        FuncRunnable(panics, needs_leader_election=False),
        Unready(),
        Warm(),
    ],
    ids=["leader", "other", "readiness", "warm-up"],
)
async def test_a_runnable_that_panics_ends_the_manager(
    config: Config, runnable: FuncRunnable | Unready, leader_election: bool
) -> None:
    subject = manager(config, leader_election=leader_election)
    subject.add(runnable)
    with pytest.raises(RuntimeError, match="of a library"):
        async with asyncio.timeout(LONG):
            await subject.start()
    assert subject.stopped.is_set()


@pytest.mark.criterion("R-4")
@pytest.mark.parametrize("workers", [1, 3])
async def test_a_reconcile_that_panics_costs_its_object_alone(config: Config, workers: int) -> None:
    subject = manager(config)
    tries: dict[str, int] = {}

    async def reconcile(request: Request) -> None:
        tries[request.name] = tries.get(request.name, 0) + 1
        if request.name == "poison" and tries["poison"] < 6:
            await panics()

    Builder(subject).for_(CONFIG_MAP).named("t").options(
        ControllerOptions(max_concurrent_reconciles=workers)
    ).build(reconcile)
    async with starting(subject):
        for name in ("poison", "a", "b"):
            await subject.client.create(
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": name, "namespace": "default"},
                }
            )
        await eventually(lambda: tries.get("poison", 0) >= 6 and {"a", "b"} <= tries.keys())
        assert not subject.stopped.is_set()


async def reconciling(subject: Manager) -> None:
    """Add a controller whose reconciles do not end by themselves."""

    async def reconcile(request: Request) -> None:
        await asyncio.Event().wait()

    Builder(subject).for_(CONFIG_MAP).named("t").build(reconcile)


@pytest.mark.criterion("R-8")
@pytest.mark.parametrize("again", [1, 50])
async def test_cancelled_again_it_ends_and_gives_up_the_lease(config: Config, again: int) -> None:
    """As a cancel scope of anyio does, which cancels at each turn until the task has ended."""
    subject = manager(config, leader_election=True)
    await reconciling(subject)
    task = asyncio.create_task(subject.start())
    async with asyncio.timeout(LONG):
        await subject.elected.wait()
        task.cancel()
        for _ in range(again):
            await asyncio.sleep(0)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert subject.stopped.is_set()
    await holderless(config)


@pytest.mark.criterion("R-8")
async def test_a_block_that_is_cancelled_twice_leaves_no_manager_behind(config: Config) -> None:
    subject = manager(config, leader_election=True)
    await reconciling(subject)

    async def block() -> None:
        async with subject.running():
            entered.set()
            await asyncio.Event().wait()

    entered = asyncio.Event()
    task = asyncio.create_task(block())
    async with asyncio.timeout(LONG):
        await entered.wait()
        while not task.done():
            task.cancel()
            await asyncio.sleep(0)
    assert subject.stopped.is_set()
    await holderless(config)


async def holderless(config: Config) -> None:
    """Check that the Lease has no holder any more."""

    async with Client.connect(config) as client:
        lease = await client.get(LEASE, "tests", namespace="default")
    assert not lease["spec"].get("holderIdentity")
