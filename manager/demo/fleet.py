"""`make run PLANES=2`: scale mode on one machine: a hub, the operator, data planes without containers, and their stacks."""

from __future__ import annotations

import asyncio
import base64
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from apis.fleet import FleetConfig
from apis.fleet.labels import (
    DATA_PLANE,
    KUBECONFIG_KEY,
    KUBECONFIG_SECRET,
    PARALLEL_PREFIX,
    PLANE_NAMESPACE,
)
from apis.tenancy import TenantRegistry
from ctrlruntime.api.conditions import find_condition
from ctrlruntime.client import Client, Config
from ctrlruntime.clock import monotonic
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.process import ChildProcess
from manager.demo.embedded import EmbeddedCluster
from manager.demo.tenants import (
    PERIOD,
    REGISTRY,
    TABLE,
    counts,
    interruptible,
    sample,
    seed_table,
    taken,
)
from manager.kinds import PLANE_KINDS

ROLES = ("controllers", "workers")
"""Of each stack; the demo's data planes have no webhooks."""


@dataclass(slots=True)
class DemoPlane:
    """A data plane, and the processes of its stack."""

    name: str
    """Of its target namespace, and of the namespace that its Tenants are in, with `tenants-` before it."""
    environment: Environment
    client: Client
    processes: list[ChildProcess] = field(default_factory=list)

    @property
    def namespace(self) -> str:
        """The namespace of its Tenants, on the data plane and on the hub."""
        return f"tenants-{self.name}"


async def run_fleet_demo(
    planes: int, rows: int, folder: Path, *, exit_when_ready: bool = False
) -> None:
    """Run until Ctrl-C, SIGTERM, or, if asked, until every tenant is ready. `folder` is absolute.

    Raises FolderInUse, and SystemExit when a process ends by itself.
    """
    console = Console()
    with taken(folder), interruptible() as interrupted:
        try:
            async with AsyncExitStack() as stack:
                demo = await _started(stack, console, planes, rows, folder)
                await demo.show(exit_when_ready=exit_when_ready)
        except asyncio.CancelledError:
            if not interrupted():
                raise
    console.print("everything is stopped.")


async def _started(
    stack: AsyncExitStack, console: Console, planes: int, rows: int, folder: Path
) -> FleetDemo:
    console.print("starting the hub's API server (in memory) and simulated nodes ...")
    cluster = await stack.enter_async_context(EmbeddedCluster(folder))
    hub = Client.connect(await Config.load(cluster.kubeconfig("admin")))
    stack.push_async_callback(hub.close)
    kubeconfig = cluster.kubeconfig("manager")
    await hub.apply(sample_config(), field_manager="demo")
    arguments = ["operator", "--stack-image=demo", "--kubeconfig", str(kubeconfig)]
    demo = FleetDemo(console, hub, rows)
    demo.processes.append(await _process(stack, folder / "operator.log", arguments))
    console.print(f"starting {planes} data planes, each with a table of {rows} rows ...")
    for number in range(planes):
        name = f"plane-{number}"
        plane = await _plane(stack, folder / name, name)
        demo.planes.append(plane)
        await _fill(plane, folder, rows)
        await _announce(hub, plane)
        for role in ROLES:
            log = folder / f"{name}-{role}.log"
            arguments = stack_arguments(role, name, kubeconfig, plane, folder)
            demo.processes.append(await _process(stack, log, arguments))
    stack.callback(console.print, "stopping ...")
    _explain(console, cluster.kubeconfig("admin"), demo.planes, folder)
    return demo


async def _process(stack: AsyncExitStack, log: Path, arguments: list[str]) -> ChildProcess:
    """Start the manager's program as a process of its own."""
    quiet = ["--metrics-bind-address=0", "--health-probe-bind-address=0", "--log-format=console"]
    command = [sys.executable, "-m", "manager", *arguments, *quiet]
    process = await ChildProcess.start(command, log=log, ready=False)
    stack.push_async_callback(process.stop)
    return process


def stack_arguments(role: str, target: str, hub: Path, plane: DemoPlane, folder: Path) -> list[str]:
    """Return the arguments of one process of a stack: the simulated nodes of the hub run no containers."""
    return [
        *("run", f"--role={role}", f"--target-namespace={target}"),
        *("--kubeconfig", str(hub)),
        *("--data-plane-kubeconfig", str(plane.environment.kubeconfig("manager"))),
        *("--allow-sqlite", str(folder)),
    ]


