"""Child processes that never outlive their parent, and how they report that they are ready.

A child writes one line of JSON to the path given by `--ready` once it serves; parents pass the
writing end of a pipe (`/dev/fd/N`), scripts may name a file.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


class ProcessFailed(RuntimeError):
    """A child process did not start or did not become ready."""


def die_with(parent: int) -> Callable[[], None]:
    """Return a `preexec_fn`: the kernel kills the child when the thread of `parent` that forked it ends.

    Linux only. The child also ends if the parent ended before the call.
    """

    def arrange() -> None:
        if sys.platform == "linux":
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)

    return arrange


def report_ready(path: str | None, facts: Mapping[str, Any]) -> None:
    """Report to the parent that this process serves, and where."""
    if path is None:
        return
    line = orjson.dumps(dict(facts)) + b"\n"
    if path.startswith("/dev/fd/"):
        Path(path).write_bytes(line)
        return
    replace_file(Path(path), line)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file, mode 0600, that another process may be reading: it finds what was there before, or all of this."""
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    Path(draft).replace(path)


class ChildProcess:
    """A process in its own process group, killed with its parent; its output goes to a log file.

    It belongs to no event loop: one loop, or none, may start it and another stop it. Signals go to the
    group, so that what the child itself started ends with it.
    """

    def __init__(
        self, pid: int, log: Path, ended: Future[int], *, command: Sequence[str] = ()
    ) -> None:
        """Follow the process `pid`; `ended` receives the exit code from whoever reaps it."""
        self.pid = pid
        self.log = log
        self.command = tuple(command)
        self.facts: dict[str, Any] = {}
        """What the child reported when it was ready."""
        self._ended = ended

    @classmethod
    def spawn(
        cls,
        args: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        pass_fds: Sequence[int] = (),
    ) -> ChildProcess:
        """Run `args` without waiting until it is ready. Raises OSError if the program cannot be run.

        The kernel ties a child to the thread that forked it: a thread of its own forks and reaps it.
        """
        spawned: Future[int] = Future()
        ended: Future[int] = Future()
        ended.set_running_or_notify_cancel()  # a cancelled wait does not cancel it

        def keep() -> None:
            try:
                with log.open("ab") as output:
                    process = subprocess.Popen(  # noqa: S603 - the caller's own command
                        list(args),
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        env=None if env is None else dict(env),
                        cwd=cwd,
                        pass_fds=tuple(pass_fds),
                        start_new_session=True,
                        preexec_fn=die_with(os.getpid()),
                    )
            except Exception as error:  # noqa: BLE001 - the caller's thread raises it
                spawned.set_exception(error)
                return
            spawned.set_result(process.pid)
            ended.set_result(process.wait())

        name = f"keeper of {Path(args[0]).name}"
        threading.Thread(target=keep, name=name, daemon=True).start()
        return cls(spawned.result(), log, ended, command=args)

    @classmethod
    async def start(
        cls,
        args: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        ready: bool = True,
        timeout: float = 120.0,
    ) -> ChildProcess:
        """Run `args`, with `--ready` appended if `ready`, and wait until the child reports.

        Raises ProcessFailed with the end of the log if it exits before, or after `timeout`
        seconds.
        """
        if not ready:
            return cls.spawn(args, log=log, env=env, cwd=cwd)
        read_end, write_end = os.pipe()
        command = [*args, "--ready", f"/dev/fd/{write_end}"]
        try:
            child = cls.spawn(command, log=log, env=env, cwd=cwd, pass_fds=(write_end,))
        except BaseException:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        await child._wait_ready(read_end, timeout)
        return child

    async def _wait_ready(self, read_end: int, timeout: float) -> None:
        reader = asyncio.StreamReader()
        pipe = os.fdopen(read_end, "rb")
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        try:
            async with asyncio.timeout(timeout):
                line = await self._line_or_exit(reader)
        except TimeoutError:
            line = b""
        finally:
            transport.close()
        if not line:
            await self.stop(grace=0)
            raise ProcessFailed(
                f"process {self.pid} was not ready within {timeout:g} s or ended "
                f"(code {self.returncode}); its log {self.log} ends:\n{self.log_tail()}"
            )
        self.facts = orjson.loads(line)

    async def _line_or_exit(self, reader: asyncio.StreamReader) -> bytes:
        """Return the ready line; empty if the process ends first (its own children may hold the pipe)."""
        line = asyncio.ensure_future(reader.readline())
        gone = asyncio.ensure_future(self.wait())
        done, _ = await asyncio.wait({line, gone}, return_when=asyncio.FIRST_COMPLETED)
        for waiter in (line, gone):
            waiter.cancel()
        return line.result() if line in done else b""

    @property
    def returncode(self) -> int | None:
        """None while it runs; minus the signal that killed it."""
        return self._ended.result() if self._ended.done() else None

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return not self._ended.done()

    async def wait(self) -> int:
        """Wait until the process ends; return its exit code."""
        return await asyncio.wrap_future(self._ended)

    async def stop(self, *, grace: float = 10.0) -> int:
        """SIGTERM, then after `grace` seconds SIGKILL for the whole group; return the exit code."""
        if self.running and grace > 0:
            self._signal_group(signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self.wait()
        self.kill()
        return await self.wait()

    def kill(self) -> None:
        """SIGKILL for the whole group."""
        self._signal_group(signal.SIGKILL)

    def log_tail(self, lines: int = 30) -> str:
        """Return the last lines of the log, for messages."""
        if not self.log.exists():
            return ""
        text = self.log.read_text(errors="replace").splitlines()
        return "\n".join(text[-lines:])

    def _signal_group(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return
