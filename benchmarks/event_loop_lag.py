"""`python -m benchmarks.event_loop_lag`: how long the manager's event loop stands still while n tenants converge.

API server and simulated nodes are processes of their own; the manager runs here, so that it can be
looked into. Lines before the last tell the longest stalls with what ran then (sampled by a timer)
and, with --profile, where the time goes. The last line is one JSON object.
"""

from __future__ import annotations

import asyncio
import cProfile
import pstats
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import click
import uvloop

from benchmarks.frame import print_figures
from benchmarks.stalls import watching
from ctrlruntime.manager import GCOptions, Manager, ManagerOptions
from manager.controllers.tenancy import add_tenancy
from manager.controllers.tenancy_options import TenancyOptions
from tests.tenancy.harness import TABLE, TenancyHarness


@dataclass(slots=True)
class LagFigures:
    """The last line."""

    rows: int
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    reconciles: int = 0
    us_per_reconcile: float = 0.0
    stalls: int = 0
    longest_ms: float = 0.0
    longest_wall_ms: float = 0.0


async def bench(rows: int, profile: bool) -> LagFigures:
    figures = LagFigures(rows)
    with tempfile.TemporaryDirectory(prefix="stalls-") as name:
        folder = Path(name)
        started = TenancyHarness.start(
            folder, nodes=True, manager=False, backend="embedded-process"
        )
        async with started as harness:
            fill(harness, rows)
            await harness.registry()
            await harness.template()
            manager = make_manager(harness)
            async with manager.running():  # caches are read, and the garbage collector has run
                with watching() as stalls:
                    await converge(harness, manager, figures, profile)
    worst = sorted(stalls.longest, reverse=True)
    for seconds, where in worst[:12]:
        click.echo(f"{seconds * 1000:.0f} ms: {where}", err=True)
    figures.stalls = len(worst)
    figures.longest_ms = round(worst[0][0] * 1000, 1) if worst else 0.0
    figures.longest_wall_ms = round(stalls.wall * 1000, 1)
    return figures


def fill(harness: TenancyHarness, rows: int) -> None:
    """The table, in one transaction."""
    numbers = (
        f"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {rows - 1})"
    )
    values = "SELECT 't' || i, 'https://t' || i || '.example.com', 1, 'basic', 'nginx:1', 1 FROM n"
    harness.sql(f"{numbers} INSERT INTO {TABLE} {values}")


def make_manager(harness: TenancyHarness) -> Manager:
    options = ManagerOptions(
        name="manager",
        metrics_bind_address="0",
        health_bind_address="0",
        gc=GCOptions(manage=True),
    )
    manager = Manager(harness.environment.config("manager", direct=True), options)
    add_tenancy(manager, TenancyOptions(sqlite_root=harness.folder))
    return manager


async def converge(
    harness: TenancyHarness, manager: Manager, figures: LagFigures, profile: bool
) -> None:
    """Until every tenant is ready and things are quiet."""
    profiler = cProfile.Profile()
    began, cpu = time.perf_counter(), time.process_time()
    if profile:
        profiler.enable()
    async with asyncio.timeout(60 + figures.rows):
        while await ready(harness) < figures.rows:  # noqa: ASYNC110 - the API server tells
            await asyncio.sleep(0.5)
    figures.seconds = round(time.perf_counter() - began, 1)
    figures.cpu_seconds = round(time.process_time() - cpu, 1)
    profiler.disable()
    series = manager.metrics.controller("tenant", 10)
    figures.reconciles = sum(series.outcomes.values())
    figures.us_per_reconcile = round(figures.cpu_seconds / max(1, figures.reconciles) * 1e6)
    if profile:
        report = pstats.Stats(profiler, stream=sys.stderr)
        report.sort_stats("tottime").print_stats(45)
        report.sort_stats("cumtime").print_stats(70)


async def ready(harness: TenancyHarness) -> int:
    """Ready tenants by the registry's status."""
    from apis.tenancy import TenantRegistry

    registry = await harness.client.get(TenantRegistry, "registry", namespace="default")
    return registry.status.ready


@click.command()
@click.option("--rows", default=1000, help="Tenants, of five resources each.")
@click.option("--profile", is_flag=True, help="Show where the time goes; everything takes longer.")
def main(rows: int, profile: bool) -> None:
    """Measure stalls of the manager's loop."""
    figures = uvloop.run(bench(rows, profile))
    print_figures(figures)


if __name__ == "__main__":
    main()
