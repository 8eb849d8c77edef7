"""`make bench-tenancy ROWS=n [BACKEND=...] [BASE=commit|none] [TURNS=n]`: what n tenants of five resources cost the API server.

Database, API server, simulated nodes and manager are processes of their own; the proxy's request
log counts what the manager's user asks, without Leases, Events included. With a base, the fleet is brought up
by the code of that commit and by this one in turns, on servers of their own, and their processor time is compared.
The last line is one JSON object; the exit code says whether the figures keep their bounds.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import click
import orjson
import uvloop

from benchmarks import base_code
from benchmarks.frame import MANAGER, ManagerProcess, exit_with, print_figures, report_progress
from benchmarks.tenancy.bounds import exceeded
from benchmarks.tenancy.fleet import REGISTRY, TenantFleet, environment, manager_command
from ctrlruntime.envtest.backends.ports import free_port
from tests.mariadb import MariaDB

SETTLE_SECONDS = 10.0
"""The fleet counts as idle this long after the last tenant is ready."""


@dataclass(slots=True)
class TenancyFigures:
    """The last line."""

    rows: int = 0
    backend: str = ""
    resources: int = 0
    seconds: float = 0.0
    writes: int = 0
    reads: int = 0
    steady_seconds: float = 0.0
    steady_requests: int = 0
    restart_writes: int = 0
    restart_reads: int = 0
    restart_seconds: float = 0.0
    """From the start of a manager to the object of a row that changed while none ran."""
    one_row_writes: int = 0
    rss_mib: float = 0.0
    max_stall_ms: float = 0.0
    """How long the loop stood still at most, from the start of each manager to its end, scrapes of metrics included."""
    cpu_seconds: float = 0.0
    """Until all tenants are ready, by the program without its watch; of several turns the least, as below."""
    base_seconds: float = 0.0
    base_cpu_seconds: float = 0.0
    cpu_ratio_to_base: float = 0.0
    """0 without a base."""


@dataclass(slots=True)
class TenancyBench(TenantFleet):
    """One run through all phases."""

    steady_seconds: float
    metrics: str
    """Address of the manager's metrics."""
    report: Path
    """What the manager writes at its end."""
    figures: TenancyFigures = field(default_factory=TenancyFigures)

    async def run(self) -> TenancyFigures:
        """All phases in turn."""
        self.figures.rows = self.rows
        await self.prepare()
        report_progress(f"{self.rows} rows; starting the manager")
        started = time.monotonic()
        mark = self.counts()
        await self.converge()
        self.figures.seconds = round(time.monotonic() - started, 1)
        counts = self.counts() - mark
        self.figures.writes, self.figures.reads = counts.writes, counts.reads
        self.figures.resources = self.rows * 5
        report_progress(f"all ready after {self.figures.seconds} s\n{counts}")
        await self._scrape()
        await self._stay_idle()
        await self._restart()
        await self._change_one_row()
        await self._restart_with_a_change()
        await self._scrape()
        self.figures.rss_mib = self.manager.resident_mib()
        await self._stop()
        return self.figures

    # -- phases ----------------------------------------------------------------------------

    async def _scrape(self) -> None:
        address = f"http://{self.metrics}/metrics"
        async with aiohttp.ClientSession() as session, session.get(address) as response:
            size = len(await response.read())
        report_progress(f"{size} bytes of metrics")

    async def _stay_idle(self) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        mark = self.counts()
        await asyncio.sleep(self.steady_seconds)
        counts = self.counts() - mark
        self.figures.steady_seconds = self.steady_seconds
        self.figures.steady_requests = counts.total - counts.watches
        report_progress(f"idle for {self.steady_seconds:g} s:\n{counts}")

    async def _stop(self) -> None:
        await self.manager.stop()
        found = orjson.loads(self.report.read_bytes())
        report_progress("\n".join(["stalls of the loop:", *found["longest"]]))
        self.figures.max_stall_ms = max(self.figures.max_stall_ms, found["max_stall_ms"])

    async def _restart(self) -> None:
        await self._stop()
        mark = self.counts()
        await self.manager.start()
        await asyncio.sleep(SETTLE_SECONDS + self.rows / 200)
        counts = self.counts() - mark
        self.figures.restart_writes, self.figures.restart_reads = counts.writes, counts.reads
        report_progress(f"after a restart:\n{counts}")

    async def _restart_with_a_change(self) -> None:
        await self._stop()
        self.set_plan("silver")
        started = time.monotonic()
        await self.manager.start()
        await self.has_plan("silver", limit=120 + self.rows / 50)
        self.figures.restart_seconds = round(time.monotonic() - started, 1)
        report_progress(f"a fresh change {self.figures.restart_seconds} s after the start")

    async def _change_one_row(self) -> None:
        mark = self.environment.proxy.log.mark()
        before = self.counts()
        self.set_plan("gold")
        await self.has_plan("gold", limit=60)
        await asyncio.sleep(SETTLE_SECONDS)
        counts = self.counts() - before
        self.figures.one_row_writes = counts.writes
        report_progress(f"after one row changed:\n{counts}")
        strangers = {
            entry.name
            for entry in self.environment.proxy.log.entries(mark)
            if entry.user == MANAGER
            and entry.name
            and not entry.name.startswith("t000000")
            and entry.name not in {REGISTRY, "web-app"}
        }
        if strangers:
            raise SystemExit(f"objects of other tenants were written: {sorted(strangers)[:10]}")


