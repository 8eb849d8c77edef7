"""Child processes that never outlive their parent, and the way they say that they are ready.

A child writes one line of JSON to the path given by `--ready` once it serves; parents hand it the
writing end of a pipe (`/dev/fd/N`), scripts may name a file.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


class ProcessFailed(RuntimeError):
    """A child process did not start or did not become ready."""


def die_with(parent: int) -> Callable[[], None]:
    """A `preexec_fn`: the kernel kills the child when the thread of `parent` that forked it ends.

    Linux only. A parent that is gone before the kernel was told takes the child with it too.
    """

    def arrange() -> None:
        if sys.platform == "linux":
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)

    return arrange


def report_ready(path: str | None, facts: Mapping[str, Any]) -> None:
    """Tells whoever started this process that it serves, and where."""
    if path is None:
        return
    line = orjson.dumps(dict(facts)) + b"\n"
    if path.startswith("/dev/fd/"):
        Path(path).write_bytes(line)
        return
    target = Path(path)
    draft = target.with_name(target.name + ".part")
    draft.write_bytes(line)
    draft.replace(target)


class ChildProcess:
    """A process in its own group, killed with its parent; its output goes to a log file.

    Groups make sure that what the child itself started goes with it on `stop`.
    """

    def __init__(
        self, process: asyncio.subprocess.Process, log: Path, facts: dict[str, Any]
    ) -> None:
        self._process = process
        self.log = log
        self.facts = facts

    @classmethod
    async def start(
        cls,
        args: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        ready: bool = True,
        timeout: float = 30.0,
    ) -> ChildProcess:
        """Runs `args`, with `--ready` appended if `ready`, and waits until the child reports.

        Raises ProcessFailed with the end of the log if it exits before, or after `timeout`
        seconds.
        """
        read_end, write_end = os.pipe() if ready else (-1, -1)
        command = [*args, "--ready", f"/dev/fd/{write_end}"] if ready else list(args)
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                env=None if env is None else dict(env),
                cwd=cwd,
                pass_fds=(write_end,) if ready else (),
                start_new_session=True,
                preexec_fn=die_with(os.getpid()),
            )
        child = cls(process, log, {})
        if ready:
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
                f"(code {self._process.returncode}); its log {self.log} ends:\n{self.log_tail()}"
            )
        self.facts = orjson.loads(line)

    async def _line_or_exit(self, reader: asyncio.StreamReader) -> bytes:
        """The ready line; empty if the process ends first (its own children may hold the pipe)."""
        line = asyncio.ensure_future(reader.readline())
        gone = asyncio.ensure_future(self._process.wait())
        done, _ = await asyncio.wait({line, gone}, return_when=asyncio.FIRST_COMPLETED)
        for waiter in (line, gone):
            waiter.cancel()
        return line.result() if line in done else b""

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    async def wait(self) -> int:
        return await self._process.wait()

    async def stop(self, *, grace: float = 10.0) -> int:
        """SIGTERM, then after `grace` seconds SIGKILL for the whole group; the exit code."""
        if self._process.returncode is None and grace > 0:
            self._signal_group(signal.SIGTERM)
            try:
                async with asyncio.timeout(grace):
                    await self._process.wait()
            except TimeoutError:
                pass
        self._signal_group(signal.SIGKILL)
        return await self._process.wait()

    def kill(self) -> None:
        """SIGKILL for the whole group."""
        self._signal_group(signal.SIGKILL)

    def log_tail(self, lines: int = 30) -> str:
        """The last lines of the log, for messages."""
        text = self.log.read_text(errors="replace").splitlines()
        return "\n".join(text[-lines:])

    def _signal_group(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            return
