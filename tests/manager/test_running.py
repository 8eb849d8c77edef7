"""`Manager.running()`: a manager for the length of a block."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable

import pytest

from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.client.config import Config
from ctrlruntime.controller import Builder, ControllerOptions, Request
from ctrlruntime.controller.controller import SourceSyncTimeout
from ctrlruntime.envtest.server import APIServer
from ctrlruntime.manager import Group, Manager, StoppedWhileStarting
from tests.support.waiting import eventually

from .support import (
    CONFIG_MAP,
    LONG,
    Failing,
    Recorded,
    fails_for_want_of,
    manager,
    starting,
)

pytestmark = pytest.mark.criterion("DX-8")


async def test_the_block_begins_when_caches_have_synced_and_controllers_run(
    server: APIServer, config: Config
) -> None:
    subject = manager(config)
    subject.cache.declare(CONFIG_MAP)
    work = Recorded("work", [])
    subject.add(work)
    async with asyncio.timeout(LONG), subject.running() as given:
        assert given is subject
        assert subject.cache.synced
        assert subject.elected.is_set()
        await work.began.wait()
        assert not subject.stopped.is_set()
    assert subject.stopped.is_set()
    assert work.log == ["start work", "stop work"]


async def test_a_candidate_enters_once_it_leads_or_before_if_that_is_enough(config: Config) -> None:
    first, second, third = (manager(config, leader_election=True) for _ in range(3))
    async with asyncio.timeout(LONG), third.running(leading=False):
        await third.elected.wait()
        free = Recorded("free", [], Group.OTHERS)
        second.add(free)
        async with second.running(leading=False):
            assert second.prepared.is_set()
            assert free.began.is_set()
            assert not second.elected.is_set()
        entering = asyncio.create_task(_enter(first))
        await first.prepared.wait()
        assert not entering.done()
        third.stop()
        await entering


async def _run(subject: Manager, block: Callable[[], Awaitable[object]]) -> None:
    limit = asyncio.timeout(LONG)
    try:
        async with limit, subject.running():
            await block()
    finally:
        assert not limit.expired()


async def _fail() -> None:
    pytest.fail("the block was entered")


async def _enter(subject: Manager, until: asyncio.Event | None = None) -> None:
    async with subject.running():
        assert subject.elected.is_set()
        if until is not None:
            await until.wait()


async def test_an_error_of_the_start_is_raised_and_not_waited_for(config: Config) -> None:
    subject = manager(config)
    failing = Failing(OSError("disk is gone"))
    failing.now.set()
    subject.add(failing)
    with pytest.raises(OSError, match="disk is gone"):
        await _run(subject, _fail)
    assert subject.stopped.is_set()


async def test_a_kind_that_does_not_sync_in_time_is_an_error_of_the_start(config: Config) -> None:
    subject = manager(config, leader_election=True)
    missing = RESTMapping(GroupVersionKind("none.example.com", "v1", "Missing"), "missings", True)

    async def reconcile(_request: Request) -> None:
        return None

    options = ControllerOptions(cache_sync_timeout=3600)
    Builder(subject).for_(missing).options(options).build(reconcile)
    run = asyncio.create_task(_enter(subject, subject.stopped))
    with pytest.raises(SourceSyncTimeout, match="Missing"):
        await fails_for_want_of(subject, subject.cache.informer(missing), run, 3600)


async def test_a_failure_within_the_block_cancels_the_block_and_takes_its_place(
    config: Config,
) -> None:
    subject = manager(config)
    failing = Failing(OSError("disk is gone"))
    subject.add(failing)
    cleaned_up = asyncio.Event()

    async def block() -> None:
        try:
            failing.now.set()
            await asyncio.Event().wait()
        finally:
            cleaned_up.set()

    with pytest.raises(OSError, match="disk is gone"):
        await _run(subject, block)
    assert cleaned_up.is_set()
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0
    await asyncio.sleep(0)  # nothing is left of the cancellation


async def test_an_error_of_the_block_stops_the_manager_and_is_raised_as_it_is(
    config: Config,
) -> None:
    subject = manager(config)
    work = Recorded("work", [])
    subject.add(work)

    async def block() -> None:
        await work.began.wait()
        raise LookupError("in the block")

    with pytest.raises(LookupError, match="in the block"):
        await _run(subject, block)
    assert work.log == ["start work", "stop work"]


async def test_errors_of_the_block_and_of_the_manager_are_raised_together(config: Config) -> None:
    subject = manager(config)
    failing = Failing(OSError("disk is gone"))
    subject.add(failing)

    async def block() -> None:
        failing.now.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        raise LookupError("in the block")

    with pytest.raises(ExceptionGroup) as caught:
        await _run(subject, block)
    assert [type(error) for error in caught.value.exceptions] == [LookupError, OSError]


async def test_a_manager_that_stops_without_an_error_leaves_the_block_alone(config: Config) -> None:
    subject = manager(config)
    async with asyncio.timeout(LONG), subject.running():
        subject.stop()
        await subject.stopped.wait()
        await asyncio.sleep(0)


async def test_a_manager_stopped_before_it_leads_is_an_error(config: Config) -> None:
    first, second = (manager(config, leader_election=True) for _ in range(2))
    async with asyncio.timeout(LONG), first.running():
        entering = asyncio.create_task(_enter(second))
        await second.prepared.wait()
        second.stop()
        with pytest.raises(StoppedWhileStarting, match="before it was ready"):
            await entering


async def test_a_cancelled_block_stops_the_manager_within_its_grace_period(config: Config) -> None:
    subject = manager(config, graceful_shutdown_timeout=-1)
    work = Recorded("work", [], held=asyncio.Event())
    subject.add(work)

    async def block() -> None:
        async with subject.running():
            await asyncio.Event().wait()

    task = asyncio.create_task(block())
    await asyncio.wait_for(work.began.wait(), LONG)
    await asyncio.wait_for(subject.elected.wait(), LONG)
    task.cancel()
    await eventually(lambda: subject._stopping)
    assert not task.done()
    assert work.held is not None
    work.held.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.log == ["start work", "stop work"]


async def test_a_running_manager_is_not_run_again_nor_stopped_by_the_attempt(
    config: Config,
) -> None:
    subject = manager(config)
    async with starting(subject) as task:
        await asyncio.wait_for(subject.elected.wait(), LONG)
        with pytest.raises(RuntimeError, match="started already"):
            await _run(subject, _fail)
        assert not task.done()


PROGRAM = """
    import asyncio, sys
    from ctrlruntime.client.config import Config
    from ctrlruntime.manager import Manager, ManagerOptions, run

    async def main():
        manager = Manager(Config(host=sys.argv[1]), ManagerOptions(
            metrics_bind_address="0", health_bind_address="0"))
        async with manager.running():
            print("running", flush=True)
            await asyncio.Event().wait()

    run(main())
"""


async def test_sigterm_ends_the_block_of_a_program_with_status_0(config: Config) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        textwrap.dedent(PROGRAM),
        config.host,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    async with asyncio.timeout(LONG):
        assert await process.stdout.readline() == b"running\n"
        process.terminate()
        assert await process.wait() == 0
