"""The processes of the benchmark: a hub, data planes, and the stack of each."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

from apis.fleet.labels import DATA_PLANE, PLANE_NAMESPACE
from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from benchmarks.frame import MANAGER, ManagerProcess
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.backends.ports import free_port
from ctrlruntime.envtest.proxy import Counts

NAMESPACE = BUILTIN[GroupVersionKind("", "v1", "Namespace")]
DEPLOYMENT = BUILTIN[GroupVersionKind("apps", "v1", "Deployment")]
WATCH_HISTORY = 512
"""MiB of changes that each server keeps for watches."""
ROLES = ("controllers", "workers")
BUSY = 0.1
"""Share of a core below which a stack that requests nothing counts as idle."""


@dataclass(slots=True)
class Stack:
    """One data plane and the processes of its stack."""

    name: str
    namespace: str
    plane: Environment
    id: str
    processes: dict[str, ManagerProcess] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)

    def prepare(self, hub: Environment) -> None:
        """Set up the commands."""
        for role in ROLES:
            port = self.ports[role] = free_port()
            folder = self.plane.folder / role
            folder.mkdir(exist_ok=True)
            command = ["-m", "manager", "run", f"--role={role}"]
            command += ["--kubeconfig", str(hub.kubeconfig(MANAGER))]
            command += ["--data-plane-kubeconfig", str(self.plane.kubeconfig(MANAGER))]
            command += [f"--target-namespace={self.name}"]
            command += [f"--metrics-bind-address=127.0.0.1:{port}"]
            command += ["--health-probe-bind-address=0"]
            self.processes[role] = ManagerProcess(folder, command)

    async def start(self) -> None:
        """Start all processes."""
        for each in self.processes.values():
            await each.start()

    async def stop(self) -> None:
        """Stop all processes."""
        await asyncio.gather(*(each.stop() for each in self.processes.values()))

    async def hub_objects(self) -> int:
        """Return how many objects of the hub the workers have in their cache; -1: they have not looked yet."""
        url = f"http://127.0.0.1:{self.ports['workers']}/metrics"
        text = await asyncio.to_thread(lambda: urlopen(url, timeout=30).read().decode())
        held = re.search(r"^fleet_orphans_held (\S+)", text, re.MULTILINE)
        found = re.search(r"^fleet_data_plane_objects (\S+)", text, re.MULTILINE)
        return int(float(found[1])) if found and held else -1


@dataclass(slots=True)
class Stacks:
    """All servers and stacks."""

    hub: Environment
    stacks: list[Stack]

    def counts(self) -> Counts:
        """Return all requests of the stacks so far, without Leases."""
        return total(each.proxy.log.counts() for each in self.environments())

    def plane_counts(self) -> Counts:
        """Return those to data planes."""
        return total(each.plane.proxy.log.counts() for each in self.stacks)

    def environments(self) -> list[Environment]:
        """Return the hub and the data planes."""
        return [self.hub, *(each.plane for each in self.stacks)]

    def processes(self) -> list[ManagerProcess]:
        """Return the processes of all stacks."""
        return [process for each in self.stacks for process in each.processes.values()]

    def cpu_seconds(self) -> float:
        """Return the processor time of all running processes."""
        return sum(each.cpu_seconds() for each in self.processes())

    def resident_mib(self, *roles: str) -> float:
        """Return the resident memory of the processes of these roles; of all, if none is named."""
        chosen = roles or ROLES
        return sum(each.processes[role].resident_mib() for each in self.stacks for role in chosen)

    async def start(self) -> None:
        """Start all stacks."""
        for each in self.stacks:
            await each.start()

    async def stop(self) -> None:
        """Stop all stacks."""
        await asyncio.gather(*(each.stop() for each in self.stacks))

    async def wait_until_idle(self, limit: float, seconds: float = 4.0) -> None:
        """Wait until the stacks have requested nothing and used hardly any processor time for so long.

        Watches do not count: those of many stacks are opened anew all the time.
        """
        end = time.monotonic() + limit
        while True:
            before, cpu = self.counts(), self.cpu_seconds()
            await asyncio.sleep(seconds)
            for each in self.processes():
                each.check()
            used = (self.cpu_seconds() - cpu) / seconds
            made = self.counts() - before
            if made.total == made.watches and used < BUSY * len(self.processes()):
                return
            if time.monotonic() > end:
                raise SystemExit(f"not idle after {limit:g} s:\n{self.counts() - before}")

    async def hub_objects(self) -> int:
        """Return how many objects the hub has of all data planes."""
        count = 0
        for kind in (DEPLOYMENT, *FOLLOWED):
            count += len(
                await self.hub.client("envtest").list(kind, labels=DATA_PLANE, metadata_only=True)
            )
        return count


FOLLOWED = tuple(
    BUILTIN[GroupVersionKind("", "v1", kind)] for kind in ("ConfigMap", "Secret", "Service")
)


def total(counts: Iterable[Counts]) -> Counts:
    """Return the sum of the stacks' requests, without Leases."""
    rows = [row for each in counts for row in each.select(user=MANAGER).without_leases()]
    found: dict[tuple[str, str, str, int], int] = {}
    for row in rows:
        key = row.user, row.verb, row.resource, row.code
        found[key] = found.get(key, 0) + row.count
    return Counts.of([type(rows[0])(*key, count) for key, count in found.items()])


@contextlib.asynccontextmanager
async def running(folder: Path, planes: int) -> AsyncIterator[Stacks]:
    """Start the servers; stacks are started by the caller, and stopped at the end."""
    async with contextlib.AsyncExitStack() as opened:

        async def server(name: str) -> Environment:
            options = {"watch_history": WATCH_HISTORY}
            environment = Environment(
                "embedded-process", proxy=True, folder=folder / name, server=options
            )
            return await opened.enter_async_context(environment)

        hub = await server("hub")
        made = Stacks(hub, [])
        opened.push_async_callback(made.stop)
        for number in range(planes):
            made.stacks.append(await _prepared(hub, await server(f"plane-{number}"), number))
        yield made


async def _prepared(hub: Environment, plane: Environment, number: int) -> Stack:
    namespace = f"tenants-{number}"
    await plane.install_crds(TenantRegistry, TenantTemplate, Tenant)
    for client, name in (
        (plane.client("envtest"), PLANE_NAMESPACE),
        (plane.client("envtest"), namespace),
        (hub.client("envtest"), namespace),
    ):
        metadata = {"name": name}
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    found = await plane.client("envtest").get(NAMESPACE, "kube-system")
    stack = Stack(f"plane-{number}", namespace, plane, found["metadata"]["uid"])
    stack.prepare(hub)
    return stack
