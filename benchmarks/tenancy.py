"""`make bench-tenancy ROWS=n`: what n tenants of five resources cost the API server.

Database, API server, simulated nodes and manager are processes of their own; the proxy's request
log counts what the manager's user asks, without Leases, Events included. The last line is one JSON
object.
"""

import asyncio
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
import orjson
import uvloop
import yaml

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.envtest.proxy import Counts
from tests.mariadb import MariaDB

SAMPLES = Path(__file__).parent.parent / "config" / "samples"
NAMESPACE = "default"
REGISTRY = "my-saas-registry"
DATABASE = "tenants"
TABLE = "tenant_data"
CONFIG_MAP = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]
SETTLE_SECONDS = 10.0
"""Rest starts so long after the last tenant is ready."""


@dataclass(slots=True)
class Figures:
    """What the last line says."""

    rows: int = 0
    resources: int = 0
    seconds: float = 0.0
    writes: int = 0
    reads: int = 0
    steady_seconds: float = 0.0
    steady_requests: int = 0
    restart_writes: int = 0
    restart_reads: int = 0
    one_row_writes: int = 0
    rss_mib: float = 0.0


@dataclass(slots=True)
class Bench:
    """One run."""

    environment: Environment
    database: MariaDB
    folder: Path
    rows: int
    steady_seconds: float
    figures: Figures = field(default_factory=Figures)
    manager: ChildProcess | None = None

    async def run(self) -> Figures:
        """All phases in turn."""
        self.figures.rows = self.rows
        await self._prepare()
        say(f"{self.rows} rows; starting the manager")
        started = time.monotonic()
        mark = self._counts()
        await self._start_manager()
        await self._until_ready()
        self.figures.seconds = round(time.monotonic() - started, 1)
        counts = self._counts() - mark
        self.figures.writes, self.figures.reads = counts.writes, counts.reads
        self.figures.resources = self.rows * 5
        say(f"all ready after {self.figures.seconds} s\n{counts}")
        await self._rest()
        await self._restart()
        await self._change_one_row()
        self.figures.rss_mib = round(resident_mib(self.manager), 1)
        await self._stop_manager()
        return self.figures

    # -- phases ----------------------------------------------------------------------------

    async def _prepare(self) -> None:
        await self.environment.install_crds(TenantRegistry, TenantTemplate, Tenant)
        self._fill_table()
        client = self._client
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

    async def _rest(self) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        mark = self._counts()
        await asyncio.sleep(self.steady_seconds)
        counts = self._counts() - mark
        self.figures.steady_seconds = self.steady_seconds
        self.figures.steady_requests = counts.total - counts.watches
        say(f"at rest for {self.steady_seconds:g} s:\n{counts}")

    async def _restart(self) -> None:
        await self._stop_manager()
        mark = self._counts()
        await self._start_manager()
        await asyncio.sleep(SETTLE_SECONDS + self.rows / 200)
        counts = self._counts() - mark
        self.figures.restart_writes, self.figures.restart_reads = counts.writes, counts.reads
        say(f"after a restart:\n{counts}")

    async def _change_one_row(self) -> None:
        mark = self.environment.proxy.log.mark()
        before = self._counts()
        self.database.execute(
            f"UPDATE {TABLE} SET subscription_plan = 'gold' WHERE tenant_id = 't000000'",
            database=DATABASE,
        )
        async with asyncio.timeout(60):
            while True:
                await asyncio.sleep(0.5)
                found = await self._client.get(CONFIG_MAP, "t000000-settings", namespace=NAMESPACE)
                if found["data"]["plan"] == "gold":
                    break
        await asyncio.sleep(SETTLE_SECONDS)
        counts = self._counts() - before
        self.figures.one_row_writes = counts.writes
        say(f"after one row changed:\n{counts}")
        strangers = {
            entry.name
            for entry in self.environment.proxy.log.entries(mark)
            if entry.user == "manager"
            and entry.name
            and not entry.name.startswith("t000000")
            and entry.name not in {REGISTRY, "web-app"}
        }
        if strangers:
            raise SystemExit(f"objects of other tenants were written: {sorted(strangers)[:10]}")

    # -- the manager ---------------------------------------------------------------------------

    async def _start_manager(self) -> None:
        kubeconfig = self.environment.kubeconfig("manager")
        command = [sys.executable, "-m", "manager", "run", "--kubeconfig", str(kubeconfig)]
        command += ["--metrics-bind-address", "0", "--health-probe-bind-address", "0"]
        command += ["--system", "tenancy"]
        self.manager = await ChildProcess.start(
            command, log=self.folder / "manager.log", ready=False
        )

    async def _stop_manager(self) -> None:
        if self.manager is not None:
            await self.manager.stop()

    async def _until_ready(self) -> None:
        async with asyncio.timeout(120 + self.rows * 0.2):
            while True:
                await asyncio.sleep(0.5)
                if self.manager is not None and self.manager.returncode is not None:
                    raise SystemExit(f"the manager ended:\n{self.manager.log_tail()}")
                registry = await self._client.get(TenantRegistry, REGISTRY, namespace=NAMESPACE)
                if registry.status.ready == self.rows:
                    return

    # -- what is looked at -----------------------------------------------------------------------

    @property
    def _client(self) -> Client:
        return self.environment.client("envtest")

    def _counts(self) -> Counts:
        return self.environment.proxy.log.counts().select(user="manager").without_leases()


def sample(name: str) -> dict[str, Any]:
    """A sample manifest, in the namespace of the bench."""
    manifest: dict[str, Any] = yaml.safe_load((SAMPLES / name).read_text())
    manifest["metadata"]["namespace"] = NAMESPACE
    return manifest


def resident_mib(process: ChildProcess | None) -> float:
    """Resident memory of a process."""
    if process is None:
        return 0.0
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def say(text: str) -> None:
    """Progress, for people."""
    click.echo(text, err=True)


async def bench(rows: int, steady: float) -> Figures:
    """Start everything, run, stop everything."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name, MariaDB.start() as database:
        folder = Path(name)
        environment = Environment(
            "embedded-process", nodes=True, pods=False, proxy=True, folder=folder
        )
        async with environment:
            run = Bench(environment, database, folder, rows, steady)
            try:
                return await run.run()
            finally:
                await run._stop_manager()


@click.command()
@click.option("--rows", default=1000, help="Active rows.")
@click.option("--steady", default=120.0, help="Seconds to watch the fleet at rest.")
def main(rows: int, steady: float) -> None:
    """Count what a fleet costs the API server."""
    figures = uvloop.run(bench(rows, steady))
    click.echo(orjson.dumps(asdict(figures)).decode())


if __name__ == "__main__":
    main()
