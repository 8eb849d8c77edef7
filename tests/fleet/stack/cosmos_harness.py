"""Data planes with sets of nodes, whose Pods run on one hub: simulated machines, and a server that plays the nodes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from apis.cosmos import CosmosFullNode
from apis.fleet.labels import DATA_PLANE
from ctrlruntime.api.conditions import Condition, find_condition
from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.client.client import Propagation
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.users import User
from ctrlruntime.manager import Manager, ManagerOptions
from ctrlruntime.manager.logs import make_logger
from ctrlruntime.sharding import ShardingOptions
from internal.cosmos.labels import CREATED_BY, FIELD_MANAGER
from manager.controllers.cosmos import add_cosmos
from manager.controllers.cosmos_options import CosmosOptions
from manager.controllers.hub import StackOptions, add_hub
from tests.cosmos.fullnode.harness import KINDS, OPTIONS, laid_over
from tests.cosmos.servers.comet import CometNodes
from tests.cosmos.servers.snapshotcrds import SNAPSHOT_CRDS
from tests.cosmos.stepclock import StepClock
from tests.fleet.stack.harness import NAMESPACE, Server, builtin, eventually

POD = builtin("v1", "Pod")
CLAIM = builtin("v1", "PersistentVolumeClaim")
SERVICE = builtin("v1", "Service")
CONFIG_MAP = builtin("v1", "ConfigMap")
SECRET = builtin("v1", "Secret")
ACCOUNT = builtin("v1", "ServiceAccount")
STORAGE_CLASS = builtin("storage.k8s.io/v1", "StorageClass")
OF_NODES = (POD, CLAIM, SERVICE, CONFIG_MAP, SECRET, ACCOUNT)
"""What a set of nodes has on the hub."""
USERS = ("admin", "manager", "csi")
CLASS = "stack-standard"


@dataclass(slots=True)
class CosmosFleet:
    """A hub with machines, and data planes."""

    folder: Path
    hub: Server
    planes: list[Server]
    comet: CometNodes
    namespace: str
    hub_user: str = "manager"
    clock: StepClock = field(default_factory=StepClock)

    @property
    def plane(self) -> Server:
        """The first data plane."""
        return self.planes[0]

    @property
    def options(self) -> CosmosOptions:
        """Those of the stacks."""
        return replace(OPTIONS, clock=self.clock)

    @contextlib.asynccontextmanager
    async def running(
        self, plane: Server | None = None, member: str = ""
    ) -> AsyncIterator[Manager]:
        """Run the stack of a data plane on this loop, or one `member` of it."""
        plane = plane or self.plane
        name = f"plane-{self.planes.index(plane)}"
        with (self.folder / f"{name}.log").open("a") as log:
            manager = Manager(
                plane.environment.config("manager"),
                ManagerOptions(
                    name="manager",
                    metrics_bind_address="0",
                    health_bind_address="0",
                    leader_election=bool(member),
                    leader_election_id="stack",
                    leader_election_namespace=self.namespace,
                    sharding=ShardingOptions(group="stack", member=member, settle=0.0)
                    if member
                    else None,
                ),
                logger=make_logger(format="console", stream=log),
            )
            stack = StackOptions(
                data_plane=plane.id, target_namespace=name, grace=1.0, probe_period=0.2
            )
            hub = await add_hub(manager, self.hub.environment.config(self.hub_user), stack)
            add_cosmos(manager, self.options, hub)
            async with manager.running(leading=not member):
                yield manager

    def node_set(self, name: str = "chain", **fields: object) -> dict[str, Any]:
        """Make a set of two nodes."""
        spec: dict[str, Any] = {
            "replicas": 2,
            "chain": {
                "chainID": "hub-1",
                "network": "testnet",
                "binary": "gaiad",
                "app": {"minGasPrice": "0.1uatom"},
                "config": {"rpcListenAddress": f"tcp://0.0.0.0:{self.comet.port}"},
            },
            "podTemplate": {"image": "gaia:v1"},
            "volumeClaimTemplate": {
                "storageClassName": CLASS,
                "resources": {"requests": {"storage": "1Gi"}},
            },
            "strategy": {"maxUnavailable": 1, "minReadySeconds": 0},
            "service": {"maxP2PExternalAddresses": 0},
        }
        return {
            "apiVersion": CosmosFullNode.gvk().api_version,
            "kind": "CosmosFullNode",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": laid_over(spec, fields),
        }

    async def read(self, plane: Server, name: str = "chain") -> CosmosFullNode | None:
        """Return a set of nodes, or None."""
        try:
            return await plane.client.get(CosmosFullNode, name, namespace=self.namespace)
        except NotFound:
            return None

    async def complete(self, plane: Server | None = None, name: str = "chain") -> CosmosFullNode:
        """Wait until all nodes of a set have caught up."""

        def holds(found: CosmosFullNode | None) -> bool:
            return (
                found is not None
                and found.status.phase == "Complete"
                and found.status.observed_generation == found.metadata.generation
                and found.status.ready_replicas == found.spec.replicas
            )

        look = partial(self.read, plane or self.plane, name)
        found: CosmosFullNode = await eventually(look, holds)
        return found

    async def condition(
        self, kind: str, status: str, reason: str, plane: Server | None = None
    ) -> Condition:
        """Wait until a condition of the set is this."""

        async def look() -> Condition | None:
            found = await self.read(plane or self.plane)
            return None if found is None else find_condition(found.status.conditions, kind)

        def holds(seen: Condition | None) -> bool:
            return seen is not None and (seen.status, seen.reason) == (status, reason)

        found: Condition = await eventually(look, holds)
        return found

    async def lift_protection(self, plane: Server) -> None:
        """Let the set go with its disks where it is deleted."""
        lifted = {"spec": {"deletionProtection": False}}
        await plane.client.patch(CosmosFullNode, "chain", lifted, namespace=self.namespace)

    async def gone(
        self, plane: Server | None = None, propagation: Propagation = "Background"
    ) -> None:
        """Delete the set, and wait until it is gone."""
        plane = plane or self.plane
        await self.lift_protection(plane)
        await plane.client.delete(
            CosmosFullNode, "chain", namespace=self.namespace, propagation=propagation
        )
        await eventually(partial(self.read, plane), lambda found: found is None)

    async def objects(self, server: Server, kind: RESTMapping) -> list[dict[str, Any]]:
        """Return what stacks made of a kind in the namespace."""
        selector = {CREATED_BY: FIELD_MANAGER}
        return list(await server.client.list(kind, self.namespace, labels=selector))

    async def uids(self, kind: RESTMapping = POD) -> dict[str, str]:
        """Return the UIDs of the hub's objects, by name."""
        found = await self.objects(self.hub, kind)
        return {each["metadata"]["name"]: each["metadata"]["uid"] for each in found}

    async def left(self, server: Server) -> dict[str, list[str]]:
        """Return what a server has of sets of nodes, by kind; kinds of which it has nothing are left out."""
        found = {
            kind.gvk.kind: [each["metadata"]["name"] for each in await self.objects(server, kind)]
            for kind in OF_NODES
        }
        return {kind: names for kind, names in found.items() if names}

    async def data_planes(self) -> set[str]:
        """Return the data planes that the hub's objects are labelled with."""
        return {
            each["metadata"]["labels"].get(DATA_PLANE, "")
            for kind in OF_NODES
            for each in await self.objects(self.hub, kind)
        }


