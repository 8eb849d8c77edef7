"""Self-healing alone, on an embedded API server: the hand of the test plays the controller of the sets.

    async with Ward.start(folder) as ward:
        bed = await ward.bed()
        await bed.admit(selfHeal={...})

The manager has the rights that these controllers declare, and no others.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, Self

from apis.cosmos import CosmosFullNode, PVCAutoScaleRequest
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.api.scalars import format_time
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.proxy import LogEntry, Mark
from ctrlruntime.envtest.users import User, administrator
from ctrlruntime.generate.permissions import Rule, policy_rules
from ctrlruntime.manager import Manager
from ctrlruntime.resources import ORDINAL, OWNER, OWNER_UID
from ctrlruntime.resources.ownership import owner_key
from internal.cosmos.labels import COMPONENT, CREATED_BY, FIELD_MANAGER, NAME, claim_name
from manager.controllers.cosmos_cache import add_cache
from manager.controllers.cosmos_options import CosmosOptions
from manager.controllers.cosmos_parts import declare_parts
from manager.controllers.cosmos_selfheal import NAME as CONTROLLER
from manager.controllers.cosmos_selfheal import add_selfhealing
from tests.cosmos.servers.comet import CometNode, CometNodes
from tests.cosmos.stepclock import RunningClock, StepClock
from tests.rbac import audited
from tests.support.manager_harness import ManagerHarness
from tests.support.waiting import eventually

POD = BUILTIN[GroupVersionKind("", "v1", "Pod")]
CLAIM = BUILTIN[GroupVersionKind("", "v1", "PersistentVolumeClaim")]
EVENT = BUILTIN[GroupVersionKind("events.k8s.io", "v1", "Event")]
SET = "hub"
ASKING = "nodes of "
"""What names of tasks begin with."""
PATIENCE = 60.0
"""Seconds that anything may take on a busy machine."""
FOR_OTHERS = ("snapshot.storage.k8s.io", "volumesnapshots", ("list", "watch"))
"""What is declared with the shared parts, for controllers that are not here."""
_RBAC = "rbac.authorization.k8s.io"


@dataclass(slots=True)
class Harness(ManagerHarness):
    """What runs."""

    comet: CometNodes
    clock: StepClock = field(default_factory=StepClock)
    answers: RunningClock = field(default_factory=RunningClock)
    """What answers of nodes are stamped with."""
    _numbers: Any = field(default_factory=lambda: count(1))

    @classmethod
    @contextlib.asynccontextmanager
    async def start(cls, folder: Path) -> AsyncIterator[Self]:
        env = Environment(
            users=(administrator("admin"), User(name="manager")), authorization="RBAC", proxy=True
        )
        async with env, CometNodes.start(env.client("envtest")) as comet:
            await env.install_crds(CosmosFullNode)
            for name, expands in (("standard", True), ("fixed", False)):
                await env.client("envtest").create(_storage_class(name, expands))
            ward = cls(env, folder, comet)
            with audited(env, ["manager"], "cosmos"):
                await ward.start_manager()
                try:
                    yield ward
                finally:
                    await ward.stop_manager()
                assert ward.background() == []

    async def add_controllers(self, manager: Manager) -> None:
        options = CosmosOptions(
            poll_seconds=0.1,
            poll_timeout_seconds=PATIENCE,
            disk_seconds=0.1,
            heal_seconds=0.1,
            clock=self.clock,
            now=self.answers.now,
        )
        parts = declare_parts(manager, options)
        add_selfhealing(parts, add_cache(parts))
        await self._grant(manager)

    async def _grant(self, manager: Manager) -> None:
        rules = [
            Rule(groups=(group,), resources=(plural,), verbs=tuple(verbs))
            for group, plural, verbs in (*manager.permissions(), FOR_OTHERS)
        ]
        common = {"apiVersion": f"{_RBAC}/v1", "metadata": {"name": "selfheal"}}
        role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "selfheal"}
        subject = {"kind": "User", "apiGroup": _RBAC, "name": "manager"}
        await self.client.create({**common, "kind": "ClusterRole", "rules": policy_rules(rules)})
        await self.client.create(
            {**common, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [subject]}
        )

    async def bed(self) -> Namespace:
        """A namespace of its own for a test."""
        name = f"bed-{next(self._numbers)}"
        await self.client.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        )
        return Namespace(self, name)

    def looks(self) -> float:
        """How often the controller looked at a set."""
        assert self.manager is not None
        labels = {"controller": CONTROLLER, "result": "requeue_after"}
        found = self.manager.metrics.registry.get_sample_value(
            "controller_runtime_reconcile_total", labels
        )
        return found or 0.0

    def sample(self, name: str) -> float:
        """A series without labels."""
        assert self.manager is not None
        return self.manager.metrics.registry.get_sample_value(name) or 0.0

    async def until_looked(self, times: int = 4) -> None:
        """Until it has looked again so often, at sets of any test: those of earlier ones are gone."""
        wanted = self.looks() + times
        await eventually(lambda: self.looks() >= wanted)

    def background(self) -> list[str]:
        """The sets whose nodes are asked."""
        names = (task.get_name() for task in asyncio.all_tasks())
        return sorted(name.removeprefix(ASKING) for name in names if name.startswith(ASKING))

    def refused(self) -> list[LogEntry]:
        """What the manager had no right to."""
        entries = self.environment.proxy.log.entries()
        return [each for each in entries if each.user == "manager" and each.code == 403]


@dataclass(slots=True)
class Namespace:
    """One namespace with a set of nodes, and the words of the tests."""

    ward: Harness
    namespace: str
    _uid: str = ""
    _numbers: Any = field(default_factory=lambda: count(1))

    @property
    def client(self) -> Client:
        return self.ward.client

    def node(self, ordinal: int) -> CometNode:
        return self.ward.comet.node(f"{SET}-{ordinal}", self.namespace)

    async def admit(
        self,
        replicas: int = 3,
        *,
        pods: int | None = None,
        capacity: str = "100Gi",
        storage_class: str = "standard",
        status: Mapping[str, Any] | None = None,
        **spec: object,
    ) -> None:
        """Make a set, its Pods and its claims; `spec` has further fields of the set."""
        made: Any = await self.client.create(_node_set(self.namespace, replicas, spec))
        self._uid = made["metadata"]["uid"]
        if status:
            await self.set_status(**status)
        for ordinal in range(replicas):
            await self.add_claim(ordinal, capacity, storage_class)
        for ordinal in range(replicas if pods is None else pods):
            await self.add_pod(ordinal)

    async def discharge(self) -> None:
        """Take the set away, and what it has."""
        with contextlib.suppress(NotFound):
            await self.client.delete(CosmosFullNode, SET, namespace=self.namespace)
        for pod in await self.client.list(POD, self.namespace):
            await self.remove_pod(pod["metadata"]["name"])

    async def add_pod(self, ordinal: int) -> str:
        """A Pod that has been ready for an hour. Its UID is returned."""
        name, port = f"{SET}-{ordinal}", self.ward.comet.port
        ports = [{"name": "rpc", "containerPort": port}]
        health = [{"name": "health", "containerPort": port}]
        spec = {
            "volumes": [
                {"name": "home", "persistentVolumeClaim": {"claimName": claim_name(SET, ordinal)}}
            ],
            "nodeName": "machine",  # so that whoever deletes it has to wait for the machine
            "containers": [
                {"name": "node", "image": "gaia:v1", "ports": ports},
                {"name": "healthcheck", "image": "manager:v1", "ports": health},
            ],
        }
        metadata = self._metadata(name, ordinal)
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        made: Any = await self.client.create(manifest)
        since = format_time(datetime.now(UTC) - timedelta(hours=1))
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": since}
        number, bed = next(self._numbers), int(self.namespace.rpartition("-")[2])
        address = f"127.131.{bed}.{number}"
        status = {"phase": "Running", "podIP": address, "conditions": [ready]}
        await self.client.patch_status(POD, name, {"status": status}, namespace=self.namespace)
        return str(made["metadata"]["uid"])

    async def set_pod(self, ordinal: int, **status: object) -> None:
        """Merge into the status of a Pod, as its machine does."""
        name = f"{SET}-{ordinal}"
        await self.client.patch_status(POD, name, {"status": status}, namespace=self.namespace)

    async def run(self, ordinal: int) -> None:
        """The node's container has run for an hour, and its Pod is an hour old."""
        since = format_time(datetime.now(UTC) - timedelta(hours=1))
        container = {
            "name": "node",
            "image": "gaia:v1",
            "imageID": "gaia:v1",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": since}},
        }
        await self.set_pod(ordinal, containerStatuses=[container])

    async def remove_pod(self, name: str) -> None:
        """The machine lets it go."""
        with contextlib.suppress(NotFound):
            await self.client.delete(POD, name, namespace=self.namespace, grace_period=0)

    async def add_claim(self, ordinal: int, capacity: str, storage_class: str) -> None:
        metadata = self._metadata(claim_name(SET, ordinal), ordinal)
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": capacity}},
        }
        await self.client.create(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": metadata,
                "spec": spec,
            }
        )
        await self.grow(ordinal, capacity)

    async def delete_claim(self, ordinal: int) -> None:
        """By hand, of a claim that is kept as long as its Pod runs."""
        name = claim_name(SET, ordinal)
        held = {"metadata": {"finalizers": ["example.com/in-use"]}}
        await self.client.patch(CLAIM, name, held, namespace=self.namespace)
        await self.client.delete(CLAIM, name, namespace=self.namespace)

    async def let_claim_go(self, ordinal: int) -> None:
        """Its last user has gone."""
        free = {"metadata": {"finalizers": None}}
        await self.client.patch(CLAIM, claim_name(SET, ordinal), free, namespace=self.namespace)

    async def grow(self, ordinal: int, capacity: str) -> None:
        """A disk has this size now."""
        status = {"phase": "Bound", "capacity": {"storage": capacity}}
        name = claim_name(SET, ordinal)
        await self.client.patch_status(CLAIM, name, {"status": status}, namespace=self.namespace)

    async def set_status(self, **status: object) -> None:
        """What others write into the status of the set."""
        await self.client.patch_status(
            CosmosFullNode, SET, {"status": status}, namespace=self.namespace
        )

    async def edit(self, **spec: object) -> None:
        await self.client.patch(CosmosFullNode, SET, {"spec": spec}, namespace=self.namespace)

    async def get(self) -> CosmosFullNode:
        return await self.client.get(CosmosFullNode, SET, namespace=self.namespace)

    async def requests(self) -> dict[str, PVCAutoScaleRequest]:
        return (await self.get()).status.self_healing.pvc_auto_scaler

    async def until_requested(self, **sizes: str) -> None:
        """Until these sizes, and no others, are asked for: `pvc_hub_0="120Gi"`."""
        wanted = {name.replace("_", "-"): size for name, size in sizes.items()}

        async def sizes_requested() -> dict[str, str]:
            found = await self.requests()
            return {name: str(each.requested_size) for name, each in found.items()}

        await eventually(sizes_requested, lambda found: found == wanted, timeout=PATIENCE)

    async def going(self) -> list[str]:
        """Names of Pods that are being deleted."""
        pods = await self.client.list(POD, self.namespace)
        return sorted(
            pod["metadata"]["name"] for pod in pods if pod["metadata"].get("deletionTimestamp")
        )

    async def until_going(self, *names: str) -> None:
        await eventually(self.going, lambda found: found == sorted(names), timeout=PATIENCE)

    async def until_asked(self, ordinal: int, times: int = 3) -> None:
        """Until a node was asked so often since now: what it says now is known by then."""
        name = f"{SET}-{ordinal}"
        await self.ward.comet.until_asked(name, self.namespace, more=times, timeout=PATIENCE)

    async def until_silent(self, *ordinals: int, seconds: float) -> None:
        """Until nodes have not answered for so long, were asked since, and the controller has looked at that."""
        await asyncio.gather(*map(self.until_asked, ordinals))
        self.ward.answers.step(seconds=seconds)
        await asyncio.gather(*map(self.until_asked, ordinals))
        await self.ward.until_looked()

    async def events(self) -> list[tuple[str, str]]:
        """Reasons and notes of all events, as soon as they are written."""
        assert self.ward.manager is not None
        await self.ward.manager.recorder.flush(PATIENCE)
        found = await self.client.list(EVENT, self.namespace)
        return sorted((each["reason"], each["note"]) for each in found)

    async def until_event(self, reason: str) -> str:
        """Its note."""

        async def notes() -> list[str]:
            return [note for found, note in await self.events() if found == reason]

        return (await eventually(notes, timeout=PATIENCE))[0]

    def writes(self, since: Mark) -> list[LogEntry]:
        """What the manager wrote here since then, events aside."""
        return [
            item
            for item in self.ward.environment.proxy.log.entries(since)
            if item.user == "manager"
            and item.namespace == self.namespace
            and item.verb not in ("get", "list", "watch")
            and not item.resource.startswith("events.")
        ]

    def mark(self) -> Mark:
        return self.ward.environment.proxy.log.mark()

    def _metadata(self, name: str, ordinal: int) -> dict[str, Any]:
        gvk = CosmosFullNode.gvk()
        reference = {
            "apiVersion": gvk.api_version,
            "kind": gvk.kind,
            "name": SET,
            "uid": self._uid,
            "controller": True,
        }
        return {
            "name": name,
            "namespace": self.namespace,
            "labels": {CREATED_BY: FIELD_MANAGER, NAME: SET, COMPONENT: gvk.kind},
            "annotations": {
                ORDINAL: str(ordinal),
                OWNER: owner_key(gvk, SET, namespace=self.namespace),
                OWNER_UID: self._uid,
            },
            "ownerReferences": [reference],
        }


def _node_set(namespace: str, replicas: int, more: Mapping[str, Any]) -> dict[str, Any]:
    spec = {
        "replicas": replicas,
        "chain": {
            "chainID": "hub-1",
            "network": "testnet",
            "binary": "gaiad",
            "app": {"minGasPrice": "0.1uatom"},
        },
        "podTemplate": {"image": "gaia:v1"},
        "volumeClaimTemplate": {
            "storageClassName": "standard",
            "resources": {"requests": {"storage": "100Gi"}},
        },
        "strategy": {"maxUnavailable": 1, "minReadySeconds": 0},
        **more,
    }
    return {
        "apiVersion": CosmosFullNode.gvk().api_version,
        "kind": "CosmosFullNode",
        "metadata": {"name": SET, "namespace": namespace},
        "spec": spec,
    }


def _storage_class(name: str, expands: bool) -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "test",
        "allowVolumeExpansion": expands,
    }
