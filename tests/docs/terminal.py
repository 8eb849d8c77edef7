"""A terminal for the commands of a document: one shell, a folder, and nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import uuid
from collections.abc import Mapping
from pathlib import Path

MARK = "CTRLRUNTIME_DOCUMENT"
"""Variable in the environment of everything that a document starts."""
LONGEST_END = 120.0
"""Seconds until what a document started is gone: a manager whose server ends with it waits 30 for its reconciles."""


class CommandFailed(AssertionError):
    """A block did not succeed; the message has what it printed."""


class Terminal:
    """A bash in a session of its own that stops at the first failing command."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._mark = uuid.uuid4().hex
        self._environment = {**os.environ, **environment, MARK: self._mark}
        self._processes: list[asyncio.subprocess.Process] = []
        self._drains: list[asyncio.Task[None]] = []
        self._shell: asyncio.subprocess.Process | None = None

    async def run(self, text: str, *, what: str, timeout: float = 300.0) -> str:
        """Run a block and return its output. Raises CommandFailed."""
        if self._shell is None:
            self._shell = await self._start("bash", "--noprofile", "--norc", "-euo", "pipefail")
        done = f"done-{uuid.uuid4().hex}"
        script = self._folder / f".{done}.sh"
        script.write_text(text)
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"source ./{script.name} </dev/null; echo; echo {done}\n".encode())
        await self._shell.stdin.drain()
        return await read_until(self._shell, done, what=what, timeout=timeout)

    async def start(self, text: str, *, until: str, what: str, timeout: float = 240.0) -> None:
        """Start a block in another terminal and wait until it prints `until`."""
        process = await self._start("bash", "-euo", "pipefail", "-c", text)
        await read_until(process, until, what=what, timeout=timeout)
        self._drains.append(asyncio.create_task(_drain(process)))  # a full pipe would stop it

    async def close(self) -> None:
        """Ctrl-C for what runs in the foreground, SIGTERM for the rest. Raises AssertionError if
        anything survives that."""
        for process in self._processes:
            interrupt = signal.SIGTERM if process is self._shell else signal.SIGINT
            _signal_group(process.pid, interrupt)
        left = {pid: command_of(pid) for pid in await wait_gone(self._mark, LONGEST_END)}
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self._processes:
            if process is self._shell:
                await _drain(process)  # its transport closes at the end of its output
            await process.wait()
        for task in self._drains:
            await task
        assert not left, f"left behind: {left}"

    async def _start(self, *command: str) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=self._folder,
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_interruptible,
        )
        self._processes.append(process)
        return process


async def read_until(
    process: asyncio.subprocess.Process, text: str, *, what: str, timeout: float
) -> str:
    """The output up to the line that contains `text`. Raises CommandFailed."""
    assert process.stdout is not None
    lines: list[str] = []
    try:
        async with asyncio.timeout(timeout):
            while line := (await process.stdout.readline()).decode(errors="replace"):
                if text in line:
                    return "".join(lines)
                lines.append(line)
    except TimeoutError:
        lines.append(f"(nothing more for {timeout:g} s)\n")
    raise CommandFailed(f"{what} failed:\n{''.join(lines[-60:])}")


async def _drain(process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None
    while await process.stdout.read(65536):
        pass


def _interruptible() -> None:
    """Let Ctrl-C end a program, as at a terminal: a shell starts what runs in its background with SIGINT ignored, which is inherited."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _signal_group(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return


def marked(mark: str) -> list[int]:
    """Living processes whose environment carries the mark."""
    wanted = f"{MARK}={mark}".encode()
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def command_of(pid: int) -> str:
    """Return the command line of a process; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""


async def wait_gone(mark: str, seconds: float) -> list[int]:
    """Processes with the mark that are still there after so many seconds."""
    left = marked(mark)
    try:
        async with asyncio.timeout(seconds):
            while left:
                await asyncio.sleep(0.1)
                left = marked(mark)
    except TimeoutError:
        pass
    return left
