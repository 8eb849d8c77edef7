"""`make run`: the whole system on one machine, with a live view of tenants converging."""

import asyncio
import fcntl
import os
import shlex
import shutil
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.live import Live
from rich.table import Table

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api.conditions import find_condition
from ctrlruntime.client import Client, Config
from ctrlruntime.clock import monotonic
from ctrlruntime.envtest.backends.ports import free_port
from ctrlruntime.envtest.process import ChildProcess
from manager.demo.embedded import EmbeddedCluster

SAMPLES = Path(__file__).parents[2] / "config" / "samples"
NAMESPACE = "default"
REGISTRY = "my-saas-registry"
TABLE = "tenant_data"
TABLE_FILE = "tenants.sqlite"
CONSOLE_FILE = "console.url"
"""Has the address of the console."""
PERIOD = 0.5
TEMPLATES = 2
SHOWN = 12
"""Tenants listed in the live view; all are counted."""


class FolderInUse(Exception):
    """Another demo runs in the folder."""


async def run_demo(rows: int, folder: Path, *, exit_when_ready: bool = False) -> None:
    """Run until Ctrl-C, SIGTERM, or, if asked, until every tenant is ready. `folder` is absolute.

    Raises FolderInUse, and SystemExit when the manager ends by itself.
    """
    console = Console()
    with taken(folder), interruptible() as interrupted:
        try:
            await _run(console, rows, folder, exit_when_ready=exit_when_ready)
        except asyncio.CancelledError:
            if not interrupted():
                raise
    console.print("everything is stopped.")


async def _run(console: Console, rows: int, folder: Path, *, exit_when_ready: bool) -> None:
    seed_table(folder / TABLE_FILE, rows)
    async with AsyncExitStack() as stack:
        console.print("starting an API server (in memory) and simulated nodes ...")
        cluster = await stack.enter_async_context(EmbeddedCluster(folder))
        client = Client.connect(await Config.load(cluster.kubeconfig("admin")))
        stack.push_async_callback(client.close)
        await apply_samples(client)
        port = free_port()
        (folder / CONSOLE_FILE).write_text(f"{console_address(port)}\n")
        manager = await start_manager(cluster, folder, port)
        stack.push_async_callback(manager.stop)
        stack.callback(console.print, "stopping ...")
        explain(console, cluster.kubeconfig("admin"), folder, port)
        view = View(console, client, manager, rows * TEMPLATES)
        await view.show(exit_when_ready=exit_when_ready)


@contextmanager
def taken(folder: Path) -> Iterator[None]:
    """Hold the folder, which gets fresh logs. Raises FolderInUse while another demo has it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderInUse(
                f"another demo runs in {folder}; stop it, or name another folder with --folder"
            ) from None
        for log in folder.glob("*.log"):
            log.unlink()
        yield


@contextmanager
def interruptible() -> Iterator[Any]:
    """Yield the first SIGINT or SIGTERM cancels the running task, wherever it is; the second ends the process, and the kernel its children.

    Yields a function that returns whether there was one.
    """
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    seen = 0

    def on_signal() -> None:
        nonlocal seen
        seen += 1
        if seen > 1:
            os._exit(1)
        if task is not None:
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    try:
        yield lambda: seen > 0
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def seed_table(path: Path, rows: int, *, prefix: str = "") -> None:
    """Make the table afresh; `prefix` is that of all ids."""
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
                (
                    f"{prefix}tenant-{i:02}",
                    f"https://{prefix}tenant-{i:02}.example.com",
                    plans[i % 3],
                    1 + i % 3,
                )
                for i in range(1, rows + 1)
            ],
        )
    table.close()


async def apply_samples(client: Client) -> None:
    """Return the registry, reading the seeded table, and two templates."""
    registry = sample("tenantregistry.yaml")
    registry["spec"]["source"] = {
        "type": "sqlite",
        "sqlite": {"path": TABLE_FILE, "table": TABLE},
        "syncInterval": "2s",
    }
    for manifest in (registry, sample("tenanttemplate.yaml"), sample("tenanttemplate-jobs.yaml")):
        await client.apply(manifest, field_manager="demo")


def sample(name: str) -> dict[str, Any]:
    """Return a sample manifest in the demo's namespace."""
    manifest: dict[str, Any] = yaml.safe_load((SAMPLES / name).read_text())
    manifest["metadata"]["namespace"] = NAMESPACE
    return manifest


def manager_command(kubeconfig: Path, folder: Path, console: int) -> list[str]:
    """Return the command of the demo's manager: its tenants may write to the namespaces that they make, as a sample does.

    `console`: the port of its console.
    """
    return [
        *(sys.executable, "-m", "manager", "run"),
        *("--kubeconfig", str(kubeconfig)),
        *("--allow-sqlite", str(folder)),
        *("--log-format", "console"),
        *("--runs-folder", str(folder / "runs")),
        *("--allow-foreign-namespaces", "own"),
        *("--console-bind-address", f"127.0.0.1:{console}"),
        *("--metrics-bind-address", "127.0.0.1:0"),
        *("--health-probe-bind-address", "127.0.0.1:0"),
    ]


