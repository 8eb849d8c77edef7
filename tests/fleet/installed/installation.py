"""Operator and stacks as they are installed: config/operator on the hub, config/data-plane on the data plane, every
program a process with the rights of its account on either server."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apis.fleet import FleetConfig
from apis.fleet.labels import (
    DATA_PLANE,
    KUBECONFIG_KEY,
    KUBECONFIG_SECRET,
    PLANE_NAMESPACE,
)
from ctrlruntime.api.conditions import find_condition
from ctrlruntime.client.client import Client
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.proxy import Counts
from internal.fleet.labels import ADMISSION, CONTROLLERS, WORKERS
from internal.fleet.stack_builder import DEPLOYMENT, STATEFUL_SET
from tests.audit.rights import granted, taken
from tests.fleet.stack.harness import (
    NAMESPACE,
    Server,
    eventually,
)
from tests.limits import CRD_SECONDS
from tests.manager_cli.program import Program
from tests.manifests.installation import add, kustomized
from tests.support.pods import LocalPods, account_kubeconfig

OPERATOR = "ctrlruntime-fleet-operator"
SYSTEM = "ctrlruntime-system"
WORKLOADS = ((DEPLOYMENT, CONTROLLERS, 2), (DEPLOYMENT, ADMISSION, 1), (STATEFUL_SET, WORKERS, 1))
RARELY_USED = {
    "create events.events.k8s.io",
    "patch events.events.k8s.io",
    "create subjectaccessreviews.authorization.k8s.io",
    "create tokenreviews.authentication.k8s.io",
    "watch leases.coordination.k8s.io",
}
"""For Warnings, for readers of the operator's metrics, and for a candidate that waits: none is there for certain. Who
gets the Lease at once may stop the watch of it before its request is sent."""
WITHOUT_CAUSE = {"bind", "get", "list"}
"""`bind` is no request; an object is read alone after a conflict; a watch that begins with a list needs none."""


@contextlib.asynccontextmanager
async def installed(backend: str, folder: Path, part: str) -> AsyncIterator[Server]:
    """A server with a folder of config/ applied to it, without the Deployment."""
    settings: dict[str, Any] = {}
    if backend == "kube-apiserver":
        settings["apiserver_flags"] = {"enable-priority-and-fairness": "false"}
    async with Environment(
        backend, proxy=True, folder=folder, authorization="RBAC", server=settings
    ) as environment:
        made = Server(environment)
        objects = kustomized(part)
        crds = [each for each in objects if each["kind"] == "CustomResourceDefinition"]
        if part == "operator":
            crds = [
                each
                for each in kustomized("crd")
                if each["spec"]["names"]["kind"] == FleetConfig.gvk().kind
            ]
            await made.client.apply(namespace(SYSTEM), field_manager="install")
        await environment.install_crds(*crds, timeout=CRD_SECONDS)
        rest = [
            each
            for each in objects
            if each["kind"] not in {"CustomResourceDefinition", "Deployment"}
        ]
        rest.sort(key=lambda each: each["kind"] != "Namespace")
        await add(made.client, rest)
        found = await made.get(NAMESPACE, "kube-system")
        assert found is not None
        made.id = found["metadata"]["uid"]
        yield made


def namespace(name: str, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": labels},
    }


@dataclass
class Installation:
    """A hub with the operator, and data planes."""

    hub: Server
    planes: list[Server]
    folder: Path
    operator: Program
    pods: dict[str, LocalPods] = field(default_factory=dict)

    @property
    def client(self) -> Client:
        return self.hub.client

    async def add(self, name: str, plane: Server) -> None:
        """Make a target namespace, as docs/fleet.md has it."""
        await self.client.create(namespace(name))
        await self.write_kubeconfig(name, plane)
        patch = {"metadata": {"labels": {DATA_PLANE: "true"}}}
        await self.client.patch(NAMESPACE, name, patch)

    async def write_kubeconfig(self, name: str, plane: Server) -> None:
        """Write the Secret of a target namespace, with a new token of the data plane's account."""
        text = await account_kubeconfig(
            plane.environment, PLANE_NAMESPACE, "fleet-stack", f"stack-{name}"
        )
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": KUBECONFIG_SECRET, "namespace": name},
            "data": {KUBECONFIG_KEY: base64.b64encode(text.encode()).decode()},
        }
        await self.client.apply(secret, field_manager="owner")

    async def run_pods(self, name: str) -> LocalPods:
        """Start the Pods of a stack once it is deployed, and report those that are ready."""
        pods = self.pods[name]
        for mapping, workload, replicas in WORKLOADS:
            await eventually(lambda m=mapping, w=workload: self.hub.get(m, w, name))  # type: ignore[misc]
            for number in range(replicas):
                await pods.start(mapping, workload, number)
        for pod in pods.running:
            await pod.wait_ready(180)
        for mapping, workload, replicas in WORKLOADS:
            status = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas"), replicas)
            await self.client.patch_status(mapping, workload, {"status": status}, namespace=name)
        return pods

    async def until_ready(self, status: str = "True") -> FleetConfig:
        """Wait until the FleetConfig has this in its condition Ready."""

        async def look() -> FleetConfig:
            return await self.client.get(FleetConfig, "fleet")

        def holds(found: FleetConfig) -> bool:
            ready = find_condition(found.status.conditions, "Ready")
            return ready is not None and ready.status == status

        found: FleetConfig = await eventually(look, holds, 180)
        return found

    def refused(self) -> list[str]:
        """What any program was refused on any server."""
        return [
            f"{user} {row.verb} {row.resource}"
            for server in (self.hub, *self.planes)
            for user in (OPERATOR, *(f"stack-{name}" for name in self.pods))
            for row in self.requests(server, user)
            if row.code == 403
        ]

    def unused_by_the_operator(self) -> set[str]:
        """Rights of the operator that no request of it took."""
        took = {
            (right.verb, right.resource)
            for row in self.requests(self.hub, OPERATOR)
            for right in taken(row.verb, row.resource, "", row.code)
        }
        return {
            f"{right.verb} {right.resource}"
            for right in granted(kustomized("operator"))
            if (right.verb, right.resource) not in took and right.verb not in WITHOUT_CAUSE
        }

    @staticmethod
    def requests(server: Server, user: str) -> Counts:
        return server.environment.proxy.log.counts().select(user=user)


