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
import socket
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

from ctrlruntime.api.model import ApiModel
from ctrlruntime.envtest.process import ChildProcess, die_with
from ctrlruntime.fast_imports import fast_imports
from manager.options import SYSTEMS
from manager.program import main
from manager.systems import load_systems

MANAGER = "manager.cli:main"
PROGRAM = "tests.tenancy.manager_forkserver:program"
ROOT = Path(__file__).parents[2]
LARGEST = 1 << 17
"""Bytes of a request, at most."""


class ForkServer:
    """Starts managers by fork. Made by `running`; one process forks for all tests of a process, whatever their loops."""

    def __init__(self) -> None:
        self._children: list[ChildProcess] = []

    @classmethod
    @asynccontextmanager
    async def running(cls) -> AsyncIterator[ForkServer]:
        """A forkserver; its children end with the block."""
        forkserver = cls()
        try:
            yield forkserver
        finally:
            for child in forkserver._children:
                await child.stop(grace=0)

    async def start(self, args: Sequence[str], *, log: Path, entry: str = MANAGER) -> ChildProcess:
        """Run `manager`, or another `module:function`, with these arguments, its output in a log."""
        child = await _logged(args, log, entry)
        self._children.append(child)
        return child


async def forked_program(args: Sequence[str], *, log: Path) -> ChildProcess:
    """Start `manager` as its users call it, its output in a log; whoever starts it ends it."""
    return await _logged(args, log, PROGRAM)


async def _logged(args: Sequence[str], log: Path, entry: str) -> ChildProcess:
    with log.open("ab") as output:
        return await forked(args, log=log, entry=entry, output=output.fileno())


async def forked(
    args: Sequence[str],
    *,
    log: Path,
    entry: str,
    output: int,
    environment: Mapping[str, str] | None = None,
) -> ChildProcess:
    """Start a child whose output goes to the open file `output`; whoever starts it ends it."""
    environ = {**os.environ, **(environment or {})}
    given = {"args": [*args], "log": str(log), "entry": entry, "environment": environ}
    return await asyncio.wrap_future(_forking().send(given, output))


@cache
def _forking() -> _Forking:
    return _Forking()


class _Forking:
    """The process that forks. A thread starts it and reads its answers: the kernel ends it with that thread."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._children: dict[int, Future[int]] = {}
        self._awaited: deque[Future[ChildProcess]] = deque()
        Thread(target=self._keep, args=(theirs,), name="keeper of forks", daemon=True).start()

    def send(self, given: Mapping[str, object], output: int) -> Future[ChildProcess]:
        started: Future[ChildProcess] = Future()
        started.set_running_or_notify_cancel()
        self._awaited.append(started)
        socket.send_fds(self._socket, [json.dumps(given).encode()], [output])
        return started

    def _keep(self, theirs: socket.socket) -> None:
        with subprocess.Popen(
            [sys.executable, "-m", "tests.tenancy.manager_forkserver"],
            stdin=theirs.fileno(),
            stdout=subprocess.PIPE,
            cwd=ROOT,
            preexec_fn=die_with(os.getpid()),
        ) as process:
            theirs.close()
            assert process.stdout is not None
            for line in process.stdout:
                self._take(json.loads(line))
        error = RuntimeError("the forkserver has ended; standard error says why")
        for started in self._awaited:
            started.set_exception(error)

    def _take(self, answer: dict[str, Any]) -> None:
        if "started" in answer:
            ended = self._children[answer["started"]] = Future()
            ended.set_running_or_notify_cancel()
            child = ChildProcess(answer["started"], Path(answer["log"]), ended)
            self._awaited.popleft().set_result(child)
        else:
            self._children.pop(answer["ended"]).set_result(answer["code"])


def serve() -> None:
    """Fork and reap, until nobody asks any more."""
    with fast_imports():
        from manager.cli import COMMANDS

        for module, _ in COMMANDS.values():
            import_module(module.partition(":")[0])
        load_systems(SYSTEMS)
        build_models(ApiModel)

    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    alive: set[int] = set()
    requests = socket.socket(fileno=0)
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            reap(alive)
        if 0 in ready:
            data, outputs, _, _ = socket.recv_fds(requests, LARGEST, 1)
            if not data:
                break
            alive.add(fork(json.loads(data), *outputs))
    for pid in alive:
        os.killpg(pid, signal.SIGKILL)


def build_models(base: type[ApiModel]) -> None:
    """What every manager would build of its kinds."""
    for model in base.__subclasses__():
        model.model_rebuild()
        build_models(model)


def fork(asked: dict[str, Any], output: int) -> int:
    """A child that is a manager."""
    module, _, name = asked["entry"].partition(":")
    with fast_imports():
        entry = getattr(import_module(module), name)
    die_with_us = die_with(os.getpid())
    pid = os.fork()
    if pid:
        os.close(output)
        with suppress(OSError):  # it may have done so itself
            os.setpgid(pid, pid)
        send(started=pid, log=asked["log"])
        return pid
    code = 1
    try:
        die_with_us()
        become(output)
        os.environ.clear()
        os.environ.update(asked["environment"])
        entry(asked["args"])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - as the interpreter does it
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def become(output: int) -> None:
    """A process of its own: its group, its signals, its output."""
    with suppress(OSError):
        os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(output)


def program(args: Sequence[str]) -> None:
    """`manager` as its users call it, with these arguments."""
    sys.argv = ["manager", *args]
    main()


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
