"""A hub and data planes, API servers in memory, and the operator between them; workloads become available when a
test says so, and a test holds the Lease that controllers would hold."""

from __future__ import annotations

import base64
import contextlib
import itertools
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import yaml

from apis.fleet import FleetConfig, TargetNamespace
from apis.fleet.labels import (
    DATA_PLANE,
    DATA_PLANE_ID,
    KUBECONFIG_KEY,
    KUBECONFIG_SECRET,
    LEASE,
    PLANE_NAMESPACE,
    TARGET_NAMESPACE,
)
from apis.tenancy import Tenant
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.conditions import find_condition
from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import AlreadyExists, Conflict, NotFound
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest import users as envtest_users
from ctrlruntime.envtest.crds import install_crds
from ctrlruntime.envtest.proxy import Mark, Proxy, ProxyOptions
from ctrlruntime.envtest.server import APIServer, ServerOptions, User
from ctrlruntime.json import Json
from ctrlruntime.manager import Manager
from internal.fleet.labels import ADMISSION, CONTROLLERS, SELECTED, WORKERS
from internal.fleet.plane_checks import CheckTimes
from internal.fleet.stack_builder import (
    DEPLOYMENT,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    StackOptions,
)
from manager.controllers.fleet import OperatorOptions, add_operator
from tests.support import waiting
from tests.support.manager_harness import make_manager
from tests.support.ports import held

LONG = float(os.environ.get("FLEET_TEST_WAIT", "90"))
"""Seconds that nothing takes, not even on a busy machine."""
NAMESPACE = BUILTIN[GroupVersionKind("", "v1", "Namespace")]
SECRET = BUILTIN[GroupVersionKind("", "v1", "Secret")]
POD = BUILTIN[GroupVersionKind("", "v1", "Pod")]
LEASES = BUILTIN[GroupVersionKind("coordination.k8s.io", "v1", "Lease")]
EVENT = BUILTIN[GroupVersionKind("events.k8s.io", "v1", "Event")]
CONFIG_MAP = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]
KINDS = (Tenant,)
"""What planes serve in these tests."""
WORKLOADS = (
    (DEPLOYMENT, CONTROLLERS, 2),
    (DEPLOYMENT, ADMISSION, 1),
    (STATEFUL_SET, WORKERS, 1),
)
OBJECTS = frozenset(
    {
        f"Deployment {CONTROLLERS}",
        f"Deployment {ADMISSION}",
        f"StatefulSet {WORKERS}",
        f"Service {ADMISSION}",
        f"Service {WORKERS}",
        "ServiceAccount fleet-stack",
    }
)
"""All that a stack consists of."""
WRITERS = itertools.count()
TOKENS = {"plane-token": User(name="stack", groups=("system:masters",))}


async def eventually(holds: Callable[[], Awaitable[bool]], shown: Callable[[], Any] = str) -> None:
    """Wait until something holds; AssertionError with what is `shown` then."""
    try:
        await waiting.eventually(holds, timeout=LONG)
    except AssertionError:
        what = shown()
        raise AssertionError(await what if isinstance(what, Awaitable) else what) from None


UNRENEWED = 600.0
"""Seconds until a Lease counts as given up: longer than any test takes."""


class Ticker:
    """A monotonic clock that a test can put forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead

    def let_leases_end(self) -> None:
        """Put it forward by as long as a Lease counts without a renewal."""
        self.ahead += UNRENEWED + 1


@dataclass
class DataPlane:
    """An API server in memory behind a proxy, which logs what it is asked, and can be stopped."""

    server: APIServer
    proxy: Proxy
    port: int
    client: Client
    renewals: int = 0
    _held: socket.socket | None = None
    """Its port, while it is off the network."""

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, *, prepared: bool = True) -> AsyncIterator[DataPlane]:
        """A data plane; with `prepared` it has the CRDs and the namespace."""
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(APIServer(ServerOptions(tokens=TOKENS)))
            proxy = Proxy(server.url)
            await proxy.start()
            client = await stack.enter_async_context(Client.connect(Config(host=server.url)))
            plane = cls(server, proxy, proxy.port, client)
            if prepared:
                await plane.prepare()
            try:
                yield plane
            finally:
                await plane.stop()
                plane._release()

    async def prepare(self) -> None:
        """Install what config/data-plane has."""
        await install_crds(self.client, KINDS, timeout=LONG)
        await self.client.create(namespace(PLANE_NAMESPACE))

    async def stop(self) -> None:
        """Take it off the network."""
        await self.proxy.stop()
        self._release()
        self._held = held(self.port)

    def _release(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    async def restart(self, *, upstream: str = "") -> None:
        """Put it, or another server, back at its address."""
        self.proxy = Proxy(upstream or self.server.url, ProxyOptions(port=self.port))
        await self.proxy.start()
        self._release()

    async def identity(self) -> str:
        """Its id."""
        found = await self.client.get(NAMESPACE, "kube-system")
        return str(found["metadata"]["uid"])

    async def renew(self) -> None:
        """Renew the Lease as its controllers do."""
        self.renewals += 1
        spec = {
            "holderIdentity": "controllers",
            "leaseDurationSeconds": 15,
            "renewTime": f"2026-01-01T00:00:00.{self.renewals:06d}Z",
        }
        metadata = {"name": LEASE, "namespace": PLANE_NAMESPACE}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
        try:
            await self.client.patch(LEASES, LEASE, {"spec": spec}, namespace=PLANE_NAMESPACE)
        except NotFound:
            await self.client.create({**lease, "spec": spec})

    def kubeconfig(self, **user: Json) -> str:
        """A kubeconfig that leads to it."""
        return kubeconfig(f"http://127.0.0.1:{self.port}", **user)


def kubeconfig(server: str, *, cluster: dict[str, Any] | None = None, **user: object) -> str:
    """A kubeconfig with one context."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "plane", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "stack", "user": {"token": "plane-token", **user}}],
        "contexts": [{"name": "plane", "context": {"cluster": "plane", "user": "stack"}}],
        "current-context": "plane",
    }
    return yaml.safe_dump(document)