@contextlib.asynccontextmanager
async def installation(
    backend: str, folder: Path, *names: str, planes: int = 1
) -> AsyncIterator[Installation]:
    """Hub and data planes, and the operator that is running, with the arguments of its Deployment."""
    async with contextlib.AsyncExitStack() as stack:
        hub = await stack.enter_async_context(installed(backend, folder / "hub", "operator"))
        started = [
            await stack.enter_async_context(
                installed(backend, folder / f"plane-{number}", "data-plane")
            )
            for number in range(planes)
        ]
        text = await account_kubeconfig(hub.environment, SYSTEM, OPERATOR, OPERATOR)
        path = folder / "operator.kubeconfig"
        path.write_text(text)
        (made,) = [each for each in kustomized("operator") if each["kind"] == "Deployment"]
        arguments = made["spec"]["template"]["spec"]["containers"][0]["args"]
        local = [each.replace("=:8081", "=0").replace("=:8443", "=0") for each in arguments]
        program = await Program.start(
            *local,
            f"--leader-election-namespace={SYSTEM}",  # the account's mount has it in a cluster
            "--stack-image=manager:1",
            environment={"KUBECONFIG": str(path)},
        )
        operator = await stack.enter_async_context(program)
        made_ = Installation(hub, started, folder, operator)
        for name in names:
            pods = LocalPods.of(
                hub.environment, name, folder / name, f"stack-{name}", f"--target-namespace={name}"
            )
            made_.pods[name] = await stack.enter_async_context(pods)
        yield made_


async def enable_scale_mode(fleet: Installation) -> None:
    """Create the FleetConfig."""
    await fleet.client.create(
        {
            "apiVersion": FleetConfig.gvk().api_version,
            "kind": "FleetConfig",
            "metadata": {"name": "fleet"},
            "spec": {"scaleMode": {"enabled": True}},
        }
    )
