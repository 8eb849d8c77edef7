"""Sets of nodes on an embedded API server, with simulated machines and a Comet server that plays all nodes.

    async with NodeSetHarness.start(folder) as harness:
        place = await harness.place()
        await place.apply(place.node_set())
        await place.phase("Complete")

One harness serves many tests, each in a namespace of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Self

from apis.cosmos import CosmosFullNode, ScheduledVolumeSnapshot, StatefulJob
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import AlreadyExists, NotFound
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.proxy import LogEntry, Mark
from ctrlruntime.envtest.users import User, administrator
from ctrlruntime.json import Json
from ctrlruntime.manager import Manager
from internal.cosmos.times import Times
from manager.controllers.cosmos import add_cosmos
from manager.controllers.cosmos_options import CosmosOptions
from tests.backends import SharedServer
from tests.cosmos.servers.comet import CometNode, CometNodes
from tests.rbac import audited, grant
from tests.support.manager_harness import ManagerHarness
from tests.support.waiting import eventually

POD = BUILTIN[GroupVersionKind("", "v1", "Pod")]
CLAIM = BUILTIN[GroupVersionKind("", "v1", "PersistentVolumeClaim")]
SERVICE = BUILTIN[GroupVersionKind("", "v1", "Service")]
CONFIG_MAP = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]
SECRET = BUILTIN[GroupVersionKind("", "v1", "Secret")]
STORAGE_CLASS = BUILTIN[GroupVersionKind("storage.k8s.io", "v1", "StorageClass")]
EVENT = BUILTIN[GroupVersionKind("events.k8s.io", "v1", "Event")]
NAMESPACE = BUILTIN[GroupVersionKind("", "v1", "Namespace")]

KINDS = (CosmosFullNode, ScheduledVolumeSnapshot, StatefulJob)
PATIENCE = 120.0
"""Seconds that anything may take on a busy machine."""
NAME = "hub"
OPTIONS = CosmosOptions(
    poll_seconds=0.2,
    disk_seconds=0.5,
    node_sidecar_image="manager:v1",
    times=Times(progress=0.2, external=0.5, failure=0.5, upgrade=0.3),
)


_numbers = count()
"""Of namespaces, also where harnesses come and go on one real server."""


@dataclass(slots=True)
class NodeSetHarness(ManagerHarness):
    """What runs."""

    comet: CometNodes
    options: CosmosOptions = OPTIONS

    @classmethod
    @contextlib.asynccontextmanager
    async def start(
        cls,
        folder: Path,
        *,
        options: CosmosOptions = OPTIONS,
        tls: bool = False,
    ) -> AsyncIterator[Self]:
        """A server with our kinds, machines, nodes, and the controllers."""
        env = Environment(
            users=(administrator("admin"), User(name="manager")),
            authorization="RBAC",
            proxy=True,
            nodes=True,
            folder=folder,
            tls=tls,
        )
        async with cls._running_on(env, options) as harness, contextlib.AsyncExitStack() as stack:
            stack.enter_context(audited(env, ["manager"], "cosmos"))
            await grant(env, ["manager"], "cosmos")
            await harness.start_manager()
            try:
                yield harness
            finally:
                await harness.stop_manager()

    @classmethod
    @contextlib.asynccontextmanager
    async def with_members(
        cls, folder: Path, members: Sequence[str], server: SharedServer | None = None
    ) -> AsyncIterator[Self]:
        """The same without a manager, for several that share the sets. On a real `server` they are administrators."""
        if server is None:
            users = (administrator("admin"), *(User(name=each) for each in members))
            env = Environment(
                users=users, authorization="RBAC", proxy=True, nodes=True, folder=folder
            )
        else:
            users = tuple(administrator(each) for each in ("admin", *members))
            env = server.environment(users=users, proxy=True, nodes=True, folder=folder)
        async with cls._running_on(env, OPTIONS) as harness:
            if server is None:
                await grant(env, members, "cosmos")
                await grant(env, members, "leases")
            yield harness

    @classmethod
    @contextlib.asynccontextmanager
    async def _running_on(cls, env: Environment, options: CosmosOptions) -> AsyncIterator[Self]:
        async with env, CometNodes.start(env.client("envtest")) as comet:
            await env.install_crds(*KINDS)
            for name, expands in (("standard", True), ("fixed", False)):
                with contextlib.suppress(AlreadyExists):  # of another test on this server
                    await env.client("envtest").create(_storage_class(name, expands))
            yield cls(env, env.folder, comet, options)

    async def add_controllers(self, manager: Manager) -> None:
        add_cosmos(manager, self.options)

    async def place(self) -> Place:
        """A namespace of its own for a test."""
        name = f"place-{next(_numbers)}"
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await self.client.create(manifest)
        return Place(self, name)


@dataclass(frozen=True, slots=True)
class Place:
    """One namespace, and the words of the tests."""

    harness: NodeSetHarness
    namespace: str

    @property
    def client(self) -> Client:
        return self.harness.client

    def node(self, ordinal: int, name: str = NAME) -> CometNode:
        """What a node says."""
        return self.harness.comet.node(f"{name}-{ordinal}", self.namespace)

    def node_set(self, name: str = NAME, **fields: object) -> dict[str, Any]:
        """A manifest of three nodes; `fields` of the spec are laid over, folder by folder."""
        port = self.harness.comet.port
        spec: dict[str, Any] = {
            "replicas": 3,
            "chain": {
                "chainID": "hub-1",
                "network": "testnet",
                "binary": "gaiad",
                "app": {"minGasPrice": "0.1uatom"},
                "config": {"rpcListenAddress": f"tcp://0.0.0.0:{port}"},
            },
            "podTemplate": {"image": "gaia:v1"},
            "volumeClaimTemplate": {
                "storageClassName": "standard",
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

    async def apply(self, manifest: Mapping[str, Any]) -> None:
        await self.client.apply(dict(manifest), field_manager="people", force=True)

    async def edit(self, name: str = NAME, **spec: object) -> None:
        """Merge into the spec by hand."""
        patch = {"spec": spec}
        await self.client.patch(
            CosmosFullNode, name, patch, namespace=self.namespace, field_manager="people"
        )

    async def set_status(self, name: str = NAME, **status: object) -> None:
        """Merge into the status, as others do."""
        await self.client.patch_status(
            CosmosFullNode, name, {"status": status}, namespace=self.namespace
        )

    async def get(self, name: str = NAME) -> CosmosFullNode | None:
        try:
            return await self.client.get(CosmosFullNode, name, namespace=self.namespace)
        except NotFound:
            return None

    async def object(self, kind: RESTMapping, name: str) -> Json:
        try:
            return await self.client.get(kind, name, namespace=self.namespace)
        except NotFound:
            return None

    async def names(self, kind: RESTMapping) -> list[str]:
        found = await self.client.list(kind, self.namespace)
        return sorted(item["metadata"]["name"] for item in found)

    async def until(
        self, is_so: Callable[[CosmosFullNode], bool], name: str = NAME
    ) -> CosmosFullNode:
        """The set, as soon as it is so."""
        return await eventually(
            lambda: self.client.get(CosmosFullNode, name, namespace=self.namespace),
            is_so,
            despite=NotFound,
            timeout=PATIENCE,
        )

    async def gone(self, name: str = NAME) -> None:
        """Wait until there is no such set."""
        await eventually(partial(self.get, name), lambda found: found is None, timeout=PATIENCE)

    async def until_object(
        self, kind: RESTMapping, name: str, is_so: Callable[[Any], bool]
    ) -> Json:
        """An object (None if there is none), as soon as it is so."""
        return await eventually(partial(self.object, kind, name), is_so, timeout=PATIENCE)

    async def phase(self, phase: str, name: str = NAME) -> CosmosFullNode:
        """The set, once it is in that phase for its present generation."""
        return await self.until(
            lambda found: (
                found.status.phase == phase
                and found.status.observed_generation == found.metadata.generation
            ),
            name,
        )

    async def settled(self, name: str = NAME) -> CosmosFullNode:
        """The set, once nothing is outdated and every node has caught up."""
        return await self.until(
            lambda found: (
                found.status.phase == "Complete"
                and found.status.observed_generation == found.metadata.generation
                and found.status.ready_replicas == found.spec.replicas
                and found.status.replicas == found.spec.replicas
            ),
            name,
        )

    async def uids(self) -> dict[str, str]:
        """UIDs of all Pods, by name."""
        found = await self.client.list(POD, self.namespace)
        return {item["metadata"]["name"]: item["metadata"]["uid"] for item in found}

    async def until_event(self, reason: str) -> None:
        """Wait for an event of that reason: events are sent in the background."""

        async def reasons() -> set[str]:
            return {item["reason"] for item in await self.client.list(EVENT, self.namespace)}

        await eventually(reasons, lambda found: reason in found, timeout=PATIENCE)

    def requests(self, since: Mark) -> list[LogEntry]:
        """What the manager asked since then of this namespace, watches aside."""
        return [item for item in self.harness.requests(since) if item.namespace == self.namespace]

    def writes(self, since: Mark) -> list[LogEntry]:
        return [item for item in self.harness.writes(since) if item.namespace == self.namespace]

    async def polled(self) -> None:
        """Wait until every node that runs was polled once more, and what the manager makes of the answers is done."""
        running = [
            item["metadata"]["name"]
            for item in await self.client.list(POD, self.namespace)
            if item["status"].get("phase") == "Running"
            and "deletionTimestamp" not in item["metadata"]
        ]
        # The second question follows when the first answer has been taken in.
        asked = (self.harness.comet.until_asked(name, self.namespace, more=2) for name in running)
        await asyncio.gather(*asked)
        await self.harness.idle()

    async def clear(self) -> None:
        """Delete all sets, with their disks."""
        for found in await self.client.list(CosmosFullNode, self.namespace):
            name = found.metadata.name or ""
            await self.edit(name, deletionProtection=False)
            await self.client.delete(CosmosFullNode, name, namespace=self.namespace)

    def deletions(self, since: Mark, resource: str = "pods") -> list[str]:
        """Names of what the manager deleted since then, in order."""
        return [
            item.name
            for item in self.writes(since)
            if item.verb == "delete" and item.resource == resource and item.code < 300
        ]


def laid_over(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Both, folder by folder; what is over wins."""
    made = dict(under)
    for key, value in over.items():
        old = made.get(key)
        both = isinstance(value, Mapping) and isinstance(old, Mapping)
        made[key] = laid_over(old, value) if both else value  # type: ignore[arg-type]
    return made


def pods(numbers: Sequence[int], name: str = NAME) -> list[str]:
    """Names of the Pods of these nodes."""
    return [f"{name}-{number}" for number in numbers]


def _storage_class(name: str, expands: bool) -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "test",
        "allowVolumeExpansion": expands,
    }
