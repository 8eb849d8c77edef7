"""How a process and its manager stop: signals, the grace period of reconciles, the Lease."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.controller import Builder, Request
from ctrlruntime.manager import GracePeriodExceeded, LeaderElectionLost
from tests.support.waiting import eventually

from .support import CONFIG_MAP, LEASE, LONG, manager, starting

LEADER = """
    import asyncio, sys
    from ctrlruntime.api.kinds import GroupVersionKind
    from ctrlruntime.client.config import Config
    from ctrlruntime.controller import Builder
    from ctrlruntime.manager import ElectionOptions, Manager, ManagerOptions, run

    host, seconds, timeout = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])

    async def main():
        manager = Manager(Config(host=host), ManagerOptions(
            metrics_bind_address="0", health_bind_address="0", leader_election=True,
            leader_election_id="tests", leader_election_namespace="default",
            election=ElectionOptions(retry_period=0.2), graceful_shutdown_timeout=timeout))
        async def reconcile(request):
            print("reconciling", flush=True)
            try:
                await asyncio.sleep(seconds)
            except asyncio.CancelledError:
                print("cancelled", flush=True)
                raise
            await manager.client.patch(
                GroupVersionKind("", "v1", "ConfigMap"), request.name,
                {"data": {"done": request.name}}, namespace=request.namespace)
            print("reconciled", flush=True)
        Builder(manager).for_(GroupVersionKind("", "v1", "ConfigMap")).named("t").build(reconcile)
        try:
            await manager.start()
        finally:
            print("stopped", flush=True)

    run(main())
"""

_START, _END = LEADER.index("        async def reconcile"), LEADER.index("        Builder(manager)")
LEADER_OF_THREADS = (
    LEADER[:_START]
    + """        def reconcile(request):
            print("reconciling", flush=True)
            sys.stdin.readline()
"""
    + LEADER[_END:]
)

PLAIN = """
    import asyncio
    from ctrlruntime.manager import run

    async def main():
        print("running", flush=True)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            print("cleaned up", flush=True)

    run(main())