@contextlib.asynccontextmanager
async def cosmos_fleet(
    folder: Path,
    hub: Environment,
    planes: int = 1,
    *,
    namespace: str = "default",
    hub_user: str = "manager",
    plane_users: tuple[str | User, ...] = USERS,
    authorization: Literal["AlwaysAllow", "RBAC"] | None = None,
) -> AsyncIterator[CosmosFleet]:
    """Start data planes beside a hub, which has machines and is not started yet; without stacks."""
    async with contextlib.AsyncExitStack() as stack:
        started = Server(await stack.enter_async_context(hub))
        await hub.install_crds(*SNAPSHOT_CRDS)
        made = []
        for number in range(planes):
            place = folder / f"plane-{number}"
            place.mkdir()
            around = Environment(
                proxy=True, folder=place, users=plane_users, authorization=authorization
            )
            plane = Server(await stack.enter_async_context(around))
            await around.install_crds(*KINDS)
            found = await plane.get(NAMESPACE, "kube-system")
            assert found is not None
            plane.id = found["metadata"]["uid"]
            made.append(plane)
        for each in (started, *made):
            if namespace != "default":
                await each.client.create(_named("v1", "Namespace", namespace))
        storage = {**_named("storage.k8s.io/v1", "StorageClass", CLASS), "provisioner": "test"}
        await started.client.create({**storage, "allowVolumeExpansion": True})
        stack.push_async_callback(started.client.delete, STORAGE_CLASS, CLASS)
        if namespace != "default":
            stack.push_async_callback(started.client.delete, NAMESPACE, namespace)
        comet = await stack.enter_async_context(CometNodes.start(started.client))
        yield CosmosFleet(folder, started, made, comet, namespace, hub_user)


def _named(api_version: str, kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}