async def _plane(stack: AsyncExitStack, folder: Path, name: str) -> DemoPlane:
    environment = Environment("embedded-process", folder=folder)
    await stack.enter_async_context(environment)
    await environment.install_crds(*PLANE_KINDS)
    return DemoPlane(name, environment, environment.client("admin"))


async def _fill(plane: DemoPlane, folder: Path, rows: int) -> None:
    """Create what a data plane's owner creates: the namespaces, a registry that reads a table, and a template."""
    table = f"{plane.name}.sqlite"
    seed_table(folder / table, rows, prefix=f"{plane.name}-")
    for name in (PLANE_NAMESPACE, plane.namespace):
        await plane.client.create(namespace(name))
    registry = sample("tenantregistry.yaml")
    registry["spec"]["source"] = {
        "type": "sqlite",
        "sqlite": {"path": table, "table": TABLE},
        "syncInterval": "2s",
    }
    for manifest in (registry, sample("tenanttemplate.yaml")):
        manifest["metadata"]["namespace"] = plane.namespace
        await plane.client.apply(manifest, field_manager="demo")


async def _announce(hub: Client, plane: DemoPlane) -> None:
    """Do on the hub what docs/fleet.md describes for a data plane."""
    await hub.create(namespace(plane.name))
    content = plane.environment.kubeconfig("manager").read_bytes()
    await hub.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": KUBECONFIG_SECRET, "namespace": plane.name},
            "data": {KUBECONFIG_KEY: base64.b64encode(content).decode()},
        }
    )
    await hub.create(namespace(plane.namespace, **{f"{PARALLEL_PREFIX}{plane.name}": "true"}))
    await hub.apply(namespace(plane.name, **{DATA_PLANE: "true"}), field_manager="demo")


def namespace(name: str, **labels: str) -> dict[str, Any]:
    """Return a Namespace."""
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def sample_config() -> dict[str, Any]:
    """Return the sample FleetConfig, which is in no namespace."""
    config = sample("fleetconfig.yaml")
    del config["metadata"]["namespace"]
    return config


def _explain(console: Console, hub: Path, planes: list[DemoPlane], folder: Path) -> None:
    first = planes[0]
    for line in (
        f"logs: {folder}/*.log",
        "Ctrl-C stops everything. Until then try, in another terminal:",
        f"  export HUB={hub} PLANE={first.environment.kubeconfig('admin')}",
        "  .venv/bin/python -m manager fleet top --kubeconfig $HUB",
        f"  kubectl --kubeconfig $PLANE -n {first.namespace} get tenants,configmaps",
        f"  kubectl --kubeconfig $HUB -n {first.namespace} get deployments",
        "  kubectl --kubeconfig $HUB get fleetconfig fleet -o yaml",
    ):
        console.print(line, soft_wrap=True, markup=False, highlight=False)


@dataclass(slots=True)
class FleetDemo:
    """All of it as it converges: one line for each step."""

    console: Console
    hub: Client
    rows: int
    planes: list[DemoPlane] = field(default_factory=list)
    processes: list[ChildProcess] = field(default_factory=list)
    started: float = field(default_factory=monotonic)
    _shown: dict[str, str] = field(default_factory=dict)

    async def show(self, *, exit_when_ready: bool) -> None:
        """Report until cancelled or, if asked, until all is ready. SystemExit when a process ends by itself."""
        converged = False
        while True:
            ready = await self._step()
            if ready and not converged:
                seconds = monotonic() - self.started
                self._print("all", f"everything is ready, {seconds:.0f} s after the start")
                converged = True
            if converged and exit_when_ready:
                return
            await asyncio.sleep(PERIOD)

    async def _step(self) -> bool:
        for process in self.processes:
            if process.returncode is not None:
                raise SystemExit(f"a process ended:\n{process.log_tail()}")
        ready = True
        for plane in self.planes:
            registry = await plane.client.get(TenantRegistry, REGISTRY, namespace=plane.namespace)
            self._print(plane.name, f"{plane.name}: {counts(registry)}")
            ready &= registry.status.ready >= self.rows
        return await self._is_fleet_ready() and ready

    async def _is_fleet_ready(self) -> bool:
        config = await self.hub.get(FleetConfig, "fleet")
        found = find_condition(config.status.conditions, "Ready")
        if found is None:
            return False
        entries = config.status.target_namespaces
        stacks = ", ".join(f"{each.name} {each.reason}" for each in entries)
        self._print("stacks", f"stacks: {stacks}")
        listed = len(entries) == len(self.planes)
        return found.status == "True" and listed

    def _print(self, what: str, line: str) -> None:
        if self._shown.get(what) != line:
            self._shown[what] = line
            self.console.print(line, highlight=False)
