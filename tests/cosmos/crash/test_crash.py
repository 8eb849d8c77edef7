"""The manager, a real process, is killed at every write of a scale-up, an upgrade and a round of the snapshots.

The end is the same as without a crash: no claim is made twice, and there is one snapshot for the scheduled time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from apis.cosmos import ScheduledVolumeSnapshot
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.envtest.proxy import Match
from internal.cosmos.labels import NODE
from internal.cosmos.volumesnapshots import VOLUME_SNAPSHOT
from tests.cosmos.fullnode.harness import (
    CLAIM,
    CONFIG_MAP,
    KINDS,
    NAME,
    POD,
    SECRET,
    SERVICE,
    NodeSetHarness,
    Place,
    pods,
)
from tests.cosmos.real.availability_recorder import Watchman
from tests.cosmos.servers.comet import CometNodes
from tests.cosmos.servers.csi import Csi
from tests.cosmos.servers.snapshotcrds import SNAPSHOT_CRDS, snapshot_class
from tests.cosmos.stepclock import BEGIN
from tests.support.crash_harness import CrashHarness
from tests.tenancy.manager_forkserver import ForkServer

SCHEDULE = "hourly"
OURS = (POD, CLAIM, SERVICE, CONFIG_MAP, SECRET)
Holds = Callable[[], Awaitable[bool]]
CarryOut = Callable[[Holds], Awaitable[None]]


@dataclass
class Scene:
    """What outlives managers."""

    environment: Environment
    forkserver: ForkServer
    folder: Path
    place: Place
    crashes: CrashHarness = field(init=False)

    def __post_init__(self) -> None:
        written = Match(user="manager", verb="write")
        self.crashes = CrashHarness(self.environment.proxy, self.start_manager, self.shown, written)

    @classmethod
    @asynccontextmanager
    async def start(cls, folder: Path) -> AsyncIterator[Scene]:
        env = Environment(
            users=("admin", "manager", "csi"),
            proxy=True,
            nodes=True,
            folder=folder,
        )
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(env)
            forkserver = await stack.enter_async_context(ForkServer.running())
            comet = await stack.enter_async_context(CometNodes.start(env.client("envtest")))
            await env.install_crds(*KINDS, *SNAPSHOT_CRDS)
            await env.client("envtest").create(snapshot_class())
            await stack.enter_async_context(Csi.start(env.config("csi"), claims=False))
            scene = cls(env, forkserver, folder, await NodeSetHarness(env, folder, comet).place())
            scene.time(BEGIN)
            yield scene

    def time(self, moment: datetime) -> None:
        """What the clock of the next managers says."""
        (self.folder / "time").write_text(moment.isoformat())

    async def start_manager(self) -> ChildProcess:
        args = [str(self.environment.kubeconfig("manager")), str(self.folder / "time")]
        log = self.folder / "manager.log"
        return await self.forkserver.start(
            args, log=log, entry="tests.cosmos.crash.manager_main:main"
        )

    async def shown(self) -> str:
        node_set, schedule = await self.place.get(), await self.schedule()
        return f"{node_set and node_set.status.to_wire()}\n{schedule and schedule.status.to_wire()}"

    # -- what there is -----------------------------------------------------------------------

    async def schedule(self) -> ScheduledVolumeSnapshot | None:
        found = await self.place.client.list(ScheduledVolumeSnapshot, self.place.namespace)
        return found[0] if found else None

    async def snapshots(self) -> list[str]:
        return await self.place.names(VOLUME_SNAPSHOT)

    async def complete(self) -> bool:
        """Every node is there, as the spec says, and has caught up."""
        found = await self.place.get()
        if found is None or found.status.observed_generation != found.metadata.generation:
            return False
        status, replicas = found.status, found.spec.replicas
        running = [image(pod) for pod in await self.place.client.list(POD, self.place.namespace)]
        return (
            status.phase == "Complete"
            and (status.replicas, status.ready_replicas) == (replicas, replicas)
            and running == [found.spec.pod_template.image] * replicas
            and not status.scheduled_snapshot_status
        )

    async def snapshot_made(self) -> bool:
        """The round is over, and the node is back."""
        found = await self.schedule()
        return (
            found is not None
            and found.status.phase == "WaitingForNext"
            and found.status.last_snapshot is not None
            and await self.complete()
        )

    async def waits(self) -> bool:
        found = await self.schedule()
        return found is not None and found.status.next_at is not None and await self.complete()

    async def inventory(self) -> dict[str, Any]:
        """What there is: revisions of Pods and of what names peers follow from keys, which no two lives share."""
        names = {kind.gvk.kind: await self.place.names(kind) for kind in OURS}
        pods = await self.place.client.list(POD, self.place.namespace)
        images = {pod["metadata"]["name"]: image(pod) for pod in pods}
        return {**names, "images": images, "snapshots": await self.snapshots()}

    def made(self, resource: str) -> Counter[str]:
        """How often each object of a kind was created."""
        return Counter(
            entry.name
            for entry in self.environment.proxy.log.entries()
            if entry.user == "manager"
            and entry.resource == resource
            and entry.verb in ("create", "patch", "apply")
            and entry.code == 201
        )


def image(pod: dict[str, Any]) -> str:
    return next(str(c["image"]) for c in pod["spec"]["containers"] if c["name"] == NODE)


def node_set(scene: Scene) -> dict[str, Any]:
    return scene.place.node_set(replicas=2)


def schedule(scene: Scene) -> dict[str, Any]:
    return {
        "apiVersion": ScheduledVolumeSnapshot.gvk().api_version,
        "kind": "ScheduledVolumeSnapshot",
        "metadata": {"name": SCHEDULE, "namespace": scene.place.namespace},
        "spec": {
            "fullNodeRef": {"name": NAME},
            "schedule": "0 * * * *",
            "volumeSnapshotClassName": "fast",
            "deletePod": True,
            "minAvailable": 1,
        },
    }


async def a_whole_life(scene: Scene, carry_out: CarryOut) -> list[Any]:
    """What is there after each change."""
    place, seen = scene.place, []
    await place.apply(node_set(scene))
    await carry_out(scene.complete)
    seen.append(await scene.inventory())
    async with Watchman.watching(place.client, place.namespace, NAME, pods(range(3))) as watchman:
        await place.edit(replicas=3)
        await carry_out(scene.complete)
        seen.append(await scene.inventory())
        await place.edit(podTemplate={"image": "gaia:v2"})
        await carry_out(scene.complete)
        seen.append(await scene.inventory())
        await place.apply(schedule(scene))
        await carry_out(scene.waits)
        scene.time(BEGIN + timedelta(hours=1))
        await carry_out(scene.snapshot_made)
        seen.append(await scene.inventory())
        assert watchman.most_down <= 1, watchman.downs
        assert watchman.most_paused == 1
    assert set(scene.made("persistentvolumeclaims").values()) == {1}
    return seen


pytestmark = pytest.mark.xdist_group("crashes of cosmos")  # the calm life is played once


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The same life without a crash."""

    async def live() -> list[Any]:
        async with Scene.start(tmp_path_factory.mktemp("calm")) as scene:
            return await a_whole_life(scene, scene.crashes.calm)

    return asyncio.run(live())


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.criterion("cosmos-crash", "D5-6", "COSMOS-A8-6")
@pytest.mark.parametrize("first", ["before", "after"])
async def test_a_manager_killed_at_every_write_comes_to_the_same_end(
    calm: list[Any], tmp_path: Path, first: str
) -> None:
    async with Scene.start(tmp_path) as scene:

        async def crash(holds: Holds) -> None:
            await scene.crashes.crash_until(holds, first=first)

        seen = await a_whole_life(scene, crash)
        assert scene.crashes.kills > 20
        assert seen == calm
        assert seen[-1]["snapshots"] == [f"{SCHEDULE}-202603011300"]
