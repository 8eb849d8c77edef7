"""Two data planes between which Tenants move, and the command as a process."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from apis.fleet.labels import (
    DATA_PLANE,
    DATA_PLANE_ID,
    KUBECONFIG_KEY,
    KUBECONFIG_SECRET,
    LEASE,
    PARALLEL_PREFIX,
    PLANE_NAMESPACE,
)
from ctrlruntime.api.scalars import format_micro_time
from ctrlruntime.client.errors import APIError, TransportError
from ctrlruntime.clock import utc_now
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.envtest.proxy import Kill, Match
from tests.fleet.stack.harness import CONFIG_MAP, DEPLOYMENT, NAMESPACE, Fleet, Server, fleet
from tests.tenancy.manager_forkserver import forked_program

MOVER = "mover"
"""User of the command, on every server."""
LONG = 120.0


@contextlib.asynccontextmanager
async def two_planes(folder: Path, stacks: int = 2) -> AsyncIterator[Fleet]:
    """Two data planes; by default both stacks run, and renew their Leases."""
    users = ("admin", "manager", MOVER)
    async with fleet(folder, planes=2, users=users, plane_users=users) as made:
        for number, plane in enumerate(made.planes):
            await _target(made.hub, f"plane-{number}", plane)
        grants = {f"{PARALLEL_PREFIX}plane-{number}": "true" for number in (0, 1)}
        await made.hub.client.patch(NAMESPACE, "default", {"metadata": {"labels": grants}})
        async with contextlib.AsyncExitStack() as opened:
            for number, plane in enumerate(made.planes[:stacks]):
                await opened.enter_async_context(made.running(plane))
                if stacks == len(made.planes):
                    await opened.enter_async_context(renewed(plane, f"plane-{number}"))
            yield made


@contextlib.asynccontextmanager
async def renewed(plane: Server, target: str, age: float = 0.0) -> AsyncIterator[None]:
    """Hold the Lease of a data plane as the elected controllers of a stack do, by a clock that is behind."""
    await hold_lease(plane, f"hub/{target}/a", age)
    task = asyncio.create_task(_renew(plane, f"hub/{target}/a", age))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _renew(plane: Server, holder: str, age: float) -> None:
    while True:
        await asyncio.sleep(2)
        with contextlib.suppress(APIError, TransportError):
            await hold_lease(plane, holder, age)


async def hold_lease(plane: Server, holder: str, age: float = 0.0) -> None:
    """Write the Lease of the controllers, renewed so many seconds ago."""
    client = plane.client
    metadata = {"name": LEASE, "namespace": PLANE_NAMESPACE}
    renewed_at = format_micro_time(utc_now() - timedelta(seconds=age))
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed_at}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PLANE_NAMESPACE}}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
    for each in (namespace, {**lease, "spec": spec}):
        await client.apply(each, field_manager="stack", force=True)


async def _target(hub: Server, name: str, plane: Server) -> None:
    """Make a target namespace as the operator has it."""
    annotations = {DATA_PLANE_ID: plane.id}
    metadata = {"name": name, "labels": {DATA_PLANE: "true"}, "annotations": annotations}
    await hub.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    text = plane.environment.kubeconfig(MOVER).read_bytes()
    secret = {"apiVersion": "v1", "kind": "Secret"}
    metadata = {"name": KUBECONFIG_SECRET, "namespace": name}
    data = {KUBECONFIG_KEY: base64.b64encode(text).decode()}
    await hub.client.create({**secret, "metadata": metadata, "data": data})


async def begin(
    servers: Fleet,
    *arguments: str,
    tenant: str = "acme",
    source: str = "plane-0",
    target: str = "plane-1",
) -> ChildProcess:
    """Start the command."""
    command = ["fleet", "move", tenant, "--timeout=100"]
    command += ["--from", source, "--to", target, *arguments]
    command += ["--kubeconfig", str(servers.hub.environment.kubeconfig(MOVER))]
    log = servers.folder / "move.log"
    log.write_text("")
    return await forked_program(command, log=log)


async def run(servers: Fleet, *arguments: str, **options: str) -> tuple[int, str]:
    """Run the command to its end."""
    process = await begin(servers, *arguments, **options)
    code = await asyncio.wait_for(process.wait(), LONG)
    return code, process.log_tail()


async def hub_state(servers: Fleet) -> dict[str, tuple[str, Any]]:
    """UID and spec of what the Tenant has on the hub: where neither changes, nothing rolls."""
    found = {}
    for kind in (DEPLOYMENT, CONFIG_MAP):
        for each in await servers.hub.client.list(kind, "default"):
            metadata = each["metadata"]
            if DATA_PLANE in (metadata.get("labels") or {}):
                found[f"{kind.gvk.kind} {metadata['name']}"] = (metadata["uid"], each.get("spec"))
    return found


async def crash_until_done(servers: Fleet, first: str, *arguments: str, **options: str) -> int:
    """Kill the command at its first write, run after run, until it has none. Return how often it was killed."""
    order: tuple[Literal["before", "after"], ...] = (
        ("before", "after") if first == "before" else ("after", "before")
    )
    for life in range(60):
        if not await _killed_at_a_write(servers, order[life % 2], *arguments, **options):
            return life
    raise AssertionError("not done after 60 runs")


async def _killed_at_a_write(
    servers: Fleet, when: Literal["before", "after"], *arguments: str, **options: str
) -> bool:
    """Kill the command at its first write, on whatever server. Return False if it had nothing to write."""
    process = await begin(servers, *arguments, **options)
    rules = [
        (proxy, proxy.add(Kill(pid=process.pid, when=when), Match(user=MOVER, verb="write")))
        for proxy in (each.environment.proxy for each in (servers.hub, *servers.planes))
    ]
    try:
        code = await asyncio.wait_for(process.wait(), LONG)
    finally:
        for proxy, rule in rules:
            proxy.remove(rule)
        await process.stop(grace=0)
    assert code in {0, -9}, process.log_tail()
    return code == -9
