"""The stack of a data plane, a real process, is killed at every write to either server: the end is the same."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from apis.cosmos import CosmosFullNode
from apis.fleet.labels import DATA_PLANE
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.envtest.proxy import Match
from ctrlruntime.resources import OWNER
from internal.cosmos.labels import NODE
from tests.fleet.stack.cosmos_harness import OF_NODES, POD, CosmosFleet, cosmos_fleet
from tests.fleet.stack.test_cosmos import embedded_hub
from tests.support.crash_harness import CrashHarness, Holds
from tests.tenancy.manager_forkserver import ForkServer

CarryOut = Callable[[Holds], Awaitable[None]]


@dataclass
class Scene:
    """What outlives stacks."""

    servers: CosmosFleet
    forkserver: ForkServer

    @classmethod
    @contextlib.asynccontextmanager
    async def start(cls, folder: Path) -> AsyncIterator[Scene]:
        """A hub, a data plane, and where stacks are started from."""
        async with (
            cosmos_fleet(folder, embedded_hub(folder)) as servers,
            ForkServer.running() as forkserver,
        ):
            yield cls(servers, forkserver)

    def crashes(self) -> CrashHarness:
        """Stacks that follow one another."""
        hub, plane = (each.environment.proxy for each in (self.servers.hub, self.servers.plane))
        written = Match(user="manager", verb="write")
        return CrashHarness(hub, self.start_manager, self.shown, written, others=(plane,))

    async def start_manager(self) -> ChildProcess:
        """Start a stack."""
        hub, plane = self.servers.hub, self.servers.plane
        args = [str(each.environment.kubeconfig("manager")) for each in (plane, hub)]
        log = self.servers.folder / "stack.log"
        entry = "tests.fleet.stack.cosmos_main:main"
        return await self.forkserver.start([*args, plane.id], log=log, entry=entry)

    async def shown(self) -> str:
        """Return what there is of the set."""
        found = await self.servers.read(self.servers.plane)
        return str(found and found.status.to_wire())

    async def complete(self) -> bool:
        """Every node is there, as the spec requests, and has caught up."""
        found = await self.servers.read(self.servers.plane)
        if found is None or found.status.observed_generation != found.metadata.generation:
            return False
        status, replicas = found.status, found.spec.replicas
        images = [image(each) for each in await self.servers.objects(self.servers.hub, POD)]
        return (
            status.phase == "Complete"
            and (status.replicas, status.ready_replicas) == (replicas, replicas)
            and images == [found.spec.pod_template.image] * replicas
        )

    async def is_gone(self) -> bool:
        """Neither server has anything of the set."""
        servers = self.servers
        return await servers.read(servers.plane) is None and not await servers.left(servers.hub)

    async def inventory(self) -> dict[str, Any]:
        """What the hub has, with images and owners; the data plane's id differs between two scenes."""
        servers, found = self.servers, {}
        for kind in OF_NODES:
            for each in await servers.objects(servers.hub, kind):
                metadata = each["metadata"]
                assert metadata["labels"][DATA_PLANE] == servers.plane.id
                assert "ownerReferences" not in metadata
                owner = str(metadata["annotations"][OWNER]).removesuffix(f"@{servers.plane.id}")
                key = f"{kind.gvk.kind} {metadata['name']}"
                found[key] = (owner, image(each) if kind is POD else "")
        assert await servers.left(servers.plane) == {}
        return found

    def made(self, resource: str) -> Counter[str]:
        """Count how often each object of a kind was created on the hub."""
        return Counter(
            each.name
            for each in self.servers.hub.environment.proxy.log.entries()
            if (each.user, each.resource, each.code) == ("manager", resource, 201)
        )


def image(pod: dict[str, Any]) -> str:
    return next(str(each["image"]) for each in pod["spec"]["containers"] if each["name"] == NODE)


async def a_whole_life(scene: Scene, carry_out: CarryOut) -> list[dict[str, Any]]:
    """Return what is there after each change; at the end nothing is."""
    servers, plane, seen = scene.servers, scene.servers.plane.client, []
    await plane.create(servers.node_set())
    await carry_out(scene.complete)
    seen.append(await scene.inventory())
    for change in ({"replicas": 3}, {"podTemplate": {"image": "gaia:v2"}}):
        await plane.patch(CosmosFullNode, "chain", {"spec": change}, namespace=servers.namespace)
        await carry_out(scene.complete)
        seen.append(await scene.inventory())
    lifted = {"spec": {"deletionProtection": False}}
    await plane.patch(CosmosFullNode, "chain", lifted, namespace=servers.namespace)
    await plane.delete(CosmosFullNode, "chain", namespace=servers.namespace)
    await carry_out(scene.is_gone)
    assert set(scene.made("persistentvolumeclaims").values()) == {1}
    return seen


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", ["before", "after"])
async def test_a_stack_with_nodes_that_is_killed_at_every_write_ends_the_same(
    tmp_path: Path, first: str
) -> None:
    for name in ("calm", "crashed"):
        (tmp_path / name).mkdir()
    async with Scene.start(tmp_path / "calm") as scene:
        calm = await a_whole_life(scene, scene.crashes().calm)
    async with Scene.start(tmp_path / "crashed") as scene:
        kills = 0

        async def crash(holds: Holds) -> None:
            nonlocal kills
            crashes = scene.crashes()
            await crashes.crash_until(holds, first=first)
            kills += crashes.kills

        assert await a_whole_life(scene, crash) == calm
    # two nodes with all they need, a third, a roll of each, the removal
    assert kills > 25
