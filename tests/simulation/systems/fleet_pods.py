"""The nodes of a hub: they run the Pods of stacks, each a program of its own, and let workloads become available."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import yaml

from apis.fleet.labels import (
    KUBECONFIG_KEY,
    KUBECONFIG_SECRET,
    LEASE,
    PLANE_NAMESPACE,
    WORKERS_LEASE,
)
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import AlreadyExists, NotFound
from ctrlruntime.client.kubeconfig import ConfigError
from ctrlruntime.envtest.server.storage import Bucket, Change
from ctrlruntime.envtest.simulation import Replica, Simulation
from ctrlruntime.envtest.simulation.logs import logger
from ctrlruntime.envtest.simulation.server import Call
from ctrlruntime.manager import GCOptions
from internal.fleet.labels import CONTROLLERS, WORKERS
from manager.controllers import plane_guard
from manager.options import Role, RunOptions
from manager.serving.stack import run_stack
from tests.simulation.systems.fleet_world import Hub, Meant

POD: Final = BUILTIN[GroupVersionKind("", "v1", "Pod")]
KINDS: Final[dict[str, RESTMapping]] = {
    f"{mapping.plural}.apps": mapping
    for mapping in (
        BUILTIN[GroupVersionKind("apps", "v1", "Deployment")],
        BUILTIN[GroupVersionKind("apps", "v1", "StatefulSet")],
    )
}
PROGRAMS: Final = {CONTROLLERS: LEASE, WORKERS: WORKERS_LEASE}
"""Workloads whose Pods run a program here, with the Lease that it competes for."""
Manifest = dict[str, Any]
_Place = tuple[str, str, str]
"""Resource, namespace and name of a workload."""


@dataclass(slots=True)
class Pod:
    """A Pod that runs."""

    name: str
    template: Manifest
    replica: Replica | None = None


@dataclass(slots=True)
class Nodes:
    """All nodes of one hub, in a process that no fault meets."""

    sim: Simulation
    hub: Hub
    world: Meant
    draws: random.Random
    ids: dict[str, str] = field(default_factory=dict)
    """By program: the data plane that it works for."""
    _pods: dict[_Place, list[Pod]] = field(default_factory=dict)
    _mounted: dict[str, bytes] = field(default_factory=dict)
    """By target namespace: the kubeconfig in its Pods."""
    _changed: asyncio.Queue[_Place] = field(default_factory=asyncio.Queue)
    _number: int = 0

    def start(self) -> None:
        """Begin to look after workloads."""
        self.hub.cluster.shows(self)
        self.sim.start(f"{self.hub.name} nodes", self._run)

    def changed(self, call: Call | None, bucket: Bucket, change: Change) -> None:
        """Take a change of an object, while it is made."""
        if bucket.resource in KINDS:
            self._changed.put_nowait((bucket.resource, change.record.namespace, change.record.name))

    def answered(self, call: Call) -> None:
        """Leave it: requests alone change no workload."""

    def content(self, namespace: str) -> bytes:
        """Return the kubeconfig that Pods see: that of the Secret, or the last one that it had. Raises ConfigError."""
        for each in self.hub.cluster.objects("secrets"):
            metadata = each["metadata"]
            if (metadata["namespace"], metadata["name"]) == (namespace, KUBECONFIG_SECRET):
                data = (each.get("data") or {}).get(KUBECONFIG_KEY, "")
                self._mounted[namespace] = base64.b64decode(data)
        if namespace not in self._mounted:
            raise ConfigError("not mounted")
        return self._mounted[namespace]

    async def _run(self) -> None:
        config = Config(host=self.hub.cluster.url, user_agent="nodes")
        async with Client.connect(config) as client:
            while True:
                place = await self._changed.get()
                await asyncio.sleep(self.draws.choice((0.01, 0.1, 1.0, 3.0)))
                await self._look(client, place)

    async def _look(self, client: Client, place: _Place) -> None:
        resource, namespace, name = place
        found = self._find(resource, namespace, name)
        if found is None:
            await self._end(client, namespace, self._pods.pop(place, []))
            return
        if name in PROGRAMS and namespace in self.world.planes:
            await self._roll(client, place, found)
        status = _available(found)
        before = found.get("status") or {}
        if status != {key: before.get(key) for key in status}:
            with contextlib.suppress(NotFound):
                await client.patch_status(
                    KINDS[resource], name, {"status": status}, namespace=namespace
                )

    def _find(self, resource: str, namespace: str, name: str) -> Manifest | None:
        return next(
            (
                each
                for each in self.hub.cluster.objects(resource)
                if (each["metadata"]["namespace"], each["metadata"]["name"]) == (namespace, name)
            ),
            None,
        )

    async def _roll(self, client: Client, place: _Place, workload: Manifest) -> None:
        """Replace Pods of another template, and add those that are missing."""
        template, wanted = workload["spec"]["template"], workload["spec"].get("replicas", 1)
        pods = self._pods.setdefault(place, [])
        former = [each for each in pods if each.template != template] + pods[wanted:]
        pods[:] = [each for each in pods if each not in former]
        await self._end(client, place[1], former)
        while len(pods) < wanted:
            self._number += 1
            pod = Pod(f"{place[2]}-{self._number}", template)
            pods.append(pod)
            metadata = {**template["metadata"], "name": pod.name, "namespace": place[1]}
            manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
            with contextlib.suppress(AlreadyExists):
                await client.create({**manifest, "spec": template["spec"]})
            self._begin(pod, place)

    def _begin(self, pod: Pod, place: _Place) -> None:
        _, namespace, workload = place
        given = _arguments(pod.template)
        path = Path(self.hub.name, namespace)
        plane = self.world.planes[namespace]
        options = RunOptions(
            role=Role(given["--role"]),
            systems=("tenancy",),
            data_plane_kubeconfig=path,
            data_plane_id=given["--data-plane-id"],
            target_namespace=namespace,
            own_namespace=namespace,
            unrestricted_hub_secrets="--unrestricted-hub-secrets" in given,
            leader_elect=True,
            metrics_bind_address="0",
            health_probe_bind_address="0",
        )
        runtime = options.manager_options()
        election = self.sim.election(runtime.election)
        runtime = replace(runtime, election=election, gc=GCOptions(), handle_signals=False)
        hub = Config(host=self.hub.cluster.url, user_agent="manager")

        async def main(_replica: Replica) -> None:
            await run_stack(options, hub, runtime, logger())

        name = f"{self.hub.name}/{namespace}/{pod.name}"
        self.ids[name] = given["--data-plane-id"]
        lease = f"{plane.name}:{PLANE_NAMESPACE}/{PROGRAMS[workload]}"
        pod.replica = self.sim.program(name, main, lease=lease)
        pod.replica.ended = lambda _replica, _error: None  # other namespaces or planes end it

    async def _end(self, client: Client, namespace: str, pods: Iterable[Pod]) -> None:
        for pod in pods:
            await asyncio.sleep(self.draws.choice((0.01, 1.0, 4.0)))
            if pod.replica is not None:
                self.sim.remove(pod.replica)
            with contextlib.suppress(NotFound):
                await client.delete(POD, pod.name, namespace=namespace, grace_period=0)


def _arguments(template: Manifest) -> dict[str, str]:
    (container,) = template["spec"]["containers"]
    pairs = (each.partition("=") for each in container["args"])
    return {name: value for name, _, value in pairs}


def _available(workload: Manifest) -> Manifest:
    wanted = workload["spec"].get("replicas", 1)
    status = {"observedGeneration": workload["metadata"]["generation"]}
    names = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    return {**status, **dict.fromkeys(names, wanted)}


@contextlib.contextmanager
def mounted(nodes: Iterable[Nodes]) -> Iterator[None]:
    """Let stacks find their kubeconfigs as Pods do in what is mounted."""
    by_hub = {each.hub.name: each for each in nodes}

    def content(path: Path) -> bytes:
        hub, namespace = path.parts
        return by_hub[hub].content(namespace)

    with patch.object(plane_guard, "_content", content):
        yield


def kubeconfig(url: str, number: int) -> str:
    """Return a kubeconfig of a data plane; another number makes another one of the same plane."""
    name = f"plane-{number}"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": url}}],
        "users": [{"name": name, "user": {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    return yaml.safe_dump(document)
