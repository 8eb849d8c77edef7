"""`python -m manager ...` as a process, and what it leaves behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.processes import end_process
from manager.cli import COMMANDS
from tests.docs.blocks import ROOT
from tests.docs.terminal import MARK, marked, wait_gone
from tests.tenancy.manager_forkserver import PROGRAM, forked

CHECKOUT = (sys.executable, "-m", "manager")
"""The command as a checkout has it."""
FORKED = frozenset(COMMANDS) - {"node", "task"}
"""Commands that import what the manager does."""


class Program:
    """One run of the manager's command line, in a session of its own; lines are kept as they come."""

    def __init__(
        self,
        process: asyncio.subprocess.Process | ChildProcess,
        output: asyncio.StreamReader,
        mark: str,
    ) -> None:
        self._process = process
        self._output = output
        self._mark = mark
        self._news = asyncio.Event()
        self._reading = asyncio.create_task(self._read())
        self.lines: list[str] = []

    @classmethod
    async def start(
        cls,
        *arguments: str | Path,
        environment: Mapping[str, str] | None = None,
        checkout: Path = ROOT,
        command: Sequence[str | Path] = CHECKOUT,
    ) -> Program:
        """Run it from the root of a checkout, or another command from another folder.

        The manager of this checkout is forked from a process that has imported it, but for commands that start
        further processes of their kind, or that import little themselves.
        """
        mark = uuid.uuid4().hex
        if (command, checkout, environment) == (CHECKOUT, ROOT, None) and arguments[0] in FORKED:
            return await cls._forked([str(each) for each in arguments], mark)
        process = await asyncio.create_subprocess_exec(
            *map(str, (*command, *arguments)),
            cwd=checkout,
            env={**os.environ, "COLUMNS": "200", MARK: mark, **(environment or {})},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        assert process.stdout is not None
        return cls(process, process.stdout, mark)

    @classmethod
    async def _forked(cls, arguments: list[str], mark: str) -> Program:
        output, theirs = os.pipe()
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(output, "rb")
        )
        try:
            process = await forked(
                arguments,
                log=Path(os.devnull),
                entry=PROGRAM,
                output=theirs,
                environment={"COLUMNS": "200", MARK: mark},
            )
        finally:
            os.close(theirs)
        return cls(process, reader, mark)

    async def __aenter__(self) -> Program:
        return self

    async def __aexit__(self, *_: object) -> None:
        for pid in marked(self._mark):
            os.kill(pid, signal.SIGKILL)
        if isinstance(self._process, ChildProcess) and self._process.running:
            self._process.kill()
        try:
            async with asyncio.timeout(60):
                await asyncio.shield(self._reading)
        finally:
            if isinstance(self._process, ChildProcess):
                await self._process.wait()
            else:
                await end_process(self._process)

    @property
    def output(self) -> str:
        return "".join(self.lines)

    async def prints(self, text: str, timeout: float = 60.0) -> str:
        """The first line that contains the text. AssertionError with all lines if none comes."""
        try:
            async with asyncio.timeout(timeout):
                while True:
                    for line in self.lines:
                        if text in line:
                            return line
                    if self._reading.done():
                        break
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            pass
        raise AssertionError(f"it never printed {text!r}:\n{self.output}")

    def send(self, number: signal.Signals) -> None:
        """A signal for this process alone."""
        os.kill(self._process.pid, number)

    async def wait(self, timeout: float = 60.0) -> int:
        """The exit code; negative for a signal."""
        async with asyncio.timeout(timeout):
            await asyncio.shield(self._reading)
            return await self._process.wait()

    async def left(self, timeout: float = 60.0) -> list[int]:
        """Processes that are still there after so many seconds, of all that it started."""
        return await wait_gone(self._mark, timeout)

    async def _read(self) -> None:
        while line := await self._output.readline():
            self.lines.append(line.decode(errors="replace"))
            self._news.set()
        self._news.set()
