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
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click
import uvloop

from apis.operations import ChangeFreeze
from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from benchmarks.frame import NAMESPACE, ManagerProcess, exit_with, print_figures, report_progress
from benchmarks.plan.__main__ import fill, registry
from benchmarks.shards.counting import (
    LEASE_SECONDS,
    Place,
    ShardFigures,
    counted,
    largest_share,
    overlaps,
    writers,
    writes,
)
from benchmarks.shards.membership import Membership, moved, until
from benchmarks.shards.runs import count_runs, member_process
from benchmarks.tenancy.fleet import REGISTRY, TABLE, sample
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.proxy import LEASES, LogEntry
from internal.tenancy.tenant.slots import SLOTS_LABELLED
from manager.options import SHARD_GROUP

CHILDREN = frozenset({"serviceaccounts", "configmaps", "secrets", "deployments.apps", "services"})
TENANTS = "tenants.tenancy.ctrlruntime.dev"
ALONE = "alone"
"""User of the manager that is not divided."""


@dataclass(slots=True)
class ShardBench:
    """A fleet, and the managers that share it. Times in seconds."""

    environment: Environment
    folder: Path
    alone: ManagerProcess
    managers: dict[str, ManagerProcess]
    rows: int
    sync: float
    """Between two readings of the rows; without a request for longer, nothing is under way."""
    sent: list[LogEntry] = field(default_factory=list)
    """What managers sent, without watches, Leases and events."""

    @classmethod
    @asynccontextmanager
    async def made(
        cls, members: int, rows: int, lease: float, sync: float
    ) -> AsyncIterator[ShardBench]:
        """Start a server with the fleet's kinds; managers are started by the phases."""
        users = [f"m{number}" for number in range(members)]
        with tempfile.TemporaryDirectory(prefix="bench-shards-") as name:
            folder = Path(name)
            async with Environment(
                "embedded-process",
                nodes=True,
                pods=False,
                proxy=True,
                folder=folder,
                users=("admin", ALONE, *users),
            ) as environment:
                fill(folder, rows)
                await environment.install_crds(TenantRegistry, TenantTemplate, Tenant, ChangeFreeze)
                made = {
                    user: member_process(environment, folder, user, "tenancy", lease)
                    for user in users
                }
                alone = member_process(environment, folder, ALONE, "tenancy", lease, "-")
                bench = cls(environment, folder, alone, made, rows, sync)
                environment.proxy.log.observe(bench._record)
                try:
                    yield bench
                finally:
                    await asyncio.gather(*(each.stop() for each in (alone, *made.values())))

    def _record(self, entry: LogEntry) -> None:
        self.sent += counted([entry], (ALONE, *self.managers))

    @property
    def membership(self) -> Membership:
        """Who owns which slot."""
        return Membership(self.environment.client("envtest"), SHARD_GROUP)

    async def start(self) -> Mapping[int, str]:
        """Start the members. Return who has each slot."""
        await asyncio.gather(*(each.start() for each in self.managers.values()))
        return await self.membership.shared_by(self.managers)

    async def converge(self, managers: Collection[ManagerProcess]) -> tuple[float, float]:
        """Make the fleet in two halves. Return the seconds, and the processor seconds of all managers for a row of the second.

        What they use when idle is not in it.
        """
        client, began = self.environment.client("envtest"), time.monotonic()
        made, half = registry(), self.rows // 2
        made["spec"]["source"]["syncInterval"] = f"{self.sync:g}s"
        self._execute("UPDATE {} SET is_active = 0 WHERE tenant_id >= ?", [(f"t{half:06}",)])
        await client.create(sample("tenanttemplate.yaml"))
        await client.create(made)
        await self._until(lambda: self._is_ready(half))
        seconds = time.monotonic() - began
        await self.quiet()
        idle = self._processor(managers)
        await asyncio.sleep(self.sync + 1)
        idle = (self._processor(managers) - idle) / (self.sync + 1)
        used, began = self._processor(managers), time.monotonic()
        self._execute("UPDATE {} SET is_active = 1", [()])
        await self._until(lambda: self._is_ready(self.rows))
        took = time.monotonic() - began
        used = self._processor(managers) - used - idle * took
        await self.quiet()
        return seconds + took, used / (self.rows - half)

    @staticmethod
    def _processor(managers: Iterable[ManagerProcess]) -> float:
        return sum(each.cpu_seconds() for each in managers)

    async def missing(self) -> int:
        """Return how many rows have no tenant that is ready."""
        return self.rows - (await self._registry()).status.ready

    async def _is_ready(self, rows: int) -> bool:
        status = (await self._registry()).status
        return status.desired == status.ready == rows

    async def _registry(self) -> TenantRegistry:
        return await self.environment.client("envtest").get(
            TenantRegistry, REGISTRY, namespace=NAMESPACE
        )

    async def _until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        await until(holds, 180 + self.rows)

    async def quiet(self) -> None:
        """Wait until no manager has sent anything for a while."""
        mark = -1
        while len(self.sent) != mark:
            mark = len(self.sent)
            await asyncio.sleep(self.sync + 1)

    def watched(self, *users: str) -> tuple[int, int]:
        """Return the bytes that the server sent on the watches of the user that got most: of all, and of what tenants have."""
        found = [self.environment.proxy.log.watched_bytes(user) for user in users]
        every = [sum(each.values()) - each.get(LEASES, 0) for each in found]
        return max(every), max(sum(each.get(kind, 0) for kind in CHILDREN) for each in found)

    # -- phases ----------------------------------------------------------------------------

    async def migrate(self) -> int:
        """Have members take the place of the one manager. Return the most writes to one object of a tenant."""
        await self.alone.stop()
        mark = len(self.sent)
        await self.start()
        await self._until(self._is_labelled)
        await self.quiet()
        found = Counter(map(_place, of_tenants(self.sent[mark:])))
        return max(found.values(), default=0)

    async def _is_labelled(self) -> bool:
        found = (await self._registry()).status.conditions
        return any(each.type == SLOTS_LABELLED and each.status == "True" for each in found)

    async def rest(self, seconds: float) -> int:
        """Return how many requests are sent at rest."""
        mark = len(self.sent)
        await asyncio.sleep(seconds)
        return len(self.sent) - mark

    async def restart(self) -> int:
        """Restart all managers at once. Return how often they wrote tenants or what these have."""
        await asyncio.gather(*(each.stop() for each in self.managers.values()))
        mark = len(self.sent)
        await self.start()
        await self.quiet()
        found = of_tenants(self.sent[mark:])
        report_progress(f"after a restart: {[(e.user, e.verb, e.resource, e.name) for e in found]}")
        return len(found)

    async def replace(self, by_place: Mapping[Place, set[str]], figures: ShardFigures) -> None:
        """Kill a member that does not lead, and change the rows of its tenants; then start it again."""
        before, leader = await self.membership.owners(), self.leader()
        dead = next(user for user in self.managers if user != leader)
        theirs = {place for place, users in by_place.items() if users == {dead}}
        names = {_tenant_of(place[2]) for place in theirs}
        mark, began = len(self.sent), time.time()
        self.managers[dead].kill()
        self._execute(
            "UPDATE {} SET subscription_plan = 'pro' WHERE tenant_id = ?",
            [(name,) for name in names],
        )
        after = await self.membership.shared_by({*self.managers} - {dead})
        # Silence alone is no end: a member that is slow may begin with the last of its new slots after it.
        await self._until(lambda: self._changed(names))
        await self.quiet()
        found = of_tenants(self.sent[mark:])
        first = min(each.at for each in found if _place(each) in theirs)
        figures.unowned_seconds = round(first - began, 1)
        elsewhere = [each for each in found if _tenant_of(each.name) not in names]
        mark = len(self.sent)
        await self.managers[dead].start()
        again = await self.membership.shared_by(self.managers)
        await self.quiet()
        elsewhere += of_tenants(self.sent[mark:])
        figures.moved_slots = max(moved(before, after), moved(after, again))
        figures.repeated_passes_elsewhere = len(elsewhere)

    async def _changed(self, rows: Collection[str]) -> bool:
        found = await self.environment.client("envtest").list(Tenant, namespace=NAMESPACE)
        return all(_is_changed(each) for each in found if each.spec.uid in rows)

    def leader(self) -> str:
        """Return the member that writes tenants for the registry."""
        return next(
            each.user
            for each in reversed(self.sent)
            if each.verb == "apply" and each.resource == TENANTS
        )

    def _execute(self, statement: str, values: Collection[tuple[str, ...]]) -> None:
        with contextlib.closing(sqlite3.connect(self.folder / "rows.sqlite")) as database, database:
            database.executemany(statement.format(TABLE), values)


