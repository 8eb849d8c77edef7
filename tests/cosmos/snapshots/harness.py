"""Regular snapshots and Jobs on an embedded API server: the test plays people, Pods and nodes, and steps the clock.

async with SnapshotsHarness.start(folder) as harness:
    await harness.schedule("nightly", deletePod=True)
    harness.clock.step(minutes=10)
    await harness.phase("nightly", "WaitingForPodDeletion")
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from apis.cosmos import CosmosFullNode, ScheduledVolumeSnapshot, StatefulJob
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.api.resource import KindRef
from ctrlruntime.client.errors import AlreadyExists, NotFound
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.eventually import eventually, eventually_gone
from ctrlruntime.envtest.idle import idle
from ctrlruntime.envtest.users import User, administrator
from ctrlruntime.manager import Manager
from ctrlruntime.queue import Request
from internal.cosmos.cache.observation import DiskObservation, Observation
from internal.cosmos.labels import CREATED_BY, FIELD_MANAGER, INSTANCE, NAME, claim_name, pod_name
from manager.controllers.cosmos_jobs import add_stateful_jobs
from manager.controllers.cosmos_options import CosmosOptions
from manager.controllers.cosmos_parts import declare_parts
from manager.controllers.cosmos_snapshots import add_snapshots
from tests.backends import SharedServer
from tests.cosmos.servers.csi import Csi
from tests.cosmos.servers.snapshotcrds import CLASS, SNAPSHOT, SNAPSHOT_CRDS, snapshot_class
from tests.cosmos.stepclock import StepClock
from tests.rbac import audited, grant
from tests.support.manager_harness import ManagerHarness

POD = BUILTIN[GroupVersionKind("", "v1", "Pod")]
CLAIM = BUILTIN[GroupVersionKind("", "v1", "PersistentVolumeClaim")]
JOB = BUILTIN[GroupVersionKind("batch", "v1", "Job")]
EVENT = BUILTIN[GroupVersionKind("events.k8s.io", "v1", "Event")]
NAMESPACE = "default"
SET = "hub"
NODES = 3
PATIENCE = 120.0
"""Seconds that anything may take on a busy machine."""


@dataclass
class Told:
    """What nodes say, as the test has it. An input like any other: see `Observations`."""

    pods: dict[str, Observation] = field(default_factory=dict)
    listeners: list[Callable[[Request], None]] = field(default_factory=list)

    def collect(self, namespace: str, name: str) -> list[Observation]:
        return sorted(self.pods.values(), key=lambda each: each.ordinal)

    def synced(self, namespace: str, name: str) -> list[Observation]:
        found = [each for each in self.collect(namespace, name) if each.is_in_sync]
        return found if name == SET else []

    def disks(self, namespace: str, name: str) -> list[DiskObservation]:
        return []

    def invalidate(self, namespace: str, name: str, pods: Iterable[str]) -> None:
        for pod in pods:
            self.pods.pop(pod, None)

    def subscribe(self, changed: Callable[[Request], None]) -> None:
        self.listeners.append(changed)

    def say(self, pods: Mapping[str, Observation]) -> None:
        self.pods = dict(pods)
        for listener in self.listeners:
            listener(Request(SET, namespace=NAMESPACE))


@dataclass(slots=True)
class SnapshotsHarness(ManagerHarness):
    """What runs, and the words of the tests."""

    clock: StepClock = field(default_factory=StepClock)
    told: Told = field(default_factory=Told)
    csi: Csi | None = None
    _stack: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    @classmethod
    @contextlib.asynccontextmanager
    async def start(
        cls, folder: Path, *, snapshots: bool = True, members: Sequence[str] = ()
    ) -> AsyncIterator[Self]:
        """A server, a set of nodes that runs, a CSI driver and the controllers; with `members`, users that may run managers, none runs."""
        managers = [*members] or ["manager"]
        people = administrator("admin"), administrator("driver")
        env = Environment(
            users=(*people, *(User(name=each) for each in managers)),
            authorization="RBAC",
            proxy=True,
            folder=folder,
        )
        async with env:
            await env.install_crds(CosmosFullNode, ScheduledVolumeSnapshot, StatefulJob)
            harness = cls(env, folder)
            if members:
                await grant(env, managers, "leases")
            else:
                harness._stack.enter_context(audited(env, managers, "cosmos"))
            await grant(env, managers, "cosmos")
            await harness.client.create(node_set())
            await harness.settle()
            async with harness._stack:
                if snapshots:
                    await harness.install_snapshots()
                if not members:
                    await harness.start_manager()
                try:
                    yield harness
                finally:
                    await harness.stop_manager()

    @classmethod
    @contextlib.asynccontextmanager
    async def on(
        cls, server: SharedServer, folder: Path, members: Sequence[str] = ()
    ) -> AsyncIterator[Self]:
        """The same on a server that others use too, whose manager is an administrator. It leaves nothing behind."""
        names = "admin", "driver", *([*members] or ["manager"])
        users = [administrator(each) for each in names]
        async with server.environment(users=users, proxy=True, folder=folder) as env:
            await env.install_crds(CosmosFullNode, ScheduledVolumeSnapshot, StatefulJob)
            harness = cls(env, folder)
            await harness.client.create(node_set())
            await harness.settle()
            try:
                async with harness._stack:
                    await harness.install_snapshots()
                    if not members:
                        await harness.start_manager()
                    try:
                        yield harness
                    finally:
                        await harness.stop_manager()
            finally:
                await harness.clear()

    async def clear(self) -> None:
        """Delete all that was made."""
        for kind in (ScheduledVolumeSnapshot, StatefulJob, CosmosFullNode, POD, CLAIM, SNAPSHOT):
            for found in await self.client.list(kind, NAMESPACE):
                metadata = (
                    found["metadata"] if isinstance(found, dict) else found.metadata.to_wire()
                )
                patch = {"metadata": {"finalizers": None}}
                name = metadata["name"]
                if metadata.get("finalizers"):
                    await self.client.patch(kind, name, patch, namespace=NAMESPACE)
                with contextlib.suppress(NotFound):
                    await self.client.delete(kind, name, namespace=NAMESPACE, grace_period=0)
        with contextlib.suppress(NotFound):
            await self.client.delete(CLASS, "fast")

    async def install_snapshots(self) -> None:
        """The kinds of the snapshot API, and a driver."""
        await self.environment.install_crds(*SNAPSHOT_CRDS)
        with contextlib.suppress(AlreadyExists):
            await self.client.create(snapshot_class())
        config = self.environment.config("driver", direct=True)
        self.csi = await self._stack.enter_async_context(Csi.start(config, clock=self.clock.now))

    async def add_controllers(self, manager: Manager) -> None:
        parts = declare_parts(manager, CosmosOptions(clock=self.clock))
        add_snapshots(parts, self.told)
        add_stateful_jobs(parts)

    # -- what people do ---------------------------------------------------------------------------

    async def schedule(self, name: str = "nightly", **fields: object) -> None:
        """A ScheduledVolumeSnapshot that is due every ten minutes; returns once it counts."""
        spec = {
            "fullNodeRef": {"name": SET},
            "schedule": "*/10 * * * *",
            "volumeSnapshotClassName": "fast",
            **fields,
        }
        kind = ScheduledVolumeSnapshot.gvk()
        manifest = {"apiVersion": kind.api_version, "kind": kind.kind, "spec": spec}
        metadata = {"name": name, "namespace": NAMESPACE}
        await self.client.create({**manifest, "metadata": metadata})
        await self.sees(name, lambda found: found.status.created_at is not None)

    async def stateful_job(self, name: str = "weekly", **fields: object) -> None:
        """A StatefulJob of every hour."""
        pod = {"containers": [{"name": "main", "image": "busybox"}]}
        spec = {
            "selector": {"app": "chain"},
            "interval": "1h",
            "podTemplate": {"spec": pod},
            "volumeClaimTemplate": {"storageClassName": "standard"},
            **fields,
        }
        kind = StatefulJob.gvk()
        manifest = {"apiVersion": kind.api_version, "kind": kind.kind, "spec": spec}
        await self.client.create({**manifest, "metadata": {"name": name, "namespace": NAMESPACE}})

    async def edit(self, kind: KindRef, name: str, **spec: object) -> None:
        await self.client.patch(kind, name, {"spec": spec}, namespace=NAMESPACE)

    # -- what machines do -------------------------------------------------------------------------

    async def settle(self) -> None:
        """Pods that are paused end, others come; every node that runs is in sync."""
        found = await self.client.get(CosmosFullNode, SET, namespace=NAMESPACE)
        paused = {each.pod_candidate for each in found.status.scheduled_snapshot_status.values()}
        wanted = {pod_name(SET, number): number for number in range(found.spec.replicas)}
        live = {each["metadata"]["name"]: each for each in await self.client.list(POD, NAMESPACE)}
        for name in paused & set(live):
            await self.client.delete(POD, name, namespace=NAMESPACE, grace_period=0)
        for name in set(wanted) - paused - set(live):
            live[name] = await self.client.create(_pod(name, found.metadata.uid or ""))
        self.told.say(
            {
                name: Observation(
                    pod=name,
                    uid=live[name]["metadata"]["uid"],
                    ordinal=number,
                    height=7,
                    catching_up=False,
                )
                for name, number in wanted.items()
                if name not in paused
            }
        )

    async def snapshot(self, name: str, size: str | None = "5Gi", **labels: str) -> None:
        """A snapshot of somebody's that is ready."""
        manifest = {
            "apiVersion": SNAPSHOT.api_version,
            "kind": SNAPSHOT.kind,
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
            "spec": {"source": {"persistentVolumeClaimName": "somebody"}},
        }
        assert self.csi is not None
        self.csi.of_snapshot(name).capacity = size or ""
        self.csi.of_snapshot(name).without_size = size is None
        await self.client.create(manifest)
        await eventually(
            self.client,
            SNAPSHOT,
            name,
            {"status": {"readyToUse": True}},
            namespace=NAMESPACE,
            timeout=PATIENCE,
        )

    # -- what is seen -----------------------------------------------------------------------------

    async def sees(
        self, name: str, so: Callable[[ScheduledVolumeSnapshot], bool]
    ) -> ScheduledVolumeSnapshot:
        """Wait until something holds of a ScheduledVolumeSnapshot."""
        found = await eventually(
            self.client, ScheduledVolumeSnapshot, name, so, namespace=NAMESPACE, timeout=PATIENCE
        )
        assert isinstance(found, ScheduledVolumeSnapshot)
        return found

    async def phase(self, name: str, phase: str) -> ScheduledVolumeSnapshot:
        return await self.sees(name, lambda found: found.status.phase == phase)

    async def job(self, name: str, so: Callable[[StatefulJob], bool]) -> StatefulJob:
        """Wait until something holds of a StatefulJob."""
        found = await eventually(
            self.client, StatefulJob, name, so, namespace=NAMESPACE, timeout=PATIENCE
        )
        assert isinstance(found, StatefulJob)
        return found

    async def gone(self, kind: KindRef, name: str) -> None:
        """Wait until there is no such object."""
        await eventually_gone(self.client, kind, name, namespace=NAMESPACE, timeout=PATIENCE)

    async def there(self, kind: KindRef, name: str) -> bool:
        try:
            await self.client.get(kind, name, namespace=NAMESPACE)
        except NotFound:
            return False
        return True

    async def paused(self) -> list[str]:
        """The Pods that are down for a snapshot."""
        found = await self.client.get(CosmosFullNode, SET, namespace=NAMESPACE)
        return sorted(
            each.pod_candidate for each in found.status.scheduled_snapshot_status.values()
        )

    async def restored(self) -> None:
        """No Pod is to be down once manager, driver and manager have nothing left to do, in this order."""
        assert self.csi is not None
        await self.idle()
        await idle(self.csi.manager, self.client, timeout=PATIENCE)
        await self.idle()
        assert await self.paused() == []

    async def snapshots(self) -> list[str]:
        found = await self.client.list(SNAPSHOT, NAMESPACE)
        return sorted(each["metadata"]["name"] for each in found)

    async def reasons(self) -> set[str]:
        """Reasons of all events."""
        return {each["reason"] for each in await self.client.list(EVENT, NAMESPACE)}


def node_set() -> dict[str, Any]:
    """A set of nodes."""
    kind = CosmosFullNode.gvk()
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": SET, "namespace": NAMESPACE},
        "spec": {
            "replicas": NODES,
            "chain": {
                "chainID": "hub-1",
                "network": "test",
                "binary": "hubd",
                "app": {"minGasPrice": "0hub"},
            },
            "podTemplate": {"image": "hub:v1"},
            "volumeClaimTemplate": {
                "storageClassName": "standard",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
    }


def _pod(name: str, uid: str) -> dict[str, Any]:
    kind = CosmosFullNode.gvk()
    owner = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": SET,
        "uid": uid,
        "controller": True,
    }
    labels = {CREATED_BY: FIELD_MANAGER, NAME: SET, INSTANCE: name}
    claim = claim_name(SET, int(name.rpartition("-")[2]))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": labels,
            "ownerReferences": [owner],
        },
        "spec": {
            "containers": [{"name": "node", "image": "hub:v1"}],
            "volumes": [{"name": "home", "persistentVolumeClaim": {"claimName": claim}}],
        },
    }
