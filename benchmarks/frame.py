"""The frame of the benchmarks: progress and figures, what a process used, a manager beside a proxied API server."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from benchmarks import base_code
from ctrlruntime.api import Manifest
from ctrlruntime.client.client import Client
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.envtest.proxy import Counts, LogEntry, Mark
from ctrlruntime.envtest.proxy.log import LEASES, RequestLog
from ctrlruntime.envtest.proxy.requests import WRITES

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

NAMESPACE = "default"
MANAGER = "manager"
"""User of the manager; the proxy counts requests by user."""


def report_progress(text: str) -> None:
    """Print progress for people, on standard error."""
    click.echo(text, err=True)


def print_figures(figures: DataclassInstance) -> None:
    """Print a dataclass of figures as one line of JSON: the last line of each benchmark."""
    click.echo(orjson.dumps(asdict(figures)).decode())


def exit_with(violations: Sequence[str]) -> None:
    """Fail the benchmark with the bounds that do not hold, if there are any."""
    if violations:
        raise SystemExit("; ".join(violations))


def violated(bounds: dict[str, object]) -> list[str]:
    """The texts of the bounds that do not hold: those whose value is true."""
    return [text for text, broken in bounds.items() if broken]


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int | str = "self") -> float:
    """Resident memory of a process, in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


@dataclass(slots=True)
class ManagerProcess:
    """The manager of a benchmark, stopped and started at will."""

    folder: Path
    command: Sequence[str]
    code: Path | None = None
    """The tree whose code runs; None: this one."""
    process: ChildProcess | None = None

    async def start(self) -> None:
        """Start the process; its output goes to `manager.log`."""
        log = self.folder / "manager.log"
        command = [sys.executable, *self.command]
        where = None if self.code is None else base_code.environment(self.code)
        self.process = await ChildProcess.start(
            command, log=log, ready=False, cwd=self.code, env=where
        )

    async def stop(self) -> None:
        """Stop the process if there is one."""
        if self.process is not None:
            await self.process.stop()
            self.process = None

    def kill(self) -> None:
        """Kill the process: it releases nothing."""
        if self.process is not None:
            self.process.kill()

    def check(self) -> None:
        """Fail the benchmark with the end of the log if the process ended."""
        if self.process is not None and self.process.returncode is not None:
            raise SystemExit(f"the manager ended:\n{self.process.log_tail()}")

    def resident_mib(self) -> float:
        """Resident memory in MiB, one decimal."""
        return round(resident_mib(self.process.pid), 1) if self.process else 0.0

    def cpu_seconds(self) -> float:
        """Processor time used so far."""
        return cpu_seconds(self.process.pid) if self.process else 0.0


@dataclass(slots=True)
class Fleet:
    """An API server behind a proxy that logs requests, and the manager whose requests are counted."""

    environment: Environment
    manager: ManagerProcess

    @property
    def client(self) -> Client:
        """A client of a user who is not counted."""
        return self.environment.client("envtest")

    @property
    def log(self) -> RequestLog:
        """All requests that went through the proxy."""
        return self.environment.proxy.log

    def counts(self) -> Counts:
        """The manager's requests so far, without Leases."""
        return self.log.counts().select(user=MANAGER).without_leases()

    def requests(self, mark: Mark) -> list[LogEntry]:
        """The manager's requests since `mark`, without Leases."""
        found = self.log.entries(mark)
        return [each for each in found if each.user == MANAGER and each.resource != LEASES]

    async def create(self, objects: Sequence[Any], *, at_once: int = 16) -> None:
        """Create many objects, `at_once` of them side by side."""
        slots, client = asyncio.Semaphore(at_once), self.client

        async def create(each: Manifest) -> None:
            async with slots:
                await client.create(each)

        async with asyncio.TaskGroup() as group:
            for each in objects:
                group.create_task(create(each))

    async def wait_until_done(
        self, missing: Callable[[], Awaitable[object]], *, limit: float, every: float
    ) -> None:
        """Wait until `missing` returns nothing; fail with what it returned after `limit` seconds."""
        end = time.monotonic() + limit
        while left := await missing():
            self.manager.check()
            if time.monotonic() > end:
                raise SystemExit(f"not done after {limit:g} s: {left}")
            await asyncio.sleep(every)

    async def wait_until_quiet(
        self, seconds: float, *, limit: float, after_watches: bool = False
    ) -> None:
        """Wait until the manager has requested nothing for `seconds`; recorded events are sent by then."""
        end, since = time.monotonic() + limit, time.monotonic()
        last = self.counts()
        while time.monotonic() - since < seconds or (after_watches and not last.watches):
            await asyncio.sleep(0.5)
            self.manager.check()
            if (counts := self.counts()) != last:
                last, since = counts, time.monotonic()
            if time.monotonic() > end:
                raise SystemExit("the manager does not become idle")


def writes_of(entries: Sequence[LogEntry]) -> list[LogEntry]:
    """The requests that change something."""
    return [entry for entry in entries if entry.verb in WRITES]
