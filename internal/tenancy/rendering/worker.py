"""The shared worker process, seen from the event loop: started on demand, replaced when it overruns."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson

from ctrlruntime.clock import monotonic
from ctrlruntime.processes import end_process
from internal.tenancy.rendering.errors import RenderError
from internal.tenancy.rendering.process import LENGTH_BYTES, frame

_ROOT = Path(__file__).resolve().parents[3]
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from internal.tenancy.rendering.process import main; main(float(sys.argv[2]))"
)
_ENVIRONMENT = ("PATH", "LANG", "PYTHONPATH", "LD_LIBRARY_PATH", "PYTHONDONTWRITEBYTECODE")
"""What the worker gets of the manager's environment: nothing that could be a secret."""
STARTUP_SECONDS = 30.0
QUARANTINE_SECONDS = 60.0
OVERRUNS_PER_MANIFEST = 3
PATIENCE = 15.0
"""Seconds on the wall for each second of the processor that a job may take: machines are shared, templates do not sleep."""


class Worker:
    """One process that renders what the event loop must not, one job at a time, its time shared by namespace.

    A job that takes more than `deadline` seconds of the processor ends the process; the next job gets a new one.
    On a busy machine a job may wait for its turn: that it was not served for `PATIENCE` times as long ends it too.
    `clock` returns seconds.
    """

    def __init__(self, *, deadline: float, clock: Callable[[], float] = monotonic) -> None:
        self.deadline = deadline
        self.restarts = 0
        self._process: Process | None = None
        self._turns = FairTurns(clock)

    async def perform(self, job: dict[str, Any], namespace: str = "") -> dict[str, Any]:
        """Return the worker's answer. Raises RenderError, transient, when it overran or was lost.

        Of the namespaces whose jobs wait, the one that has used the least time is next.
        """
        async with self._turns.turn(namespace):
            try:
                process = await self._running()
                async with (
                    self._turns.charged(namespace),
                    asyncio.timeout(self.deadline * PATIENCE),
                ):
                    return await self._exchange(process, job)
            except TimeoutError:
                await self._end()
                raise RenderError("", self._overrun(), transient=True) from None
            except (OSError, asyncio.IncompleteReadError):
                overran = await self._end() == -signal.SIGPROF
                message = "" if overran else "the rendering process ended; "
                raise RenderError("", message + self._overrun(), transient=True) from None
            except asyncio.CancelledError:
                await self._end()
                raise

    async def close(self) -> None:
        """End the process, after the job under way."""
        async with self._turns.turn(""):
            await self._end()

    def _overrun(self) -> str:
        return (
            f"rendering took longer than {self.deadline:g} s or too much memory and was stopped; "
            "simplify the loops or patterns of this resource"
        )

    async def _running(self) -> Process:
        if self._process is not None and self._process.returncode is None:
            return self._process
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            _PROGRAM,
            str(_ROOT),
            str(self.deadline),
            stdin=PIPE,
            stdout=PIPE,
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
            start_new_session=True,
        )
        self.restarts += 1
        async with asyncio.timeout(STARTUP_SECONDS):
            await self._answer(self._process)
        return self._process

    async def _exchange(self, process: Process, job: dict[str, Any]) -> dict[str, Any]:
        if process.stdin is None:
            raise OSError("no pipe")
        process.stdin.write(frame(job))
        await process.stdin.drain()
        return await self._answer(process)

    @staticmethod
    async def _answer(process: Process) -> dict[str, Any]:
        if process.stdout is None:
            raise OSError("no pipe")
        head = await process.stdout.readexactly(LENGTH_BYTES)
        body = await process.stdout.readexactly(int.from_bytes(head, "big"))
        answer: dict[str, Any] = orjson.loads(body)
        return answer

    async def _end(self) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        await end_process(process)
        return process.returncode


class Quarantine:
    """Keeps jobs that overran from taking the worker's time again at once.

    A job is refused for a minute after it overran; a manifest of a namespace, whatever the row, after three of its
    jobs did. So a bad template costs its own namespace a few seconds of the processor in a minute, and a job of another
    waits behind one overrun at most for each namespace that has some.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._jobs: dict[int, float] = {}
        self._manifests: dict[int, list[float]] = {}

    def refuses(self, manifest: int, variables: int) -> bool:
        """Whether the job must wait. Arguments are hashes."""
        self._expire()
        if hash((manifest, variables)) in self._jobs:
            return True
        return len(self._manifests.get(manifest, ())) >= OVERRUNS_PER_MANIFEST

    def record(self, manifest: int, variables: int) -> None:
        """Record that the job overran."""
        until = self._clock() + QUARANTINE_SECONDS
        self._jobs[hash((manifest, variables))] = until
        self._manifests.setdefault(manifest, []).append(until)

    def _expire(self) -> None:
        now = self._clock()
        self._jobs = {job: until for job, until in self._jobs.items() if until > now}
        for manifest, untils in list(self._manifests.items()):
            left = [until for until in untils if until > now]
            if left:
                self._manifests[manifest] = left
            else:
                del self._manifests[manifest]


class FairTurns:
    """Start-time fair queueing. A turn is never cut short; within a group turns go in the order of arrival.

    `clock` returns seconds. What a group did not use while no other waited, it cannot save up.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._used: dict[str, float] = {}
        """Seconds by group, of those that used more than the group served last had when its turn began."""
        self._floor = 0.0
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._taken = False

    @asynccontextmanager
    async def turn(self, group: str) -> AsyncIterator[None]:
        """Wait for a turn and have it until the end of the block."""
        if self._taken:
            await self._wait(group)
        self._taken = True
        self._floor = max(self._floor, self._used_by(group))
        try:
            yield
        finally:
            self._taken = False
            self._wake()

    @asynccontextmanager
    async def charged(self, group: str) -> AsyncIterator[None]:
        """Count the time of the block, within a turn, as used by the group."""
        began = self._clock()
        try:
            yield
        finally:
            self._used[group] = self._used_by(group) + self._clock() - began

    def _used_by(self, group: str) -> float:
        return max(self._floor, self._used.get(group, 0.0))

    async def _wait(self, group: str) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(group, deque()).append(future)
        try:
            await future
        except asyncio.CancelledError:
            if (
                future.done() and not future.cancelled()
            ):  # the turn came in the same turn of the loop
                self._taken = False
                self._wake()
            raise

    def _wake(self) -> None:
        """Hand the turn to the next that waits: it is taken from now on, so that no newcomer comes first."""
        self._used = {group: used for group, used in self._used.items() if used > self._floor}
        while self._waiting:
            group = min(self._waiting, key=self._used_by)
            future = self._waiting[group].popleft()
            if not self._waiting[group]:
                del self._waiting[group]
            if not future.done():
                future.set_result(None)
                self._taken = True
                return
