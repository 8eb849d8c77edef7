"""Two data planes between which Tenants move, and the command as a process."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

from apis.fleet.labels import DATA_PLANE, KUBECONFIG_KEY, KUBECONFIG_SECRET, PARALLEL_PREFIX
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.envtest.proxy import Kill, Match
from tests.fleet.stack.harness import CONFIG_MAP, DEPLOYMENT, NAMESPACE, Fleet, Server, fleet

MOVER = "mover"
"""User of the command, on every server."""
LONG = 120.0


@contextlib.asynccontextmanager
async def two_planes(folder: Path) -> AsyncIterator[Fleet]:
    """Two data planes, both stacks running."""
    users = ("admin", "manager", MOVER)
    async with fleet(folder, planes=2, users=users, plane_users=users) as made:
        for number, plane in enumerate(made.planes):
            await _target(made.hub, f"plane-{number}", plane)
        grants = {f"{PARALLEL_PREFIX}plane-{number}": "true" for number in (0, 1)}
        await made.hub.client.patch(NAMESPACE, "default", {"metadata": {"labels": grants}})
        async with contextlib.AsyncExitStack() as stacks:
            for plane in made.planes:
                await stacks.enter_async_context(made.running(plane))
            yield made


async def _target(hub: Server, name: str, plane: Server) -> None:
    metadata = {"name": name, "labels": {DATA_PLANE: "true"}}
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
    command = [sys.executable, "-m", "manager", "fleet", "move", tenant, "--timeout=100"]
    command += ["--from", source, "--to", target, *arguments]
    command += ["--kubeconfig", str(servers.hub.environment.kubeconfig(MOVER))]
    log = servers.folder / "move.log"
    log.write_text("")
    return await ChildProcess.start(command, log=log, ready=False)


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
