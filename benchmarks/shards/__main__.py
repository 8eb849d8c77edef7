"""`make bench-shards MEMBERS=n ROWS=n`: what n managers cost that share the tenants of five resources, beside one that does not.

Server, simulated nodes and managers are processes on this machine; each manager is a user of its own, so that the
proxy's log of requests shows who did what. The last line is one JSON object; the exit code says whether the figures
keep their bounds.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import click
import uvloop

from apis.operations import ChangeFreeze
from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from benchmarks.frame import NAMESPACE, ManagerProcess, exit_with, print_figures, report_progress
from benchmarks.plan.__main__ import fill, registry
from benchmarks.shards.counting import (
    Place,
    ShardFigures,
    counted,
    largest_share,
    overlaps,
    writers,
    writes,
)
from benchmarks.tenancy.fleet import REGISTRY, TABLE, manager_command, sample
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.proxy import LogEntry, Mark

CHILDREN = frozenset({"serviceaccounts", "configmaps", "secrets", "deployments.apps", "services"})
REGISTRIES = (
    "tenantregistries.tenancy.ctrlruntime.dev",
    "tenantregistries.tenancy.ctrlruntime.dev/status",
)
"""Resources that a restart may write: a status shows for how long slots had no owner."""
QUIET = 6.0
"""Seconds without a request, longer than registries wait between two readings of their rows."""


@dataclass(slots=True)
class ShardBench:
    """A fleet, and the managers that share it."""

    environment: Environment
    folder: Path
    managers: dict[str, ManagerProcess]
    rows: int

    @classmethod
    @asynccontextmanager
    async def made(cls, members: int, rows: int) -> AsyncIterator[ShardBench]:
        """Start a server with the fleet's registry and template; managers are started by the phases."""
        users = [f"m{number}" for number in range(members)]
        with tempfile.TemporaryDirectory(prefix="bench-shards-") as name:
            folder = Path(name)
            async with Environment(
                "embedded-process",
                nodes=True,
                pods=False,
                proxy=True,
                folder=folder,
                users=("admin", *users),
            ) as environment:
                fill(folder, rows)
                kinds = (TenantRegistry, TenantTemplate, Tenant, ChangeFreeze)
                await environment.install_crds(*kinds)
                managers = {user: _manager(environment, folder, user, members) for user in users}
                bench = cls(environment, folder, managers, rows)
                try:
                    yield bench
                finally:
                    await asyncio.gather(*(each.stop() for each in managers.values()))

    async def converge(self) -> tuple[float, float]:
        """Start all managers and make the fleet. Return seconds and processor seconds until all tenants are ready."""
        await asyncio.gather(*(each.start() for each in self.managers.values()))
        client, began = self.environment.client("envtest"), time.monotonic()
        await client.create(registry())
        await client.create(sample("tenanttemplate.yaml"))
        await self._until(self._all_ready, 120 + self.rows)
        seconds = time.monotonic() - began
        return seconds, sum(each.cpu_seconds() for each in self.managers.values())

    async def missing(self) -> int:
        """Return how many rows have no tenant that is ready."""
        found = await self.environment.client("envtest").get(
            TenantRegistry, REGISTRY, namespace=NAMESPACE
        )
        return self.rows - found.status.ready

    async def _all_ready(self) -> bool:
        return await self.missing() == 0

    @staticmethod
    async def _until(holds: Callable[[], Awaitable[bool]], limit: float) -> None:
        async with asyncio.timeout(limit):
            while True:
                if await holds():
                    return
                await asyncio.sleep(0.3)

    async def quiet(self) -> None:
        """Wait until no manager has sent anything for a while."""
        mark = self.mark()
        async with asyncio.timeout(600):
            while True:
                await asyncio.sleep(QUIET)
                if not self.requests(mark):
                    return
                mark = self.mark()

    def mark(self) -> Mark:
        return self.environment.proxy.log.mark()

    def requests(self, since: Mark | None = None) -> list[LogEntry]:
        """Return what managers sent, without watches, Leases and events."""
        return counted(self.environment.proxy.log.entries(since), self.managers)

    # -- phases ----------------------------------------------------------------------------

    async def rest(self, seconds: float) -> int:
        """Return how many requests are sent at rest."""
        mark = self.mark()
        await asyncio.sleep(seconds)
        return len(self.requests(mark))

    async def restart(self) -> int:
        """Restart all managers at once. Return how often they wrote tenants or what these have."""
        await asyncio.gather(*(each.stop() for each in self.managers.values()))
        mark = self.mark()
        await asyncio.gather(*(each.start() for each in self.managers.values()))
        await self.quiet()
        found = [each for each in writes(self.requests(mark)) if each.resource not in REGISTRIES]
        report_progress(f"after a restart: {[(e.user, e.verb, e.resource, e.name) for e in found]}")
        return len(found)

    async def kill(self, by_place: Mapping[Place, set[str]]) -> tuple[float, int]:
        """Kill a member that does not lead, and change the rows of its tenants.

        Return the seconds until another one wrote one of them, and the writes to tenants of others meanwhile.
        """
        leader = self.leader()
        dead = next(user for user in self.managers if user != leader)
        theirs = {place for place, users in by_place.items() if users == {dead}}
        names = {_tenant_of(place[2]) for place in theirs}
        process = self.managers[dead].process
        assert process is not None
        mark, began = self.mark(), time.time()
        process.kill()
        self.change(names)
        await self._until(lambda: self._taken_over(theirs, mark), 120)
        # Silence alone is no end: a member that is slow may begin with the last of its new slots after it.
        await self._until(lambda: self._changed(names), 120 + self.rows)
        await self.quiet()
        found = [each for each in writes(self.requests(mark)) if each.resource in CHILDREN]
        first = min(each.at for each in found if _place(each) in theirs)
        return first - began, sum(_tenant_of(each.name) not in names for each in found)

    async def _taken_over(self, places: Collection[Place], mark: Mark) -> bool:
        return any(_place(each) in places for each in writes(self.requests(mark)))

    async def _changed(self, rows: Collection[str]) -> bool:
        found = await self.environment.client("envtest").list(Tenant, namespace=NAMESPACE)
        return all(_is_changed(each) for each in found if each.spec.uid in rows)

    def leader(self) -> str:
        """Return the member that writes tenants for the registry."""
        return next(
            each.user
            for each in reversed(self.requests())
            if each.verb == "apply" and each.resource.startswith("tenants.")
        )

    def change(self, tenants: Collection[str]) -> None:
        """Change the rows of tenants."""
        with contextlib.closing(sqlite3.connect(self.folder / "rows.sqlite")) as database, database:
            database.executemany(
                f"UPDATE {TABLE} SET subscription_plan = 'pro' WHERE tenant_id = ?",
                [(name,) for name in tenants],
            )