async def start_manager(cluster: EmbeddedCluster, folder: Path, console: int) -> ChildProcess:
    """Return the manager as a process of its own, with its console on a port."""
    command = manager_command(cluster.kubeconfig("manager"), folder, console)
    return await ChildProcess.start(command, log=folder / "manager.log", ready=False)


def console_address(port: int) -> str:
    """Return the address of the console on a port."""
    return f"http://127.0.0.1:{port}/"


LAST_COMMAND = "kubectl config view --raw -o jsonpath='{.users[0].user.token}'"
"""Prints the token of the demo's user."""


def explain(console: Console, kubeconfig: Path, folder: Path, port: int) -> None:
    """Print what to try. `port`: the console's."""
    for line in (
        f"console:    {console_address(port)} (sign in with the token that the last command below prints)",
        f"kubeconfig: {kubeconfig}",
        f"table:      {folder / TABLE_FILE} (change a row, and only its tenants follow)",
        f"log:        {folder / 'manager.log'}",
        "Ctrl-C stops everything. Until then try, in another terminal:",
        f"  export KUBECONFIG={shlex.quote(str(kubeconfig))}",
        "  kubectl get tenants",
        "  kubectl describe tenant tenant-01-web-app",
        "  kubectl delete deployment tenant-01-web    # it comes back at once",
        f"  {LAST_COMMAND}",
    ):
        console.print(line, soft_wrap=True, markup=False, highlight=False)
    if shutil.which("kubectl") is None:
        console.print("There is no kubectl here; on Debian, hack/kubectl.sh 1.32 fetches one.")


@dataclass(slots=True)
class View:
    """The fleet as it converges: a live table on a terminal, one line for each step elsewhere."""

    console: Console
    client: Client
    manager: ChildProcess
    expected: int
    """Tenants that there will be."""
    started: float = field(default_factory=monotonic)
    _converged: bool = False
    _told: str = ""

    async def show(self, *, exit_when_ready: bool) -> None:
        """Until cancelled or, if asked, all are ready. SystemExit when the manager ends by itself."""
        live = Live(console=self.console, refresh_per_second=4)
        with live if self.console.is_terminal else nullcontext() as shown:
            while True:
                ready = await self._step(shown)
                if ready and exit_when_ready:
                    return
                await asyncio.sleep(PERIOD)

    async def _step(self, live: Live | None) -> bool:
        """Look once and tell. Returns whether all tenants are ready."""
        if self.manager.returncode is not None:
            raise SystemExit(f"the manager ended:\n{self.manager.log_tail()}")
        registry = await self.client.get(TenantRegistry, REGISTRY, namespace=NAMESPACE)
        if live is not None:
            tenants = await self.client.list(Tenant, NAMESPACE)
            templates = await self.client.list(TenantTemplate, NAMESPACE)
            live.update(fleet(registry, templates, tenants))
        else:
            self._print(counts(registry))
        ready = registry.status.ready >= self.expected
        if ready and not self._converged:
            self._converged = True
            seconds = monotonic() - self.started
            self._print(f"all {self.expected} tenants are ready, {seconds:.0f} s after the start")
        return ready

    def _print(self, line: str) -> None:
        if line != self._told:
            self._told = line
            self.console.print(line, highlight=False)


def counts(registry: TenantRegistry) -> str:
    """One line on all tenants."""
    status = registry.status
    return f"{status.ready} of {status.desired} tenants ready, {status.failed} failed"


def fleet(
    registry: TenantRegistry, templates: list[TenantTemplate], tenants: list[Tenant]
) -> Table:
    """Return the live view: counts, and the tenants that are not ready first."""
    caption = ", ".join(
        f"{item.metadata.name}: {item.status.ready_tenants}/{item.status.total_tenants}"
        for item in templates
    )
    table = Table(title=counts(registry), caption=caption)
    for column in ("tenant", "ready", "resources", "what it says"):
        table.add_column(column, no_wrap=True)
    rows = sorted((is_ready(tenant), tenant.metadata.name or "", tenant) for tenant in tenants)
    for ready, name, tenant in rows[:SHOWN]:
        condition = find_condition(tenant.status.conditions, "Ready")
        message = "" if condition is None else condition.message
        share = f"{tenant.status.ready_resources}/{tenant.status.desired_resources}"
        mark = "[green]yes[/]" if ready else "[yellow]not yet[/]"
        table.add_row(name, mark, share, message[:70])
    if len(rows) > SHOWN:
        table.add_row(f"... and {len(rows) - SHOWN} more", "", "", "")
    return table


def is_ready(tenant: Tenant) -> bool:
    """Whether the tenant reports that it is."""
    condition = find_condition(tenant.status.conditions, "Ready")
    return condition is not None and condition.status == "True"