def of_tenants(entries: Iterable[LogEntry]) -> list[LogEntry]:
    """Return the writes to tenants and to what they have."""
    return [
        each
        for each in writes(entries)
        if each.resource in CHILDREN or each.resource.startswith(TENANTS)
    ]


def split(entries: Iterable[LogEntry]) -> tuple[int, int]:
    """Return the writes to tenants and what they have, and those to their statuses."""
    found = [each.resource.endswith("/status") for each in of_tenants(entries)]
    return found.count(False), found.count(True)


def _place(entry: LogEntry) -> Place:
    return entry.resource, entry.namespace, entry.name


def _tenant_of(name: str) -> str:
    """Return the row that an object of the sample is of."""
    return name.partition("-")[0]


def _is_changed(tenant: Tenant) -> bool:
    """Whether a tenant's second spec has been carried out."""
    generation = tenant.metadata.generation or 0
    return generation > 1 and tenant.status.observed_generation == generation


async def bench(figures: ShardFigures, sync: float) -> None:
    """Run one manager, then several."""
    members, rows, lease = figures.members, figures.rows, figures.lease
    async with ShardBench.made(members, rows, lease, sync) as one:
        await one.alone.start()
        _, cpu_of_one = await one.converge([one.alone])
        figures.writes_of_one, figures.status_writes_of_one = split(one.sent)
        bytes_of_one, object_bytes_of_one = one.watched(ALONE)
        figures.migration_writes = await one.migrate()
    report_progress(f"one manager: {figures.writes_of_one} writes, {bytes_of_one} bytes watched")
    async with ShardBench.made(members, rows, lease, sync) as shared:
        await shared.start()
        seconds, cpu = await shared.converge(shared.managers.values())
        figures.seconds = round(seconds, 1)
        figures.cpu_ratio = round(cpu / cpu_of_one, 2)
        figures.cpu_ms_a_row = round(cpu * 1000, 2)
        figures.cpu_ms_a_row_of_one = round(cpu_of_one * 1000, 2)
        figures.writes, figures.status_writes = split(shared.sent)
        by_place = writers(shared.sent, CHILDREN)
        figures.overlap_writes = overlaps(by_place)
        figures.largest_share = round(largest_share(by_place, shared.managers), 3)
        every, objects = shared.watched(*shared.managers)
        figures.watch_bytes_share = round(every / bytes_of_one, 3)
        figures.object_bytes_share = round(objects / object_bytes_of_one, 3)
        report_progress(f"{members} managers: {figures}")
        figures.steady_requests = await shared.rest(figures.steady_seconds)
        await shared.replace(by_place, figures)
        figures.restart_writes = await shared.restart()
        figures.lost = await shared.missing()


@click.command()
@click.option("--members", default=4, type=click.IntRange(min=2), help="Managers.")
@click.option("--rows", default=10_000, type=click.IntRange(min=2), help="Active rows.")
@click.option("--steady", default=60.0, help="Seconds at rest.")
@click.option("--lease", default=LEASE_SECONDS, help="Seconds of a Lease.")
@click.option("--sync", default=5.0, help="Seconds between two readings of the rows.")
@click.option("--instances", default=60, help="Instances whose runs are counted.")
def main(members: int, rows: int, steady: float, lease: float, sync: float, instances: int) -> None:
    """Measure several managers."""
    figures = ShardFigures(members=members, rows=rows, lease=lease, steady_seconds=steady)
    uvloop.run(bench(figures, sync))
    found = uvloop.run(count_runs(members, instances, lease))
    figures.runs, figures.doubled_runs = found.runs, found.doubled
    print_figures(figures)
    exit_with(figures.violations())


if __name__ == "__main__":
    main()