def _manager(environment: Environment, folder: Path, user: str, members: int) -> ManagerProcess:
    place = folder / user
    place.mkdir()
    command = manager_command(environment.kubeconfig(user))
    command += ["--allow-sqlite", str(folder)]
    if members > 1:
        command += ["--shards", "--shard-name", user, "--leader-elect"]
        command += ["--leader-election-namespace", NAMESPACE]
    return ManagerProcess(place, command)


def _place(entry: LogEntry) -> Place:
    return entry.resource, entry.namespace, entry.name


def _tenant_of(name: str) -> str:
    """Return the row that an object of the sample is of."""
    return name.partition("-")[0]


def _is_changed(tenant: Tenant) -> bool:
    """Whether a tenant's second spec has been carried out."""
    generation = tenant.metadata.generation or 0
    return generation > 1 and tenant.status.observed_generation == generation


async def bench(members: int, rows: int, steady: float) -> ShardFigures:
    """Run one manager, then several."""
    figures = ShardFigures(members=members, rows=rows, steady_seconds=steady)
    async with ShardBench.made(1, rows) as one:
        _, cpu_of_one = await one.converge()
        await one.quiet()
        figures.writes_of_one = len(writes(one.requests()))
    report_progress(f"one manager: {figures.writes_of_one} writes")
    async with ShardBench.made(members, rows) as shared:
        seconds, cpu = await shared.converge()
        figures.seconds = round(seconds, 1)
        figures.cpu_ratio = round(cpu / cpu_of_one, 2)
        await shared.quiet()
        figures.writes = len(writes(shared.requests()))
        by_place = writers(shared.requests(), CHILDREN)
        figures.overlap_writes = overlaps(by_place)
        figures.largest_share = round(largest_share(by_place, shared.managers), 3)
        report_progress(
            f"{members} managers: {figures.writes} writes, share {figures.largest_share}"
        )
        figures.steady_requests = await shared.rest(steady)
        seconds, elsewhere = await shared.kill(by_place)
        figures.unowned_seconds = round(seconds, 1)
        figures.repeated_passes_elsewhere = elsewhere
        figures.restart_writes = await shared.restart()
        figures.lost = await shared.missing()
    return figures


@click.command()
@click.option("--members", default=4, type=click.IntRange(min=2), help="Managers.")
@click.option("--rows", default=10_000, help="Active rows.")
@click.option("--steady", default=60.0, help="Seconds at rest.")
def main(members: int, rows: int, steady: float) -> None:
    """Measure several managers."""
    figures = uvloop.run(bench(members, rows, steady))
    print_figures(figures)
    exit_with(figures.violations())


if __name__ == "__main__":
    main()
