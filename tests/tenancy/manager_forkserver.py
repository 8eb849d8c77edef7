"""Managers as processes that start at once: forked from one that has imported everything.

A kill is as real as for any other process; only the second of Python imports before it is saved. The
forkserver itself is `python -m tests.tenancy.manager_forkserver`, which reads requests and writes what became of its
children, one line of JSON each.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from ctrlruntime.api.model import ApiModel
from ctrlruntime.envtest.process import ChildProcess, die_with
from ctrlruntime.fast_imports import fast_imports
from manager.systems import SYSTEMS, load_systems

MANAGER = "manager.cli:main"


class ForkServer:
    """Starts managers by fork. Made by `running`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._children: dict[int, Future[int]] = {}
        self._awaited: deque[asyncio.Future[ChildProcess]] = deque()

    @classmethod
    @asynccontextmanager
    async def running(cls) -> AsyncIterator[ForkServer]:
        """A forkserver; its children end with it."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.tenancy.manager_forkserver",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            preexec_fn=die_with(os.getpid()),
        )
        forkserver = cls(process)
        reading = asyncio.create_task(forkserver._read())
        try:
            yield forkserver
        finally:
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()
            await reading

    async def start(self, args: Sequence[str], *, log: Path, entry: str = MANAGER) -> ChildProcess:
        """Run `manager`, or another `module:function`, with these arguments, its output in a log."""
        assert self._process.stdin is not None
        asked = json.dumps({"args": [*args], "log": str(log), "entry": entry})
        self._process.stdin.write(asked.encode() + b"\n")
        started = asyncio.get_running_loop().create_future()
        self._awaited.append(started)
        child: ChildProcess = await started
        return child

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            answer: dict[str, Any] = json.loads(line)
            if "started" in answer:
                ended = self._children[answer["started"]] = Future()
                ended.set_running_or_notify_cancel()
                child = ChildProcess(answer["started"], Path(answer["log"]), ended)
                self._awaited.popleft().set_result(child)
            else:
                self._children.pop(answer["ended"]).set_result(answer["code"])
        for started in self._awaited:
            started.set_exception(RuntimeError("the forkserver has ended; standard error says why"))


def serve() -> None:
    """Fork and reap, until nobody asks any more."""
    with fast_imports():
        import manager.cli
        import manager.run_command  # noqa: F401 - what `manager run` imports when it starts

        load_systems(SYSTEMS)
        build_models(ApiModel)

    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    alive: set[int] = set()
    asked = b""
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            reap(alive)
        if 0 in ready:
            data = os.read(0, 65536)
            if not data:
                break
            *lines, asked = (asked + data).split(b"\n")
            for line in lines:
                alive.add(fork(json.loads(line)))
    for pid in alive:
        os.killpg(pid, signal.SIGKILL)


def build_models(base: type[ApiModel]) -> None:
    """What every manager would build of its kinds."""
    for model in base.__subclasses__():
        model.model_rebuild()
        build_models(model)


def fork(asked: dict[str, Any]) -> int:
    """A child that is a manager."""
    module, _, name = asked["entry"].partition(":")
    with fast_imports():
        entry = getattr(import_module(module), name)
    die_with_us = die_with(os.getpid())
    pid = os.fork()
    if pid:
        with suppress(OSError):  # it may have done so itself
            os.setpgid(pid, pid)
        send(started=pid, log=asked["log"])
        return pid
    code = 1
    try:
        die_with_us()
        become(Path(asked["log"]))
        entry(asked["args"])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - as the interpreter does it
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def become(log: Path) -> None:
    """A process of its own: its group, its signals, its output."""
    with suppress(OSError):
        os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)


def reap(alive: set[int]) -> None:
    """Tell who has ended, and how."""
    while alive:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        alive.discard(pid)
        send(ended=pid, code=os.waitstatus_to_exitcode(status))


def send(**facts: int | str) -> None:
    """One line for the parent."""
    os.write(1, json.dumps(facts).encode() + b"\n")


if __name__ == "__main__":
    serve()
