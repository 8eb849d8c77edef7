"""`make bench-scale PLANES=2 OBJECTS=10000`: the last line is one JSON object; it fails when a bound does not hold.

Hub, data planes and stacks (controllers and workers of each) are processes of their own. A proxy before each server
counts what the stacks request. Half of the Tenants converge first, then the rest; then all is idle, is restarted,
and is counted. How one stopped cluster of twenty affects the others is measured in `benchmarks.scale.dead_cluster`.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import uvloop

from apis.tenancy import Tenant
from benchmarks.frame import exit_with, print_figures, report_progress
from benchmarks.scale import dead_cluster
from benchmarks.scale.bounds import ScaleFigures, exceeded
from benchmarks.scale.stacks import DEPLOYMENT, FOLLOWED, Stack, Stacks, running
from benchmarks.scale.tenants import has_workload, numbers_of, tenant
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.resource import KindRef
from internal.fleet.pods import WORKLOADS

CONFIG_MAP = FOLLOWED[0]
EVENTS = "events.events.k8s.io"
AT_ONCE = 16
"""Tenants that are created side by side on each data plane."""
_WORKLOADS = frozenset(
    f"{mapping.plural}.{mapping.gvk.group}" if mapping.gvk.group else mapping.plural
    for mapping in BUILTIN.values()
    if mapping.gvk.group_kind in WORKLOADS
)


@dataclass(slots=True)
class ScaleBench:
    """One run."""

    stacks: Stacks
    objects: int
    steady_seconds: float
    figures: ScaleFigures = field(default_factory=ScaleFigures)

    @property
    def limit(self) -> float:
        """Seconds that no phase takes."""
        return 300.0 + self.objects * 0.3

    async def run(self) -> ScaleFigures:
        """All phases in turn."""
        figures = self.figures
        figures.planes, figures.objects = len(self.stacks.stacks), self.objects
        await self.stacks.start()
        await self.stacks.wait_until_idle(self.limit)
        half = self.objects // 2
        await self._converge(0, half)
        half_mib = self.stacks.resident_mib("controllers")
        await self._converge(half, self.objects)
        slope = self.stacks.resident_mib("controllers") - half_mib
        figures.bytes_per_object = int(slope * 2**20 / self._cached(half, self.objects))
        figures.cpu_seconds = round(self.stacks.cpu_seconds(), 1)
        figures.gib = round(self.stacks.resident_mib() / 1024, 2)
        figures.seconds = round(figures.seconds, 1)
        counts = self.stacks.counts()
        figures.writes = counts.writes
        report_progress(f"all ready after {figures.seconds} s\n{counts}")
        await self._measure_share()
        await self._stay_idle()
        await self._restart()
        figures.lost = await self._lost()
        figures.workload_requests_on_planes = _workload_requests(self.stacks)
        await self.stacks.stop()
        return figures

    async def _converge(self, first: int, end: int) -> None:
        started = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number, stack in enumerate(self.stacks.stacks):
                group.create_task(self._create(stack, number, first, end))
        deadline = time.monotonic() + self.limit
        while missing := sum([await _unready(each) for each in self.stacks.stacks]):
            if time.monotonic() > deadline:
                raise SystemExit(f"{missing} Tenants are not ready after {self.limit:g} s")
            for each in self.stacks.processes():
                each.check()
            await asyncio.sleep(0.5 + self.objects / 1000)
        self.figures.seconds += time.monotonic() - started
        await self.stacks.wait_until_idle(self.limit)
        report_progress(f"{end} Tenants are ready")

    async def _create(self, stack: Stack, number: int, first: int, end: int) -> None:
        client, slots = stack.plane.client("envtest"), asyncio.Semaphore(AT_ONCE)

        async def create(manifest: dict[str, Any]) -> None:
            async with slots:
                await client.create(manifest)

        async with asyncio.TaskGroup() as group:
            for each in numbers_of(number, len(self.stacks.stacks), first, end):
                group.create_task(create(tenant(each, stack.namespace)))

    def _cached(self, first: int, end: int) -> int:
        """Return how many objects the controllers have for these Tenants: the Tenant, and its objects."""
        return sum(3 if has_workload(each) else 2 for each in range(first, end))

    async def _measure_share(self) -> None:
        on_hub, deadline = await self.stacks.hub_objects(), time.monotonic() + 180
        shares = [await each.hub_objects() for each in self.stacks.stacks]
        while min(shares) < 0 or sum(shares) < on_hub:
            if time.monotonic() > deadline:
                raise SystemExit(f"the workers have {shares} of {on_hub} objects of the hub")
            await asyncio.sleep(2)
            shares = [await each.hub_objects() for each in self.stacks.stacks]
        self.figures.hub_cache_share = round(max(shares) / on_hub, 3)

    async def _stay_idle(self) -> None:
        before = self.stacks.counts()
        await asyncio.sleep(self.steady_seconds)
        counts = self.stacks.counts() - before
        self.figures.steady_seconds = self.steady_seconds
        self.figures.steady_requests = counts.total - counts.watches
        report_progress(f"idle for {self.steady_seconds:g} s:\n{counts}")

    async def _restart(self) -> None:
        await self.stacks.stop()
        before = self.stacks.counts()
        await self.stacks.start()
        await self._wait_for_workers()
        await self.stacks.wait_until_idle(self.limit)
        counts = self.stacks.counts() - before
        self.figures.restart_writes = counts.select(exclude=(EVENTS,)).writes
        self.figures.restart_events = counts.writes - self.figures.restart_writes
        ratio = self.stacks.cpu_seconds() / self.figures.cpu_seconds
        self.figures.restart_cpu_ratio = round(ratio, 3)
        report_progress(f"after a restart:\n{counts}")

    async def _wait_for_workers(self) -> None:
        """Wait until each process has begun to work: it holds its Lease, which the former has released."""
        deadline = time.monotonic() + self.limit
        logs = [each.folder / "manager.log" for each in self.stacks.processes()]
        while any(log.read_text().count("Starting workers") < 2 for log in _controllers(logs)):
            if time.monotonic() > deadline:
                raise SystemExit("the stacks do not start again")
            await asyncio.sleep(0.5)

    async def _lost(self) -> int:
        lost = 0
        for number, stack in enumerate(self.stacks.stacks):
            numbers = list(numbers_of(number, len(self.stacks.stacks), 0, self.objects))
            lost += await _unready(stack) + len(numbers) - await _count(stack, Tenant.mapping())
            lost += len(numbers) - await _count(stack, CONFIG_MAP)
        workloads = sum(map(has_workload, range(self.objects)))
        hub = self.stacks.hub.client("envtest")
        return lost + abs(workloads - len(await hub.list(DEPLOYMENT, metadata_only=True)))


def _controllers(logs: list[Path]) -> list[Path]:
    return [log for log in logs if log.parent.name == "controllers"]


async def _count(stack: Stack, kind: KindRef) -> int:
    client = stack.plane.client("envtest")
    return len(await client.list(kind, stack.namespace, metadata_only=True))


async def _unready(stack: Stack) -> int:
    """Return how many Tenants are not ready for their generation."""
    missing = 0
    for each in await stack.plane.client("envtest").list(Tenant.mapping(), stack.namespace):
        status = each.get("status") or {}
        ready = any(
            found["type"] == "Ready" and found["status"] == "True"
            for found in status.get("conditions") or ()
        )
        current = status.get("observedGeneration") == each["metadata"]["generation"]
        missing += not (ready and current)
    return missing


def _workload_requests(stacks: Stacks) -> int:
    """Return the requests to data planes for kinds that run containers, watches included."""
    return sum(
        row.count for row in stacks.plane_counts() if row.resource.partition("/")[0] in _WORKLOADS
    )


async def bench(planes: int, objects: int, steady: float, clusters: int) -> ScaleFigures:
    """Start everything, run, stop everything."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        async with running(Path(name), planes) as stacks:
            figures = await ScaleBench(stacks, objects, steady).run()
        found = await dead_cluster.measure(Path(name), clusters)
    figures.dead_cluster_p99_ratio, figures.dead_cluster_lost = found.p99_ratio, found.lost
    return figures


@click.command()
@click.option("--planes", default=2, help="Data planes.")
@click.option("--objects", default=10_000, help="Tenants, over all data planes.")
@click.option("--steady", default=120.0, help="Seconds to watch the idle stacks.")
@click.option("--clusters", default=20, help="Clusters of one process, of which one is stopped.")
def main(planes: int, objects: int, steady: float, clusters: int) -> None:
    """Measure what scale mode costs, and fail when a bound does not hold."""
    figures = uvloop.run(bench(planes, objects, steady, clusters))
    print_figures(figures)
    exit_with(exceeded(figures))


if __name__ == "__main__":
    main()
