"""`manager run`: with an embedded server, and as one of two."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.kubeconfig import ConfigError
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.eventually import eventually
from manager.options import LEADER_ELECTION_ID
from tests.manager_cli.program import Program

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("demo")]

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
LEASE = GroupVersionKind("coordination.k8s.io", "v1", "Lease")
READY = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
QUIET = ("--metrics-bind-address", "0", "--health-probe-bind-address", "0")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A folder with a table of one row."""
    with sqlite3.connect(tmp_path / "rows.sqlite") as table:
        table.execute("CREATE TABLE tenant (id, active, plan)")
        table.execute("INSERT INTO tenant VALUES ('acme', 1, 'gold')")
    table.close()
    return tmp_path


async def create_fleet(client: Client) -> None:
    """A registry of that table, and a template with one ConfigMap."""
    for text in (REGISTRY, TEMPLATE):
        await client.create(yaml.safe_load(text))


REGISTRY = """
apiVersion: tenancy.ctrlruntime.dev/v1
kind: TenantRegistry
metadata: {name: rows, namespace: default}
spec:
  source: {type: sqlite, syncInterval: 1h, sqlite: {path: rows.sqlite, table: tenant}}
  valueMappings: {uid: id, activate: active}
  extraValueMappings: {plan: plan}
"""
TEMPLATE = """
apiVersion: tenancy.ctrlruntime.dev/v1
kind: TenantTemplate
metadata: {name: settings, namespace: default}
spec:
  registryId: rows
  configMaps:
    - id: settings
      nameTemplate: "{{ uid }}-settings"
      spec: {apiVersion: v1, kind: ConfigMap, data: {plan: "{{ plan }}"}}
"""


@pytest.mark.criterion("A1")
async def test_embedded_brings_its_own_server(rows: Path) -> None:
    async with await Program.start("run", "--embedded", "--allow-sqlite", rows, *QUIET) as program:
        line = await program.prints("Embedded API server")
        kubeconfig = orjson.loads(line)["kubeconfig"]
        async with Client.connect(await Config.load(kubeconfig)) as client:
            await create_fleet(client)
            await eventually(
                client, Tenant, "acme-settings", READY, namespace="default", timeout=60
            )
            made: Any = await client.get(CONFIG_MAP, "acme-settings", namespace="default")
            assert made["data"] == {"plan": "gold"}
        program.send(signal.SIGTERM)
        assert await program.wait() == 0, program.output
        assert await program.left() == []
    with pytest.raises(ConfigError):  # its folder went with it
        await Config.load(kubeconfig)


@pytest.fixture
async def env() -> AsyncIterator[Environment]:
    async with Environment("embedded-process", users=["admin", "first", "second"]) as environment:
        await environment.install_crds(TenantRegistry, TenantTemplate, Tenant)
        yield environment


async def candidate(env: Environment, user: str, rows: Path) -> Program:
    """A manager that stands for election."""
    election = ("--leader-elect", "--leader-election-namespace", "default")
    kubeconfig = ("--kubeconfig", env.kubeconfig(user))
    return await Program.start(
        "run", "--system", "tenancy", *kubeconfig, *election, "--allow-sqlite", rows, *QUIET
    )


async def holders_after(client: Client, lease: dict[str, Any]) -> list[str]:
    """Who holds the lease after this state of it, in order, up to the next candidate."""
    found, metadata = [], lease["metadata"]
    events = client.watch(LEASE, "default", resource_version=metadata["resourceVersion"])
    async with aclosing(events):
        async for _, changed in events:
            found.append(str(changed["spec"].get("holderIdentity") or ""))
            if found[-1] not in ("", lease["spec"]["holderIdentity"]):
                return found
    raise AssertionError(f"the watch ended after {found}")


async def test_of_two_managers_one_works_and_the_other_takes_over_quickly(
    env: Environment, rows: Path
) -> None:
    admin = env.client("admin")
    async with await candidate(env, "first", rows) as first:
        await first.prints("Became leader")
        async with await candidate(env, "second", rows) as second:
            await second.prints("New leader")
            await create_fleet(admin)
            await eventually(admin, Tenant, "acme-settings", READY, namespace="default", timeout=60)
            assert "Starting workers" in first.output
            assert "Starting workers" not in second.output

            lease: Any = await admin.get(LEASE, LEADER_ELECTION_ID, namespace="default")
            handed_over = asyncio.create_task(holders_after(admin, lease))
            first.send(signal.SIGTERM)
            assert await first.wait() == 0, first.output
            await second.prints("Became leader")
            assert "" in await handed_over, "the lease expired instead of being given back"
            await admin.delete(CONFIG_MAP, "acme-settings", namespace="default")
            await eventually(admin, CONFIG_MAP, "acme-settings", namespace="default", timeout=60)

            second.send(signal.SIGTERM)
            assert await second.wait() == 0, second.output
    lease = await admin.get(LEASE, LEADER_ELECTION_ID, namespace="default")
    assert not lease["spec"].get("holderIdentity"), "given back"