"""


@contextlib.asynccontextmanager
async def program(text: str, *arguments: object) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run Python code as a process, and kill it at the end of the block if it still runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        textwrap.dedent(text),
        *map(str, arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def ended(process: asyncio.subprocess.Process) -> int:
    """Let the thread of a program end, which waits for a line, once its manager has stopped. Return the status."""
    assert await line(process) == "stopped"
    assert process.stdin is not None
    process.stdin.write(b"\n")
    return await process.wait()


async def line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


def config_map(name: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
    }


@pytest.mark.criterion("LV-6")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_lv_6_run_stops_the_manager_on_a_signal_and_releases_the_lease(
    config: Config, number: signal.Signals
) -> None:
    async with asyncio.timeout(LONG), Client.connect(config) as client:
        await client.create(config_map("one"))
        async with program(LEADER, config.host, 3600, 0.5) as process:
            assert await line(process) == "reconciling"
            lease = await client.get(LEASE, "tests", namespace="default")
            assert lease["spec"]["holderIdentity"]
            process.send_signal(number)
            assert await line(process) == "cancelled"
            assert await process.wait() == 0
            released = await client.get(LEASE, "tests", namespace="default")
    assert released["spec"]["holderIdentity"] == ""


@pytest.mark.criterion("LV-6")
async def test_lv_6_a_reconcile_in_progress_ends_before_the_process_does(config: Config) -> None:
    async with asyncio.timeout(LONG), Client.connect(config) as client:
        for name in ("one", "two"):
            await client.create(config_map(name))
        async with program(LEADER, config.host, 2, 3600) as process:
            assert await line(process) == "reconciling"
            process.send_signal(signal.SIGTERM)
            assert await line(process) == "reconciled"
            assert await line(process) == "stopped", (
                "a second reconcile was started after the signal"
            )
            assert await process.wait() == 0
            done = [
                (await client.get(CONFIG_MAP, name, namespace="default")).get("data")
                for name in ("one", "two")
            ]
            assert sorted(map(bool, done)) == [False, True]
            released = await client.get(LEASE, "tests", namespace="default")
    assert released["spec"]["holderIdentity"] == ""


@pytest.mark.criterion("R-9")
@pytest.mark.parametrize("grace", [0, 0.3])
async def test_the_lease_of_a_reconcile_that_left_a_thread_runs_out(
    config: Config, grace: float
) -> None:
    """The await of `asyncio.to_thread` is cancelled, and the thread works on: nothing is to work beside it."""
    text = LEADER.replace("asyncio.sleep(seconds)", "asyncio.to_thread(sys.stdin.readline)")
    async with asyncio.timeout(LONG), Client.connect(config) as client:
        await client.create(config_map("one"))
        async with program(text, config.host, 0, grace) as process:
            assert await line(process) == "reconciling"
            process.send_signal(signal.SIGTERM)
            assert await line(process) == "cancelled"
            assert await ended(process) == 0
            kept = await client.get(LEASE, "tests", namespace="default")
    assert kept["spec"]["holderIdentity"]


@pytest.mark.criterion("D-33")
@pytest.mark.parametrize("grace", [0, 0.3])
async def test_the_lease_of_a_plain_reconciler_that_works_runs_out(
    config: Config, grace: float
) -> None:
    """The pass lasts as long as its thread, so the grace period ends with it at work: status 1, if there was one."""
    async with asyncio.timeout(LONG), Client.connect(config) as client:
        await client.create(config_map("one"))
        async with program(LEADER_OF_THREADS, config.host, 0, grace) as process:
            assert await line(process) == "reconciling"
            process.send_signal(signal.SIGTERM)
            assert await ended(process) == (1 if grace else 0)
            kept = await client.get(LEASE, "tests", namespace="default")
    assert kept["spec"]["holderIdentity"]


@pytest.mark.criterion("LV-6")
async def test_lv_6_a_second_signal_ends_the_grace_period(config: Config) -> None:
    async with asyncio.timeout(LONG), Client.connect(config) as client:
        await client.create(config_map("one"))
        async with program(LEADER, config.host, 3600, -1) as process:
            assert await line(process) == "reconciling"
            process.send_signal(signal.SIGTERM)
            lease = await client.get(LEASE, "tests", namespace="default")
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 1
    assert lease["spec"]["holderIdentity"]


@pytest.mark.criterion("LV-6")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, -2)])
async def test_lv_6_a_program_without_a_manager_cleans_up_and_ends_as_signalled(
    number: signal.Signals, status: int
) -> None:
    async with asyncio.timeout(LONG), program(PLAIN) as process:
        assert await line(process) == "running"
        process.send_signal(number)
        assert await line(process) == "cleaned up"
        assert await process.wait() == status


class Slow:
    """A reconciler whose runs end when they may."""

    def __init__(self) -> None:
        self.runs = 0
        self.may_end = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.stubborn = False

    async def __call__(self, request: Request) -> None:
        self.runs += 1
        while True:
            try:
                await self.may_end.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                if not self.stubborn:
                    raise
            else:
                return


@pytest.mark.criterion("LV-6")
async def test_lv_6_the_grace_period_ends_with_the_last_reconcile(config: Config) -> None:
    slow, subject = Slow(), manager(config, graceful_shutdown_timeout=3600)
    Builder(subject).for_(CONFIG_MAP).named("slow").build(slow)
    async with Client.connect(config) as client, asyncio.timeout(LONG):
        await client.create(config_map("one"))
        async with starting(subject) as task:
            await eventually(lambda: slow.runs == 1)
            subject.stop()
            await client.create(config_map("two"))
            await asyncio.sleep(0.2)
            assert not task.done()
            slow.may_end.set()
            await task
    assert slow.runs == 1
    assert not slow.cancelled.is_set()


@pytest.mark.criterion("LV-6")
async def test_lv_6_a_reconcile_that_ignores_its_cancellation_is_reported(config: Config) -> None:
    slow, subject = Slow(), manager(config, graceful_shutdown_timeout=0.1)
    slow.stubborn = True
    Builder(subject).for_(CONFIG_MAP).named("slow").build(slow)
    async with Client.connect(config) as client, asyncio.timeout(LONG):
        await client.create(config_map("one"))
        async with starting(subject) as task:
            await eventually(lambda: slow.runs == 1)
            subject.stop()
            with pytest.raises(GracePeriodExceeded, match=r"still running: .*Controller\('slow'\)"):
                await task
            assert slow.cancelled.is_set()
            slow.may_end.set()


@pytest.mark.criterion("LV-6")
async def test_lv_6_a_lease_lost_in_the_grace_period_cancels_at_once(config: Config) -> None:
    slow = Slow()
    subject = manager(config, leader_election=True, graceful_shutdown_timeout=3600)
    Builder(subject).for_(CONFIG_MAP).named("slow").build(slow)
    async with Client.connect(config) as client, asyncio.timeout(LONG):
        await client.create(config_map("one"))
        async with starting(subject) as task:
            await eventually(lambda: slow.runs == 1)
            subject.stop()
            lease = await client.get(LEASE, "tests", namespace="default")
            lease["spec"]["holderIdentity"] = "thief"
            await client.update(lease)
            with pytest.raises(LeaderElectionLost):
                await task
            await asyncio.wait_for(slow.cancelled.wait(), LONG)
