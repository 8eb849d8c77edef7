"""A registry of sample tenants, and the table that its rows come from."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from apis.operations import ChangeFreeze
from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from benchmarks.frame import MANAGER, NAMESPACE, Fleet
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.envtest import Environment
from tests.mariadb import MariaDB

SAMPLES = Path(__file__).resolve().parents[2] / "config" / "samples"
REGISTRY = "my-saas-registry"
DATABASE = "tenants"
TABLE = "tenant_data"
CONFIG_MAP = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]


@dataclass(slots=True)
class TenantFleet(Fleet):
    """A server, a database and a manager of the tenancy system."""

    database: MariaDB
    rows: int

    async def prepare(self) -> None:
        """Install the kinds, fill the table, create registry and template."""
        await self.environment.install_crds(TenantRegistry, TenantTemplate, Tenant, ChangeFreeze)
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

    async def converge(self) -> None:
        """Start the manager and wait until every tenant is ready."""
        await self.manager.start()
        await self.wait_until_done(self._missing_tenants, limit=120 + self.rows * 0.2, every=0.5)

    def set_plan(self, plan: str) -> None:
        """Change the first row."""
        self.database.execute(
            f"UPDATE {TABLE} SET subscription_plan = '{plan}' WHERE tenant_id = 't000000'",
            database=DATABASE,
        )

    async def has_plan(self, plan: str, limit: float) -> None:
        """Wait until an object of the first row's tenant shows the change."""
        async with asyncio.timeout(limit):
            while True:
                await asyncio.sleep(0.25)
                found = await self.client.get(CONFIG_MAP, "t000000-settings", namespace=NAMESPACE)
                if found["data"]["plan"] == plan:
                    return

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


@asynccontextmanager
async def environment(backend: str, folder: Path) -> AsyncIterator[Environment]:
    """A server of that backend behind a proxy, with simulated nodes, in processes of their own."""
    name = "embedded-process" if backend == "embedded" else backend
    async with Environment(
        name, nodes=True, pods=False, proxy=True, folder=folder, users=("admin", MANAGER)
    ) as made:
        yield made
