"""A child process is waited for, however often whoever ends it is cancelled."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from asyncio.base_subprocess import BaseSubprocessTransport
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Awaitable, Callable
from pathlib import Path
from unittest import mock

import pytest

from ctrlruntime.client.auth import AuthError, ExecPlugin
from ctrlruntime.processes import end_process, uninterrupted
from internal.cloud.tasks.terraform.local.binary import Binary
from internal.tenancy.rendering.worker import Worker
from tests.manager_cli.program import Program
from tests.support.child_processes import ChildProcesses
from tests.support.waiting import eventually

SLEEPER = "import sys, time; print('x' * 300_000, flush=True); time.sleep(600)"


async def cancel_often(task: asyncio.Task[object]) -> None:
    """Cancel a task at each of its steps until it is over."""
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)


def leaks(main: Callable[[], Awaitable[object]]) -> list[str]:
    """What Python reports of a loop that ran `main` and was closed."""
    found: list[str] = []
    hook, sys.unraisablehook = sys.unraisablehook, lambda args: found.append(str(args.exc_value))
    try:
        with asyncio.Runner() as runner:
            runner.run(_coroutine(main))
        _join_watchers()
        gc.collect()
    finally:
        sys.unraisablehook = hook
    return found


def _join_watchers() -> None:
    """Wait for the threads that hold the transports of processes until these are over."""
    for thread in threading.enumerate():
        if thread.name.startswith("waitpid-"):
            thread.join()


async def _coroutine(main: Callable[[], Awaitable[object]]) -> None:
    await main()


def test_a_process_is_over_although_the_one_who_ends_it_is_cancelled_again_and_again() -> None:
    codes: list[int | None] = []

    async def main() -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SLEEPER, stdin=PIPE, stdout=PIPE, stderr=DEVNULL
        )
        ending = asyncio.create_task(end_process(process))
        await asyncio.sleep(0)
        await cancel_often(ending)
        assert ending.cancelled()
        codes.append(process.returncode)

    assert leaks(main) == []
    assert codes == [-9]


def test_a_process_is_over_although_the_loop_closes_while_it_is_ended() -> None:
    async def main() -> None:
        worker = Worker(deadline=60)
        job = asyncio.create_task(worker.perform({}))
        await eventually(lambda: worker.restarts > 0)
        job.cancel()
        await asyncio.sleep(0)

    assert leaks(main) == []


def test_a_process_whose_output_was_not_read_is_over() -> None:
    codes: list[int | None] = []

    async def main() -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SLEEPER, stdin=PIPE, stdout=PIPE, stderr=DEVNULL
        )
        assert process.stdout is not None
        await process.stdout.readexactly(200_000)
        await asyncio.sleep(0.1)
        await end_process(process)
        codes.append(process.returncode)

    assert leaks(main) == []
    assert codes == [-9]


def test_a_process_whose_child_keeps_the_pipe_is_over() -> None:
    program = (
        "import subprocess, time; print(subprocess.Popen(['sleep', '600']).pid, flush=True); "
        "time.sleep(600)"
    )

    async def main() -> None:
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=PIPE)
        assert process.stdout is not None
        child = int(await process.stdout.readline())
        await end_process(process)
        os.kill(child, signal.SIGKILL)

    assert leaks(main) == []


def test_a_terraform_command_is_over_although_the_loop_closes_while_it_is_interrupted(
    tmp_path: Path,
) -> None:
    started = tmp_path / "started"
    program = (
        "import pathlib, signal, sys, time; signal.signal(signal.SIGINT, signal.SIG_IGN); "
        "pathlib.Path(sys.argv[1]).touch(); time.sleep(600)"
    )

    async def main() -> None:
        binary = Binary(path=Path(sys.executable), folder=tmp_path, environment={})
        command = asyncio.create_task(binary.run("-c", program, str(started)))
        await eventually(started.exists)
        command.cancel()
        await asyncio.sleep(0.1)

    assert leaks(main) == []


def test_a_worker_whose_job_is_cancelled_again_and_again_leaves_no_process() -> None:
    async def main() -> None:
        worker = Worker(deadline=60)
        job = asyncio.create_task(worker.perform({}))
        await eventually(lambda: worker.restarts > 0)
        process = worker._process
        await cancel_often(job)
        assert process is not None
        assert process.returncode is not None

    assert leaks(main) == []


def test_a_credential_plugin_that_is_cancelled_again_and_again_leaves_no_process() -> None:
    plugin = ExecPlugin(command=sys.executable, args=("-c", SLEEPER))

    async def main() -> None:
        running = asyncio.create_task(plugin.run())
        await asyncio.sleep(0.3)
        await cancel_often(running)

    assert leaks(main) == []


def test_a_credential_plugin_that_takes_too_long_leaves_no_process() -> None:
    plugin = ExecPlugin(command=sys.executable, args=("-c", SLEEPER), timeout=0.2)

    async def main() -> None:
        with pytest.raises(AuthError, match="gave no answer"):
            await plugin.run()

    assert leaks(main) == []


def test_a_program_of_the_tests_is_over_although_its_waiter_was_cancelled() -> None:
    async def main() -> None:
        async with await Program.start("--help") as program:
            waiting = asyncio.create_task(program.wait())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])

    assert leaks(main) == []


def test_a_process_that_outlives_its_loop_is_found_once() -> None:
    processes = ChildProcesses()

    async def leave() -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(sys.executable, "-c", SLEEPER)

    with mock.patch.object(BaseSubprocessTransport, "__init__", BaseSubprocessTransport.__init__):
        processes.watch()
        with asyncio.Runner() as runner:
            process = runner.run(leave())
            assert processes.left() == []
    found = processes.left()
    assert len(found) == 1
    assert f"pid={process.pid} running" in found[0]
    assert processes.left() == []
    process.kill()
    _join_watchers()
    process._transport.close()  # type: ignore[attr-defined]


async def test_an_error_of_what_is_not_interrupted_is_raised() -> None:
    async def fail() -> None:
        raise OSError("no such thing")

    with pytest.raises(OSError, match="no such thing"):
        await uninterrupted(fail())
