"""Data planes with Instances, whose runs and workloads are on one hub: Jobs run as processes, and a server plays HCP Terraform."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from apis.cloud import (
    FleetRollout,
    Instance,
    InstanceInvariants,
    InstanceKubernetes,
    InstanceKubernetesPVC,
    InstanceTerraform,
    Phase,
    UpgradeInstanceTask,
)
from apis.fleet.labels import DATA_PLANE
from ctrlruntime.api.conditions import Condition, find_condition
from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.proxy import Mark
from ctrlruntime.envtest.proxy.log import Row
from ctrlruntime.envtest.users import User
from ctrlruntime.manager import Manager
from ctrlruntime.manager.logs import make_logger
from ctrlruntime.resources import OWNER
from ctrlruntime.sharding import ShardingOptions
from internal.cloud.labels import INSTANCE
from internal.cloud.pace import Pace
from internal.cloud.runs.jobs import JobRuns
from internal.cloud.subresources import SUBRESOURCES, kubernetes
from internal.cloud.tasks.task import Retries
from internal.named_secrets import Purpose
from manager.controllers.cloud import add_cloud
from manager.controllers.cloud_options import CloudOptions
from manager.controllers.hub import StackOptions, add_hub
from manager.controllers.object_cluster import ObjectCluster
from tests.cloud.lifecycle.e2e_environment import RUNS, PassingClock, SwiftState, frontend
from tests.cloud.servers.hcp import HCPServer
from tests.cloud.servers.hcp.server import TOKEN
from tests.cloud.tasks.kubeconfigs import inline
from tests.fleet.stack.harness import NAMESPACE, Server, builtin, eventually
from tests.support import waiting
from tests.support.manager_harness import PATIENT, make_manager

JOB = builtin("batch/v1", "Job")
POD = builtin("v1", "Pod")
SECRET = builtin("v1", "Secret")
CONFIG_MAP = builtin("v1", "ConfigMap")
DEPLOYMENT = builtin("apps/v1", "Deployment")
ON_HUB = (JOB, POD, SECRET, CONFIG_MAP)
"""What runs have on the hub."""
KINDS = (
    Instance,
    InstanceTerraform,
    InstanceKubernetes,
    InstanceKubernetesPVC,
    InstanceInvariants,
    UpgradeInstanceTask,
)
CUSTOMER = "customer"
"""Whose kubeconfig opens the cluster of the workload: the hub."""
USERS = ("admin", "manager", CUSTOMER)
NAME = "src-1"
PACE = Pace(hub=1.0)
QUICK = replace(kubernetes.DEFINITION, retries=Retries(base=1.0))
SUBRESOURCES_QUICK = [
    replace(item, definition=QUICK) if item.kind is InstanceKubernetes else item
    for item in SUBRESOURCES
]
"""Whose workload is repaired a second after its last run."""


@dataclass(slots=True)
class CloudFleet:
    """A hub with machines, and data planes."""

    folder: Path
    hub: Server
    planes: list[Server]
    hcp: HCPServer
    namespace: str
    hub_user: str = "manager"
    options: CloudOptions = field(default_factory=lambda: CloudOptions(pace=PACE))

    @property
    def plane(self) -> Server:
        """The first data plane."""
        return self.planes[0]

    @property
    def workloads(self) -> str:
        """The namespace of the hub that the workload of the instance is in."""
        return f"{self.namespace}-app"

    @contextlib.asynccontextmanager
    async def running(
        self, plane: Server | None = None, *, member: str = ""
    ) -> AsyncIterator[Manager]:
        """Run the stack of a data plane on this loop, or a member of it, which has its slots when this begins."""
        plane = plane or self.plane
        name = f"plane-{self.planes.index(plane)}"
        with (self.folder / f"{name}.log").open("a") as log:
            manager = make_manager(
                plane.environment.config("manager"),
                logger=make_logger(format="console", stream=log),
                name="manager",
                leader_election=bool(member),
                leader_election_id="members",
                leader_election_namespace="default",
                election=PATIENT,
                sharding=ShardingOptions(group="fleet", member=member, settle=0.0)
                if member
                else None,
            )
            stack = StackOptions(
                data_plane=plane.id, target_namespace=name, grace=1.0, probe_period=0.2
            )
            hub = await add_hub(manager, self.hub.environment.config(self.hub_user), stack)
            there = ObjectCluster(manager, hub, field_manager="none")
            runs = JobRuns(there.live_client, RUNS, there.cache, placement=there.placement)
            add_cloud(manager, self.options, SUBRESOURCES_QUICK, provider=runs, hub=hub)
            shards = manager.shards
            async with manager.running(leading=shards is None):
                if shards is not None:
                    await waiting.eventually(lambda: shards.held, timeout=60)
                yield manager
            await runs.aclose()

    def instance(self, *, protected: bool = False, **spec: object) -> dict[str, Any]:
        """Make an instance with infrastructure, whose workload is on the hub."""
        terraform = {
            "organization": "acme",
            "address": self.hcp.url,
            "tokenFrom": {"name": "hcp", "key": "token"},
            "module": {
                "source": "app.terraform.io/acme/instance/google",
                "version": "~> 2.0",
                "outputs": ["project_id"],
                "sensitiveOutputs": ["kubeconfig"],
            },
        }
        return {
            "apiVersion": Instance.gvk().api_version,
            "kind": "Instance",
            "metadata": {"name": NAME, "namespace": self.namespace},
            "spec": {
                "version": "5.0.0",
                "domain": f"{self.namespace}.example.com",
                "infrastructure": {"terraform": terraform},
                "cluster": {
                    "namespace": self.workloads,
                    "bundle": {"manifests": [frontend()]},
                },
                "debug": {"enableDeletionProtection": protected},
                **spec,
            },
        }

    async def read(self, plane: Server, name: str = NAME) -> Instance | None:
        """Return an instance, or None."""
        try:
            return await plane.client.get(Instance, name, namespace=self.namespace)
        except NotFound:
            return None

    async def ready(
        self, plane: Server | None = None, version: str = "5.0.0", name: str = NAME
    ) -> Instance:
        """Wait until an instance is ready in a version."""

        def holds(found: Instance | None) -> bool:
            return (
                found is not None
                and found.status.phase is Phase.READY
                and found.status.version == version
                and found.status.observed_generation == found.metadata.generation
            )

        found: Instance = await eventually(partial(self.read, plane or self.plane, name), holds)
        return found

    async def condition(
        self, kind: str, status: str, reason: str, plane: Server | None = None
    ) -> Condition:
        """Wait until a condition of the instance is this."""

        async def look() -> Condition | None:
            found = await self.read(plane or self.plane)
            return None if found is None else find_condition(found.status.conditions, kind)

        def holds(seen: Condition | None) -> bool:
            return seen is not None and (seen.status, seen.reason) == (status, reason)

        found: Condition = await eventually(look, holds)
        return found

    async def gone(self, plane: Server | None = None) -> None:
        """Delete the instance, and wait until it is gone."""
        plane = plane or self.plane
        await plane.client.delete(Instance, NAME, namespace=self.namespace)
        await eventually(partial(self.read, plane), lambda found: found is None)

    async def objects(
        self, server: Server, kind: RESTMapping, instance: str = ""
    ) -> list[dict[str, Any]]:
        """Return what stacks, and the Jobs that they made, have of a kind in the namespace."""
        labels = f"{INSTANCE}={instance}" if instance else INSTANCE
        return list(await server.client.list(kind, self.namespace, labels=labels))

    async def uids(self, kind: RESTMapping = JOB, instance: str = "") -> dict[str, str]:
        """Return the UIDs of the hub's objects, by name; of one instance, or of all."""
        found = await self.objects(self.hub, kind, instance)
        return {each["metadata"]["name"]: each["metadata"]["uid"] for each in found}

    async def left(self, server: Server) -> dict[str, list[str]]:
        """Return what a server has of instances, by kind; kinds of which it has nothing are left out."""
        found = {
            kind.gvk.kind: [each["metadata"]["name"] for each in await self.objects(server, kind)]
            for kind in ON_HUB
        }
        return {kind: names for kind, names in found.items() if names}

    async def data_planes(self) -> set[str]:
        """Return the data planes that the hub's objects are labelled with."""
        return {
            each["metadata"]["labels"].get(DATA_PLANE, "")
            for kind in ON_HUB
            for each in await self.objects(self.hub, kind)
        }

    async def owners(self, kind: RESTMapping) -> set[str]:
        """Return the owners that the hub's objects of a kind record."""
        found = await self.objects(self.hub, kind)
        recorded = (each["metadata"].get("annotations") or {} for each in found)
        return {annotations[OWNER] for annotations in recorded if OWNER in annotations}


