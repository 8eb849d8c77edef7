"""The whole cosmos system on a real kube-apiserver: simulated machines, nodes, a CSI driver, a stepped clock."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from apis.cosmos import CosmosFullNode, ScheduledVolumeSnapshot
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import AlreadyExists, Forbidden
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.users import User, administrator
from tests.backends import SharedServer
from tests.cosmos.fullnode.harness import KINDS, OPTIONS, NodeSetHarness, Place
from tests.cosmos.servers.comet import CometNodes
from tests.cosmos.servers.csi import Csi
from tests.cosmos.servers.snapshotcrds import SNAPSHOT, SNAPSHOT_CRDS, snapshot_class
from tests.cosmos.stepclock import StepClock
from tests.manifests.installation import RBAC
from tests.rbac import audited, grant
from tests.support.waiting import eventually

STORAGE = "cosmos-story"
CLASS = "cosmos-story"
SCHEDULE = "each-minute"


@dataclass(slots=True)
class RealNodesHarness(NodeSetHarness):
    """A harness with all controllers of the system, on a server that others use too."""

    clock: StepClock = field(default_factory=StepClock)

    @classmethod
    @contextlib.asynccontextmanager
    async def on(cls, server: SharedServer, folder: Path) -> AsyncIterator[Self]:
        """Everything runs, but for the controllers."""
        env = server.environment(
            users=(administrator("admin"), administrator("csi"), User(name="manager")),
            proxy=True,
            nodes=True,
            folder=folder,
        )
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(env)
            await env.install_crds(*KINDS, *SNAPSHOT_CRDS)
            with contextlib.suppress(AlreadyExists):  # of another test on this server
                await env.client("envtest").create(snapshot_class(CLASS))
            await _storage_class(env)
            comet = await stack.enter_async_context(CometNodes.start(env.client("envtest")))
            clock = StepClock()
            await stack.enter_async_context(Csi.start(env.config("csi"), claims=False))
            options = replace(OPTIONS, clock=clock, poll_seconds=0.5, heal_seconds=0.5)
            await stack.enter_async_context(_declared_rights(env))
            harness = cls(env, folder, comet, options=options, clock=clock)
            await harness.start_manager()
            try:
                yield harness
            finally:
                await harness.stop_manager()


@dataclass(frozen=True, slots=True)
class Snapshots:
    """The minutes of the schedule, one after another."""

    place: Place
    clock: StepClock
    name: str = SCHEDULE

    async def schedule(self, node_set: str) -> None:
        """A snapshot each minute, of a node that is stopped for it."""
        spec = {
            "fullNodeRef": {"name": node_set},
            "schedule": "* * * * *",
            "volumeSnapshotClassName": CLASS,
            "deletePod": True,
            "minAvailable": 2,
            "limit": 3,
        }
        await self.place.apply(
            {
                "apiVersion": ScheduledVolumeSnapshot.gvk().api_version,
                "kind": "ScheduledVolumeSnapshot",
                "metadata": {"name": self.name, "namespace": self.place.namespace},
                "spec": spec,
            }
        )
        await self.waiting()

    async def found(self) -> ScheduledVolumeSnapshot:
        return await self.place.client.get(
            ScheduledVolumeSnapshot, self.name, namespace=self.place.namespace
        )

    async def waiting(self) -> ScheduledVolumeSnapshot:
        """The schedule, once it waits for its next time."""

        def is_waiting(found: ScheduledVolumeSnapshot) -> bool:
            due = found.status.next_at
            later = due is not None and due > self.clock.now()
            return found.status.phase == "WaitingForNext" and later

        return await eventually(self.found, is_waiting, timeout=180.0)

    async def minute(self) -> str:
        """One round: the name of the snapshot that was made."""
        before = await self.waiting()
        self.clock.step(minutes=1)
        old = before.status.last_snapshot

        def is_new(found: ScheduledVolumeSnapshot) -> bool:
            last = found.status.last_snapshot
            return last is not None and (old is None or old.name != last.name)

        last = (await eventually(self.waiting, is_new, timeout=180.0)).status.last_snapshot
        assert last is not None
        assert not last.failed, last.failed
        return last.name

    async def rounds(self, stop: asyncio.Event) -> list[str]:
        """Minute after minute, until told to stop."""
        made = []
        while not stop.is_set():
            made.append(await self.minute())
        return made

    async def kept(self) -> list[str]:
        found = await self.place.client.list(SNAPSHOT, self.place.namespace)
        return sorted(each["metadata"]["name"] for each in found)


@contextlib.asynccontextmanager
async def _declared_rights(env: Environment) -> AsyncIterator[None]:
    """The manager has them, and asks for nothing else."""
    system, people = "cosmos", env.client("envtest")
    await grant(env, ["manager"], system)
    await eventually(lambda: _may_list(env.client("manager")))
    try:
        with audited(env, ["manager"], system):
            yield
    finally:
        for kind in ("ClusterRoleBinding", "ClusterRole"):
            await people.delete(GroupVersionKind(RBAC, "v1", kind), f"{system}-manager")


async def _may_list(client: Client) -> bool:
    try:
        await client.list(CosmosFullNode)
    except Forbidden:
        return False
    return True


async def _storage_class(env: Environment) -> None:
    manifest: dict[str, Any] = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": STORAGE},
        "provisioner": "test",
        "allowVolumeExpansion": True,
    }
    await env.client("envtest").apply(manifest, field_manager="people", force=True)