async def measure(rows: int, steady: float, backend: str) -> TenancyFigures:
    """Start everything, run all phases, stop everything."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name, MariaDB.start() as database:
        folder = Path(name)
        report, metrics = folder / "stalls.json", f"127.0.0.1:{free_port()}"
        async with environment(backend, folder) as server:
            kubeconfig = server.kubeconfig(MANAGER)
            command = ["-m", "benchmarks.tenancy.manager", str(kubeconfig), metrics, str(report)]
            manager = ManagerProcess(folder, command)
            try:
                return await TenancyBench(
                    server, manager, database, rows, steady, metrics, report
                ).run()
            finally:
                await manager.stop()


@dataclass(frozen=True, slots=True)
class Turn:
    """How long it took until all tenants were ready."""

    seconds: float
    cpu_seconds: float


async def take_turn(rows: int, backend: str, code: Path | None) -> Turn:
    """Bring the fleet up once, on a server of its own, by the code of a tree."""
    async with started(rows, backend, code) as fleet:
        await fleet.prepare()
        began = time.monotonic()
        await fleet.converge()
        return Turn(round(time.monotonic() - began, 1), round(fleet.manager.cpu_seconds(), 2))


@asynccontextmanager
async def started(rows: int, backend: str, code: Path | None) -> AsyncIterator[TenantFleet]:
    """A fleet whose manager runs the program as it is shipped."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name, MariaDB.start() as database:
        folder = Path(name)
        async with environment(backend, folder) as server:
            command = manager_command(server.kubeconfig(MANAGER))
            manager = ManagerProcess(folder, command, code)
            try:
                yield TenantFleet(server, manager, database, rows)
            finally:
                await manager.stop()


async def compare(rows: int, backend: str, base: Path, turns: int, figures: TenancyFigures) -> None:
    """Let both codes bring the fleet up in turns; the least of each counts, which others disturbed least."""
    base_code.compile_code(base)
    found: dict[Path | None, list[Turn]] = {None: [], base: []}
    for turn in range(turns):
        for code in (base, None) if turn % 2 == 0 else (None, base):
            taken = await take_turn(rows, backend, code)
            found[code].append(taken)
            report_progress(f"{'base' if code else 'this code'}: {taken}")
    figures.cpu_seconds = min(each.cpu_seconds for each in found[None])
    figures.base_seconds = min(each.seconds for each in found[base])
    figures.base_cpu_seconds = min(each.cpu_seconds for each in found[base])
    figures.cpu_ratio_to_base = round(figures.cpu_seconds / figures.base_cpu_seconds, 3)


async def bench(
    rows: int, steady: float, backend: str, base: Path | None, turns: int
) -> TenancyFigures:
    """The figures of one run, and of the comparison with a base."""
    figures = await measure(rows, steady, backend)
    figures.backend = backend
    if base is not None:
        await compare(rows, backend, base, turns, figures)
    return figures


@click.command()
@click.option("--rows", default=1000, help="Active rows.")
@click.option(
    "--steady", default=120.0, help="Seconds without a change in which requests are counted."
)
@click.option("--backend", type=click.Choice(["embedded", "kube-apiserver"]), default="embedded")
@click.option("--base", default="none", help="Commit to compare processor time with; none: not.")
@click.option("--turns", default=1, help="How often each code brings the fleet up.")
def main(rows: int, steady: float, backend: str, base: str, turns: int) -> None:
    """Count what a fleet costs the API server."""
    code = None if base == "none" else base_code.exported(base)
    figures = uvloop.run(bench(rows, steady, backend, code, turns))
    print_figures(figures)
    exit_with(exceeded(figures.rows, figures))


if __name__ == "__main__":
    main()
