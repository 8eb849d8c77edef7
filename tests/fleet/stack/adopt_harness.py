"""A data plane that was replaced: the same Tenants on another server, and the workloads of the former one on the hub."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

from apis.fleet.labels import DATA_PLANE, DATA_PLANE_ID, TARGET_NAMESPACE
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.envtest.proxy import Kill, Match
from tests.fleet.stack.harness import (
    CONFIG_MAP,
    DEPLOYMENT,
    NAMESPACE,
    SECRET,
    SERVICE,
    Fleet,
    builtin,
    config_map,
    deployment,
    entry,
    ready,
    tenant,
)
from tests.fleet.stack.move_harness import LONG, MOVER, two_planes
from tests.tenancy.manager_forkserver import forked_program

CLAIM = builtin("v1", "PersistentVolumeClaim")
KINDS = (NAMESPACE, DEPLOYMENT, CONFIG_MAP, SERVICE, SECRET, CLAIM)
NAMES = ("a", "b")


def copied(name: str) -> dict[str, Any]:
    """A Tenant with a disk, a workload that uses it, what the workload reads and what selects it."""
    claim = entry(
        f"{name}-disk",
        "PersistentVolumeClaim",
        spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    )
    busy = deployment(name, config=f"{name}-kept")
    busy["spec"]["spec"]["template"]["spec"]["volumes"] = [
        {"name": "disk", "persistentVolumeClaim": {"claimName": f"{name}-disk"}}
    ]
    kept = entry(f"{name}-kept", "ConfigMap", data={"k": "v"}) | {"deletionPolicy": "Retain"}
    service = entry(
        f"{name}-svc", "Service", spec={"selector": {"app": name}, "ports": [{"port": 80}]}
    )
    return tenant(busy, claim, kept, service, config_map(f"{name}-notes"), name=name)


@contextlib.asynccontextmanager
async def replaced(folder: Path) -> AsyncIterator[Fleet]:
    """The first data plane is gone, and its target namespace is torn down; the second has its Tenants. No stack runs."""
    async with two_planes(folder, stacks=0) as made:
        async with made.running(made.plane):
            for name in (*NAMES, "lost"):
                await made.plane.client.create(copied(name))
                await ready(made.plane, name)
        for name in NAMES:
            await made.planes[1].client.create(copied(name))
        await tear_down(made)
        await made.plane.stop()
        yield made


async def tear_down(servers: Fleet) -> None:
    """Remove from the first target namespace what the operator removes; the Secret stays."""
    metadata = {
        "labels": {DATA_PLANE: None, TARGET_NAMESPACE: None},
        "annotations": {DATA_PLANE_ID: None},
    }
    await servers.hub.client.patch(NAMESPACE, "plane-0", {"metadata": metadata})


async def hub_objects(servers: Fleet) -> dict[str, dict[str, Any]]:
    """Return what stacks have on the hub, by kind and name."""
    found = {}
    for kind in KINDS:
        for each in await servers.hub.client.list(kind, labels=DATA_PLANE):
            if each["metadata"]["labels"][DATA_PLANE] != "true":
                found[f"{kind.gvk.kind} {each['metadata']['name']}"] = each
    return found


def identities(objects: dict[str, dict[str, Any]]) -> dict[str, tuple[str, Any]]:
    """Return UID and spec of objects: where neither changes, nothing was made anew and nothing rolls."""
    return {name: (each["metadata"]["uid"], each.get("spec")) for name, each in objects.items()}


async def begin(servers: Fleet, *arguments: str, former: str = "") -> ChildProcess:
    """Start the command."""
    command = ["fleet", "adopt", former or servers.plane.id]
    command += ["--to", "plane-1", *arguments]
    command += ["--kubeconfig", str(servers.hub.environment.kubeconfig(MOVER))]
    log = servers.folder / "adopt.log"
    log.write_text("")
    return await forked_program(command, log=log)


async def run(servers: Fleet, *arguments: str, former: str = "") -> tuple[int, str]:
    """Run the command to its end."""
    process = await begin(servers, *arguments, former=former)
    code = await asyncio.wait_for(process.wait(), LONG)
    return code, process.log_tail()


async def crash_until_done(servers: Fleet, first: Literal["before", "after"]) -> int:
    """Kill the command at its first write, run after run, until it has none. Return how often it was killed."""
    other: Literal["before", "after"] = "after" if first == "before" else "before"
    for life in range(60):
        process = await begin(servers)
        proxy = servers.hub.environment.proxy
        kill = Kill(pid=process.pid, when=(first, other)[life % 2])
        rule = proxy.add(kill, Match(user=MOVER, verb="write"))
        try:
            code = await asyncio.wait_for(process.wait(), LONG)
        finally:
            proxy.remove(rule)
            await process.stop(grace=0)
        assert code in {0, -9}, process.log_tail()
        if code == 0:
            return life
    raise AssertionError("not done after 60 runs")