def namespace(name: str, **labels: str) -> dict[str, Any]:
    """A Namespace."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": labels},
    }


def config(**spec: object) -> dict[str, Any]:
    """The FleetConfig."""
    return {
        "apiVersion": "fleet.ctrlruntime.dev/v1",
        "kind": "FleetConfig",
        "metadata": {"name": "fleet"},
        "spec": spec,
    }


SCALE = {"scaleMode": {"enabled": True}}


@dataclass
class Hub:
    """The hub, and what tests do there."""

    environment: Environment
    client: Client
    user: str = "operator"
    clock: Ticker = field(default_factory=Ticker)

    @classmethod
    @contextlib.asynccontextmanager
    async def running(
        cls,
        folder: Path | None = None,
        *,
        users: Iterable[str | envtest_users.User] = ("admin", "operator"),
        authorization: Literal["AlwaysAllow", "RBAC"] | None = None,
    ) -> AsyncIterator[Hub]:
        """An API server with the kind FleetConfig; a proxy logs what the operator asks for."""
        environment = Environment(
            users=users, proxy=True, folder=folder, authorization=authorization
        )
        async with environment:
            await environment.install_crds(FleetConfig)
            yield cls(environment, environment.client("admin"))

    def options(self, **given: object) -> OperatorOptions:
        """Options for tests: no waits."""
        options = OperatorOptions(
            stack=StackOptions(image="stack:1"),
            status_delay=0.0,
            checks=CheckTimes(timeout=LONG, retry=0.05, longest_retry=0.2),
            unrenewed=UNRENEWED,
            monotonic=self.clock,
            kinds=KINDS,
        )
        changes: dict[str, Any] = given
        return replace(options, **changes)

    @contextlib.asynccontextmanager
    async def operator(self, **given: object) -> AsyncIterator[Manager]:
        """Run the operator for the length of the block."""
        manager = make_manager(
            self.environment.config(self.user), metrics_bind_address="127.0.0.1:0"
        )
        add_operator(manager, self.options(**given))
        async with manager.running():
            yield manager

    # -- what people do --------------------------------------------------------------------

    async def configure(self, **spec: object) -> None:
        """Write the FleetConfig."""
        with contextlib.suppress(AlreadyExists):
            await self.client.create(config(**spec))
            return

        async def is_written() -> bool:
            found = await self.client.get(FleetConfig, "fleet")
            manifest = {**config(**spec), "metadata": found.metadata.to_wire()}
            with contextlib.suppress(Conflict):  # the operator wrote its status meanwhile
                await self.client.update(manifest)
                return True
            return False

        await eventually(is_written)

    async def add(self, name: str, plane: DataPlane | None, *, label: str = "true") -> None:
        """Make a namespace with the Secret of a data plane, and label it."""
        await self.client.create(namespace(name))
        if plane is not None:
            await self.write_secret(name, plane.kubeconfig())
        await self.label(name, label)

    async def write_secret(
        self, name: str, content: str | bytes, key: str = KUBECONFIG_KEY
    ) -> None:
        """Create or replace the Secret."""
        encoded = base64.b64encode(content.encode() if isinstance(content, str) else content)
        metadata = {"name": KUBECONFIG_SECRET, "namespace": name}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
        await self.delete_secret(name)
        await self.client.create({**secret, "data": {key: encoded.decode()}})

    async def delete_secret(self, name: str) -> None:
        """Delete the Secret, if it is there."""
        with contextlib.suppress(NotFound):
            await self.client.delete(SECRET, KUBECONFIG_SECRET, namespace=name)

    async def label(self, name: str, value: str | None = "true") -> None:
        """Set or remove the label of data planes."""
        patch = {"metadata": {"labels": {DATA_PLANE: value}}}
        await self.client.patch(NAMESPACE, name, patch)

    async def touch(self, *names: str) -> None:
        """Change namespaces in what nobody minds, so that they are looked at again."""
        for name in names:
            patch = {"metadata": {"annotations": {"touched": str(next(WRITERS))}}}
            await self.client.patch(NAMESPACE, name, patch)

    async def make_available(self, name: str) -> None:
        """Let the Pods of a stack run, as a cluster's nodes would, once its workloads are there."""
        for mapping, workload, replicas in WORKLOADS:
            await eventually(lambda m=mapping, w=workload: self.has(m, w, name))  # type: ignore[misc]
            status = {
                "replicas": replicas,
                "availableReplicas": replicas,
                "readyReplicas": replicas,
            }
            await self.client.patch_status(mapping, workload, {"status": status}, namespace=name)

    async def run_stack(self, name: str, plane: DataPlane) -> None:
        """Let a stack run: its Pods are there, and its controllers hold the Lease."""
        await self.make_available(name)
        await plane.renew()

    # -- what there is ---------------------------------------------------------------------

    async def has(self, mapping: RESTMapping, name: str, place: str) -> bool:
        """Whether there is an object."""
        try:
            await self.client.get(mapping, name, namespace=place, metadata_only=True)
        except NotFound:
            return False
        return True

    async def objects(self, name: str) -> set[str]:
        """What the operator has made in a namespace."""
        found: set[str] = set()
        for mapping in (DEPLOYMENT, STATEFUL_SET, SERVICE, SERVICE_ACCOUNT):
            for item in await self.client.list(mapping, name, labels=SELECTED):
                found.add(f"{mapping.gvk.kind} {item['metadata']['name']}")
        return found

    async def metadata(self, name: str) -> dict[str, Any]:
        """The metadata of a namespace."""
        found = await self.client.get(NAMESPACE, name)
        return dict(found["metadata"])

    async def is_target(self, name: str) -> bool:
        """Whether a namespace has the label of target namespaces."""
        labels: dict[str, str] = (await self.metadata(name)).get("labels", {})
        return labels.get(TARGET_NAMESPACE) == "true"

    async def identity(self, name: str) -> str:
        """The data plane's id that is recorded at a namespace."""
        return str((await self.metadata(name)).get("annotations", {}).get(DATA_PLANE_ID, ""))

    async def config(self) -> FleetConfig:
        """The FleetConfig."""
        return await self.client.get(FleetConfig, "fleet")

    async def entries(self) -> list[TargetNamespace]:
        """status.targetNamespaces."""
        return (await self.config()).status.target_namespaces

    async def reasons(self) -> dict[str, str]:
        """The reason of each target namespace."""
        return {entry.name: entry.reason for entry in await self.entries()}

    async def message(self, name: str) -> str:
        """The message of a target namespace."""
        return next(entry.message for entry in await self.entries() if entry.name == name)

    async def condition(self, kind: str) -> tuple[str, str, str]:
        """Status, reason and message of a condition."""
        found = find_condition((await self.config()).status.conditions, kind)
        return ("", "", "") if found is None else (found.status, found.reason, found.message)

    async def until(self, **reasons: str) -> None:
        """Wait until the target namespaces are these, with these reasons; `_` stands for `-` in names."""
        wanted = {name.replace("_", "-"): reason for name, reason in reasons.items()}

        async def holds() -> bool:
            return await self.reasons() == wanted

        await eventually(holds, self.config)

    async def until_torn_down(self, *names: str) -> None:
        """Wait until nothing is left in namespaces, the label neither."""

        async def holds() -> bool:
            for name in names:
                if await self.objects(name) or await self.is_target(name):
                    return False
            return True

        await eventually(holds, self.config)

    def writes(self, since: Mark) -> int:
        """How many writes the operator has made since a mark of the log, events not counted."""
        counts = self.environment.proxy.log.since(since).select(user=self.user)
        return int(counts.select(exclude=("events.events.k8s.io",)).writes)

    def requests(self, since: Mark) -> int:
        """How many requests but watches the operator has made since a mark."""
        counts = self.environment.proxy.log.since(since).select(user=self.user)
        return int(counts.total - counts.watches)


@contextlib.asynccontextmanager
async def planes(count: int) -> AsyncIterator[list[DataPlane]]:
    """Data planes that are prepared."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(DataPlane.running()) for _ in range(count)]


async def deployed(hub: Hub, **running: DataPlane) -> None:
    """Make namespaces, let their stacks run, and wait until all are healthy; the operator runs."""
    for name, plane in running.items():
        await hub.add(name, plane)
    for name, plane in running.items():
        await hub.run_stack(name, plane)
    await hub.until(**dict.fromkeys(running, "SuccessfulDeployment"))


def foreign(name: str, place: str) -> list[dict[str, Any]]:
    """Objects of somebody else, two of them labelled as the operator's own."""
    metadata = {"name": name, "namespace": place}
    labelled = {**metadata, "labels": SELECTED}
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": labelled},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": labelled,
            "spec": {"ports": [{"port": 80}]},
        },
    ]


def at(text: str) -> datetime:
    """A time."""
    return datetime.fromisoformat(text).astimezone(UTC)
