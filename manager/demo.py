"""`make run`: the whole system on one machine, with a live view of tenants converging."""

import asyncio
import signal
import sqlite3
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.live import Live
from rich.table import Table

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api.conditions import find_condition
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.envtest.process import ChildProcess
from manager.embedded import EmbeddedCluster

SAMPLES = Path(__file__).parent.parent / "config" / "samples"
NAMESPACE = "default"
REGISTRY = "my-saas-registry"
TABLE = "tenant_data"
TABLE_FILE = "tenants.sqlite"
PERIOD = 0.5
SHOWN = 12
"""Tenants listed in the live view; all are counted."""


async def run_demo(rows: int, folder: Path, *, exit_when_ready: bool = False) -> None:
    """Run until Ctrl-C, SIGTERM, or, if asked, until every tenant is ready."""
    console = Console()
    seed_table(folder / TABLE_FILE, rows)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    async with AsyncExitStack() as stack:
        console.print("starting API server and simulated nodes ...")
        cluster = await stack.enter_async_context(EmbeddedCluster(folder))
        client = Client.connect(await Config.load(cluster.kubeconfig("admin")))
        stack.push_async_callback(client.close)
        await apply_samples(client)
        manager = await start_manager(cluster, folder)
        stack.push_async_callback(manager.stop)
        explain(console, cluster.kubeconfig("admin"), folder)
        await watch(client, console, rows * 2, manager, stopping, exit_when_ready=exit_when_ready)
        console.print("stopping ...")


def seed_table(path: Path, rows: int) -> None:
    """Make the table afresh."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as table:
        table.execute(
            f"CREATE TABLE {TABLE} (tenant_id TEXT PRIMARY KEY, domain TEXT, is_active INTEGER, "
            "subscription_plan TEXT, container_image TEXT, replicas INTEGER)"
        )
        plans = ("basic", "pro", "enterprise")
        table.executemany(
            f"INSERT INTO {TABLE} VALUES (?, ?, 1, ?, 'registry.example.com/web:1.0', ?)",  # noqa: S608
            [
                (f"tenant-{i:02}", f"https://tenant-{i:02}.example.com", plans[i % 3], 1 + i % 3)
                for i in range(1, rows + 1)
            ],
        )
    table.close()


async def apply_samples(client: Client) -> None:
    """The registry, reading the seeded table, and two templates."""
    registry = sample("tenantregistry.yaml")
    registry["spec"]["source"] = {
        "type": "sqlite",
        "sqlite": {"path": TABLE_FILE, "table": TABLE},
        "syncInterval": "2s",
    }
    for manifest in (registry, sample("tenanttemplate.yaml"), sample("tenanttemplate-jobs.yaml")):
        await client.apply(manifest, field_manager="demo")


def sample(name: str) -> dict[str, Any]:
    """A sample manifest in the demo's namespace."""
    manifest: dict[str, Any] = yaml.safe_load((SAMPLES / name).read_text())
    manifest["metadata"]["namespace"] = NAMESPACE
    return manifest


async def start_manager(cluster: EmbeddedCluster, folder: Path) -> ChildProcess:
    """The manager as a process of its own."""
    command = [sys.executable, "-m", "manager", "run"]
    command += ["--kubeconfig", str(cluster.kubeconfig("manager"))]
    command += ["--allow-sqlite", str(folder), "--log-format", "console"]
    command += [
        "--metrics-bind-address",
        "127.0.0.1:0",
        "--health-probe-bind-address",
        "127.0.0.1:0",
    ]
    return await ChildProcess.start(command, log=folder / "manager.log", ready=False)


def explain(console: Console, kubeconfig: Path, folder: Path) -> None:
    """What to try."""
    table = folder / TABLE_FILE
    console.print(f"kubeconfig: {kubeconfig}", soft_wrap=True)
    console.print(f"logs:       {folder}/manager.log", soft_wrap=True)
    console.print("try, in another terminal:", style="bold")
    for command in (
        f"kubectl --kubeconfig {kubeconfig} get tenants",
        f"kubectl --kubeconfig {kubeconfig} describe tenant tenant-01-web-app",
        f"kubectl --kubeconfig {kubeconfig} delete deployment tenant-01-web   # comes back at once",
    ):
        console.print(f"  {command}", soft_wrap=True)
    console.print(
        f"the table is {table}: change a row, and only its tenants follow. Ctrl-C stops everything.",
        soft_wrap=True,
    )


async def watch(
    client: Client,
    console: Console,
    expected: int,
    manager: ChildProcess,
    stopping: asyncio.Event,
    *,
    exit_when_ready: bool,
) -> None:
    """Show the fleet until stopped. Raises SystemExit when the manager ends by itself."""
    with Live(console=console, refresh_per_second=4, transient=False) as live:
        while not stopping.is_set():
            if manager.returncode is not None:
                raise SystemExit(f"the manager ended:\n{manager.log_tail()}")
            registry = await client.get(TenantRegistry, REGISTRY, NAMESPACE)
            tenants = await client.list(Tenant, NAMESPACE)
            templates = await client.list(TenantTemplate, NAMESPACE)
            live.update(fleet(registry, templates, tenants))
            if exit_when_ready and registry.status.ready >= expected:
                return
            try:
                async with asyncio.timeout(PERIOD):
                    await stopping.wait()
            except TimeoutError:
                continue


def fleet(
    registry: TenantRegistry, templates: list[TenantTemplate], tenants: list[Tenant]
) -> Table:
    """The live view: counts, and the tenants that are not ready first."""
    status = registry.status
    title = f"{status.ready} of {status.desired} tenants ready, {status.failed} failed"
    caption = ", ".join(
        f"{item.metadata.name}: {item.status.ready_tenants}/{item.status.total_tenants}"
        for item in templates
    )
    table = Table(title=title, caption=caption)
    for column in ("tenant", "ready", "resources", "what it says"):
        table.add_column(column, no_wrap=True)
    rows = sorted((is_ready(tenant), tenant.metadata.name or "", tenant) for tenant in tenants)
    for ready, name, tenant in rows[:SHOWN]:
        condition = find_condition(tenant.status.conditions, "Ready")
        message = "" if condition is None else condition.message
        counts = f"{tenant.status.ready_resources}/{tenant.status.desired_resources}"
        mark = "[green]yes[/]" if ready else "[yellow]not yet[/]"
        table.add_row(name, mark, counts, message[:70])
    if len(rows) > SHOWN:
        table.add_row(f"... and {len(rows) - SHOWN} more", "", "", "")
    return table


def is_ready(tenant: Tenant) -> bool:
    """Whether the tenant says that it is."""
    condition = find_condition(tenant.status.conditions, "Ready")
    return condition is not None and condition.status == "True"
