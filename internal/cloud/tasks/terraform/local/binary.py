"""One command of Terraform as a process: its lines as they come, its end, and how it is interrupted."""

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ctrlruntime.processes import end_process, uninterrupted

_LINE: Final = 64 << 20
"""Bytes that are kept of a line: a diagnostic may hold a whole file, a plan as JSON is one line."""
_CHUNK: Final = 64 << 10
_LAST: Final = 20


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    last: Sequence[str]
    """The last lines of both streams, without those that `line` received."""

    @property
    def said(self) -> str:
        """Return the last lines that are not empty, or else how the command ended."""
        text = "\n".join(line for line in self.last if line.strip())
        if text:
            return text
        if self.code < 0:
            return (
                f"it was killed by {signal.Signals(-self.code).name}; it may have run out of memory"
            )
        return f"it ended with exit code {self.code} and printed nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """Runs commands in one folder."""

    path: Path
    folder: Path
    environment: Mapping[str, str]
    grace: float = 60.0
    """Seconds between the interrupt, at which it saves the state and gives back the lock, and the kill."""

    async def run(self, *arguments: str, line: Callable[[bytes], None] | None = None) -> Ended:
        """Run it to its end; `line` receives each line of standard output.

        Cancelled, it interrupts the command, waits for it, and kills it after the grace.
        """
        process = await asyncio.create_subprocess_exec(
            self.path,
            *arguments,
            cwd=self.folder,
            env=dict(self.environment),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        last: deque[str] = deque(maxlen=_LAST)
        reading = asyncio.ensure_future(_read(process, last, line))
        try:
            await asyncio.shield(reading)
            return Ended(await process.wait(), list(last))
        except asyncio.CancelledError:
            await uninterrupted(self._interrupt(process, reading))
            raise
        finally:
            if process.returncode is None:
                _signal(process, signal.SIGKILL)
            await end_process(process)

    async def _interrupt(
        self, process: asyncio.subprocess.Process, reading: "asyncio.Future[None]"
    ) -> None:
        """Interrupt the command, and kill it after the grace."""
        for number in (signal.SIGINT, signal.SIGKILL):
            _signal(process, number)
            await asyncio.wait({reading}, timeout=self.grace)
            if reading.done():
                break
        await process.wait()


async def _read(
    process: asyncio.subprocess.Process,
    last: deque[str],
    line: Callable[[bytes], None] | None,
) -> None:
    async def take(
        stream: asyncio.StreamReader | None, tell: Callable[[bytes], None] | None
    ) -> None:
        if stream is not None:
            async for each in _lines(stream):
                keep(each) if tell is None else tell(each)

    def keep(each: bytes) -> None:
        last.append(each.decode("utf-8", "replace").rstrip())

    await asyncio.gather(take(process.stdout, line), take(process.stderr, None))


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield the lines of a stream with their ends; a line that is too long is cut."""
    line = bytearray()
    while chunk := await stream.read(_CHUNK):
        for part in chunk.splitlines(keepends=True):
            line += part[: max(0, _LINE - len(line))]
            if part.endswith(b"\n"):
                yield bytes(line)
                line.clear()
    if line:
        yield bytes(line)


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    """To the whole group, providers included."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