def writes(server: Server, since: Mark) -> list[Row]:
    """Return what stacks wrote to a server since then, events aside."""
    reads = {"get", "list", "watch"}
    rows = server.counts(since)
    return [row for row in rows if row.verb not in reads and row.resource != "events"]


def embedded_hub(
    folder: Path,
    users: tuple[str | User, ...] = USERS,
    authorization: Literal["AlwaysAllow", "RBAC"] | None = None,
) -> Environment:
    """An embedded API server with machines, which run Pods of Jobs as processes."""
    (folder / "hub").mkdir()
    return Environment(
        proxy=True,
        nodes=True,
        run_local=True,
        folder=folder / "hub",
        users=users,
        authorization=authorization,
    )


@contextlib.asynccontextmanager
async def cloud_fleet(
    folder: Path,
    hub: Environment,
    planes: int = 1,
    *,
    namespace: str = "default",
    hub_user: str = "manager",
    plane_users: tuple[str | User, ...] = USERS,
    authorization: Literal["AlwaysAllow", "RBAC"] | None = None,
) -> AsyncIterator[CloudFleet]:
    """Start data planes beside a hub, which has machines and is not started yet; without stacks."""
    hcp = HCPServer(PassingClock())
    hcp.fake_state = SwiftState(hcp.clock)
    hcp.fake_state.upload_looks = hcp.fake_state.output_looks = 0
    async with contextlib.AsyncExitStack() as stack:
        started = Server(await stack.enter_async_context(hub))
        await stack.enter_async_context(hcp)
        made = []
        for number in range(planes):
            place = folder / f"plane-{number}"
            place.mkdir()
            around = Environment(
                proxy=True, folder=place, users=plane_users, authorization=authorization
            )
            plane = Server(await stack.enter_async_context(around))
            await around.install_crds(*KINDS, FleetRollout)
            found = await plane.get(NAMESPACE, "kube-system")
            assert found is not None
            plane.id = found["metadata"]["uid"]
            made.append(plane)
        hcp.fake_state.values["kubeconfig"] = inline(hub.kubeconfig(CUSTOMER))
        fleet = CloudFleet(folder, started, made, hcp, namespace, hub_user)
        for server in (started, *made):
            if namespace != "default":
                await server.client.create(_namespace(namespace))
        await started.client.create(_namespace(fleet.workloads))
        for name in {namespace, fleet.workloads} - {"default"}:
            stack.push_async_callback(started.client.delete, NAMESPACE, name)
        await started.client.create(token_of(namespace))
        yield fleet


def token_of(namespace: str) -> dict[str, Any]:
    """Make the Secret that opens HCP Terraform."""
    labels = {Purpose.TERRAFORM.value: "true"}
    metadata = {"name": "hcp", "namespace": namespace, "labels": labels}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "stringData": {"token": TOKEN},
    }


def _namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
