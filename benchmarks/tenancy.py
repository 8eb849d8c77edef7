"""`make bench-tenancy ROWS=n`: what n tenants of five resources cost the API server.

Database, API server, simulated nodes and manager are processes of their own; the proxy's request
log counts what the manager's user asks, without Leases, Events included. The last line is one JSON
object.
"""

import asyncio
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import uvloop
import yaml

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from benchmarks.frame import (
    MANAGER,
    NAMESPACE,
    Fleet,
    ManagerProcess,
    print_figures,
    report_progress,
)
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.envtest import Environment
from tests.mariadb import MariaDB

SAMPLES = Path(__file__).parent.parent / "config" / "samples"
REGISTRY = "my-saas-registry"
DATABASE = "tenants"
TABLE = "tenant_data"
CONFIG_MAP = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]
SETTLE_SECONDS = 10.0
"""The fleet counts as idle this long after the last tenant is ready."""


@dataclass(slots=True)
class TenancyFigures:
    """The last line."""

    rows: int = 0
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


@dataclass(slots=True)
class TenancyBench(Fleet):
    """One run."""

    database: MariaDB
    rows: int
    steady_seconds: float
    figures: TenancyFigures = field(default_factory=TenancyFigures)

    async def run(self) -> TenancyFigures:
        """All phases in turn."""
        self.figures.rows = self.rows
        await self._prepare()
        report_progress(f"{self.rows} rows; starting the manager")
        started = time.monotonic()
        mark = self.counts()
        await self.manager.start()
        await self.wait_until_done(self._missing_tenants, limit=120 + self.rows * 0.2, every=0.5)
        self.figures.seconds = round(time.monotonic() - started, 1)
        counts = self.counts() - mark
        self.figures.writes, self.figures.reads = counts.writes, counts.reads
        self.figures.resources = self.rows * 5
        report_progress(f"all ready after {self.figures.seconds} s\n{counts}")
        await self._stay_idle()
        await self._restart()
        await self._change_one_row()
        await self._restart_with_a_change()
        self.figures.rss_mib = self.manager.resident_mib()
        await self.manager.stop()
        return self.figures

    # -- phases ----------------------------------------------------------------------------

    async def _prepare(self) -> None:
        await self.environment.install_crds(TenantRegistry, TenantTemplate, Tenant)
        self._fill_table()
        client = self.client
        await client.create(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {
                    "name": "mysql-secret",
                    "namespace": NAMESPACE,
                    "labels": {"tenancy.ctrlruntime.dev/database": "true"},
                },
                "stringData": {"password": self.database.password},
            }
        )
        registry = sample("tenantregistry.yaml")
        source = registry["spec"]["source"]
        source["syncInterval"] = "5s"
        source["mysql"] |= {
            "host": self.database.host,
            "port": self.database.port,
            "username": self.database.user,
            "database": DATABASE,
            "table": TABLE,
        }
        await client.create(registry)
        await client.create(sample("tenanttemplate.yaml"))

    def _fill_table(self) -> None:
        self.database.execute(f"CREATE DATABASE {DATABASE}")
        self.database.execute(
            f"CREATE TABLE {TABLE} (tenant_id VARCHAR(63) PRIMARY KEY, domain VARCHAR(255), "
            "is_active BOOLEAN, subscription_plan VARCHAR(20), container_image VARCHAR(255), "
            "replicas INT)",
            database=DATABASE,
        )
        rows = [
            (f"t{i:06}", f"https://t{i}.example.com", 1, "basic", "registry.example.com/web:1", 1)
            for i in range(self.rows)
        ]
        self.database.insert(DATABASE, f"INSERT INTO {TABLE} VALUES (%s, %s, %s, %s, %s, %s)", rows)

    async def _stay_idle(self) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        mark = self.counts()
        await asyncio.sleep(self.steady_seconds)
        counts = self.counts() - mark
        self.figures.steady_seconds = self.steady_seconds
        self.figures.steady_requests = counts.total - counts.watches
        report_progress(f"idle for {self.steady_seconds:g} s:\n{counts}")

    async def _restart(self) -> None:
        await self.manager.stop()
        mark = self.counts()
        await self.manager.start()
        await asyncio.sleep(SETTLE_SECONDS + self.rows / 200)
        counts = self.counts() - mark
        self.figures.restart_writes, self.figures.restart_reads = counts.writes, counts.reads
        report_progress(f"after a restart:\n{counts}")

    async def _restart_with_a_change(self) -> None:
        await self.manager.stop()
        self._set_plan("silver")
        started = time.monotonic()
        await self.manager.start()
        await self._has_plan("silver", limit=120 + self.rows / 50)
        self.figures.restart_seconds = round(time.monotonic() - started, 1)
        report_progress(f"a fresh change {self.figures.restart_seconds} s after the start")

    def _set_plan(self, plan: str) -> None:
        self.database.execute(
            f"UPDATE {TABLE} SET subscription_plan = '{plan}' WHERE tenant_id = 't000000'",
            database=DATABASE,
        )

    async def _has_plan(self, plan: str, limit: float) -> None:
        async with asyncio.timeout(limit):
            while True:
                await asyncio.sleep(0.25)
                found = await self.client.get(CONFIG_MAP, "t000000-settings", namespace=NAMESPACE)
                if found["data"]["plan"] == plan:
                    return

    async def _change_one_row(self) -> None:
        mark = self.environment.proxy.log.mark()
        before = self.counts()
        self._set_plan("gold")
        await self._has_plan("gold", limit=60)
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

    async def _missing_tenants(self) -> int:
        registry = await self.client.get(TenantRegistry, REGISTRY, namespace=NAMESPACE)
        return self.rows - registry.status.ready


def sample(name: str) -> dict[str, Any]:
    """A sample manifest, in the namespace of the bench."""
    manifest: dict[str, Any] = yaml.safe_load((SAMPLES / name).read_text())
    manifest["metadata"]["namespace"] = NAMESPACE
    return manifest


def manager_command(kubeconfig: Path) -> list[str]:
    """Run the tenancy system on the server of a kubeconfig, without ports."""
    command = ["-m", "manager", "run", "--system", "tenancy", "--kubeconfig", str(kubeconfig)]
    return [*command, "--metrics-bind-address", "0", "--health-probe-bind-address", "0"]


async def bench(rows: int, steady: float) -> TenancyFigures:
    """Start everything, run, stop everything."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name, MariaDB.start() as database:
        folder = Path(name)
        environment = Environment(
            "embedded-process", nodes=True, pods=False, proxy=True, folder=folder
        )
        async with environment:
            command = manager_command(environment.kubeconfig(MANAGER))
            manager = ManagerProcess(folder, command)
            try:
                return await TenancyBench(environment, manager, database, rows, steady).run()
            finally:
                await manager.stop()


@click.command()
@click.option("--rows", default=1000, help="Active rows.")
@click.option("--steady", default=120.0, help="Seconds to watch the fleet at rest.")
def main(rows: int, steady: float) -> None:
    """Count what a fleet costs the API server."""
    print_figures(uvloop.run(bench(rows, steady)))


if __name__ == "__main__":
    main()
