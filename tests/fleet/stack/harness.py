"""A hub, data planes, and the stack of each, for tests: every server over HTTP, through its proxy."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import yaml

from apis.fleet.labels import DATA_PLANE
from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.conditions import Condition, find_condition
from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest import idle as envtest
from ctrlruntime.envtest.backends import EmbeddedBackend
from ctrlruntime.envtest.proxy import Counts, Mark
from ctrlruntime.envtest.server import APIServer
from ctrlruntime.envtest.server.snapshot import Snapshot
from ctrlruntime.envtest.users import User
from ctrlruntime.manager import Manager
from ctrlruntime.manager.logs import make_logger
from internal.fleet.hub import GRACE, PROBE_PERIOD
from manager.controllers.hub import HUB, StackOptions, add_hub
from manager.controllers.tenancy import STATUS_DEBOUNCE, add_tenancy
from manager.controllers.tenancy_options import TenancyOptions
from tests.support import waiting
from tests.support.manager_harness import make_manager
from tests.support.ports import held

T = TypeVar("T")

LONG = 120.0
"""Seconds that nothing takes, not even on a machine that has much else to do."""


def builtin(api_version: str, kind: str) -> RESTMapping:
    """Return how a built-in kind is served."""
    return BUILTIN[GroupVersionKind.parse(api_version, kind)]


CONFIG_MAP = builtin("v1", "ConfigMap")
SECRET = builtin("v1", "Secret")
SERVICE = builtin("v1", "Service")
NAMESPACE = builtin("v1", "Namespace")
DEPLOYMENT = builtin("apps/v1", "Deployment")


@dataclass(slots=True)
class Server:
    """One API server, hub or data plane."""

    environment: Environment
    id: str = ""
    """UID of kube-system."""
    _port: socket.socket | None = None
    """Its port, while it is stopped."""

    @property
    def client(self) -> Client:
        """A client past the proxy; it is not counted."""
        return self.environment.client("envtest")

    async def get(
        self, kind: RESTMapping, name: str, namespace: str = "default"
    ) -> dict[str, Any] | None:
        """Return an object, or None."""
        try:
            return await self.client.get(
                kind, name, namespace=namespace if kind.namespaced else None
            )
        except NotFound:
            return None

    async def names(self, kind: RESTMapping, namespace: str = "default") -> set[str]:
        """Return the names of all objects of a kind that a stack has made."""
        found = await self.client.list(kind, namespace if kind.namespaced else None)
        owned = "ctrlruntime.dev/owner"
        return {
            item["metadata"]["name"]
            for item in found
            if owned in (item["metadata"].get("annotations") or {})
        }

    def mark(self) -> Mark:
        """Return now, in the log of requests."""
        return self.environment.proxy.log.mark()

    def counts(self, since: Mark) -> Counts:
        """Return what managers requested since then."""
        return self.environment.proxy.log.since(since).select(user="manager")

    def free_port(self) -> None:
        """Close what keeps the port of a server that was not started again."""
        if self._port is not None:
            self._port.close()
            self._port = None

    async def stop(self) -> None:
        """Have the server answer no more; it keeps what it had."""
        assert isinstance(self.environment.backend, EmbeddedBackend)
        server = self.environment.backend.server
        server.options = replace(server.options, port=server.port)
        await server.stop()
        self._port = held(server.port)

    def snapshot(self) -> Snapshot:
        """Make a backup."""
        assert isinstance(self.environment.backend, EmbeddedBackend)
        return self.environment.backend.server.snapshot()

    def restore(self, backup: Snapshot) -> None:
        """Have a stopped server begin with what a backup has."""
        assert isinstance(self.environment.backend, EmbeddedBackend)
        server = self.environment.backend.server
        self.environment.backend.server = APIServer(replace(server.options, snapshot=backup))

    async def restart(self) -> None:
        """Have it answer again."""
        assert isinstance(self.environment.backend, EmbeddedBackend)
        await self.environment.backend.server.start()
        if self._port is not None:
            self._port.close()


@contextlib.asynccontextmanager
async def server(
    folder: Path,
    *,
    plane: bool,
    users: Iterable[str | User] = ("admin", "manager"),
    authorization: Literal["AlwaysAllow", "RBAC"] | None = None,
) -> AsyncIterator[Server]:
    """An API server; a data plane with the CRDs of the tenancy system. `folder` exists."""
    around = Environment(proxy=True, folder=folder, users=users, authorization=authorization)
    async with around as env:
        made = Server(env)
        if plane:
            await env.install_crds(Tenant, TenantTemplate, TenantRegistry)
        namespace = await made.get(NAMESPACE, "kube-system")
        assert namespace is not None
        made.id = namespace["metadata"]["uid"]
        try:
            yield made
        finally:
            made.free_port()


@dataclass(slots=True)
class Fleet:
    """A hub and its data planes."""

    folder: Path
    hub: Server
    planes: list[Server]
    hub_user: str = "manager"

    @property
    def plane(self) -> Server:
        """The first data plane."""
        return self.planes[0]

    @contextlib.asynccontextmanager
    async def running(
        self,
        plane: Server | None = None,
        *,
        grace: float = GRACE,
        probe_period: float = PROBE_PERIOD,
    ) -> AsyncIterator[Manager]:
        """Run the stack of a data plane on this loop."""
        plane = plane or self.plane
        name = f"plane-{self.planes.index(plane)}"
        with (self.folder / f"{name}.log").open("a") as log:
            manager = make_manager(
                plane.environment.config("manager"),
                logger=make_logger(format="console", stream=log),
                name="manager",
            )
            stack = StackOptions(
                data_plane=plane.id,
                target_namespace=name,
                grace=grace,
                probe_period=probe_period,
            )
            hub = await add_hub(manager, self.hub.environment.config(self.hub_user), stack)
            add_tenancy(manager, tenancy(self.folder), hub)
            async with manager.running():
                yield manager


def tenancy(root: Path | None = None) -> TenancyOptions:
    """Options of the tenancy system that let templates make Namespaces; `root` has the files of registries."""
    return TenancyOptions(
        allow_foreign_namespaces=frozenset({"own"}), status_period=0.1, sqlite_root=root
    )


@contextlib.asynccontextmanager
async def fleet(
    folder: Path,
    planes: int = 1,
    *,
    users: Iterable[str | User] = ("admin", "manager"),
    plane_users: Iterable[str | User] = ("admin", "manager"),
) -> AsyncIterator[Fleet]:
    """Start a hub and data planes, without stacks."""
    async with contextlib.AsyncExitStack() as stack:
        places = [folder / name for name in ("hub", *(f"plane-{each}" for each in range(planes)))]
        for place in places:
            place.mkdir()
        made = await stack.enter_async_context(server(places[0], plane=False, users=users))
        started = [
            await stack.enter_async_context(server(place, plane=True, users=plane_users))
            for place in places[1:]
        ]
        yield Fleet(folder, made, started)


# -- tenants --------------------------------------------------------------------------------------


def entry(name: str, kind: str, api_version: str = "v1", **fields: object) -> dict[str, Any]:
    """Make an entry of a tenant's resources."""
    more: dict[str, Any] = {
        key: fields.pop(key) for key in ("dependIds", "targetNamespace") if key in fields
    }
    spec = {"apiVersion": api_version, "kind": kind, **fields}
    return {"id": name, "nameTemplate": name, "waitForReady": False, "spec": spec, **more}


def deployment(name: str = "web", *, config: str = "", replicas: int = 1) -> dict[str, Any]:
    """Make a Deployment, whose Pods read a ConfigMap if one is named."""
    container: dict[str, Any] = {"name": "app", "image": "nginx:1"}
    if config:
        container["envFrom"] = [{"configMapRef": {"name": config}}]
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return entry(name, "Deployment", "apps/v1", spec=spec)


def config_map(name: str, **data: str) -> dict[str, Any]:
    """Make a ConfigMap."""
    return entry(name, "ConfigMap", data=data or {"k": "v"})


def tenant(
    *resources: Mapping[str, Any], name: str = "acme", namespace: str = "default"
) -> dict[str, Any]:
    """Make a tenant of these resources."""
    lists: dict[str, list[Any]] = {}
    for each in resources:
        kind = str(each["spec"]["kind"])
        lists.setdefault(f"{kind[0].lower()}{kind[1:]}s", []).append(dict(each))
    return {
        "apiVersion": Tenant.gvk().api_version,
        "kind": "Tenant",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"uid": name, "templateRef": "web", **lists},
    }


async def read(plane: Server, name: str = "acme", namespace: str = "default") -> Tenant | None:
    """Return a tenant, or None."""
    try:
        return await plane.client.get(Tenant, name, namespace=namespace)
    except NotFound:
        return None


async def change(plane: Server, manifest: Mapping[str, Any]) -> None:
    """Replace the spec of a tenant."""
    metadata = manifest["metadata"]
    live = await plane.client.get(Tenant, metadata["name"], namespace=metadata["namespace"])
    stored = live.to_manifest()
    await plane.client.update({**stored, "spec": manifest["spec"]})


async def eventually(
    look: Callable[[], Coroutine[Any, Any, T | None]],
    holds: Callable[[Any], bool] = bool,
    timeout: float = LONG,
) -> T:
    """Look again until it holds, which nothing that is not there does."""
    found: T | None = await waiting.eventually(look, holds, timeout=timeout)
    return cast("T", found)


async def idle(manager: Manager, plane: Server, hub: Server) -> None:
    """Wait until a stack has nothing left to do, statuses that it holds back included."""
    await envtest.idle(
        manager, plane.client, clusters={HUB: hub.client}, within=1.5 * STATUS_DEBOUNCE
    )


def is_ready(found: Tenant | None) -> bool:
    """Whether a tenant is ready for its generation."""
    if found is None or found.status.observed_generation != found.metadata.generation:
        return False
    ready = find_condition(found.status.conditions, "Ready")
    return ready is not None and ready.status == "True"


async def ready(plane: Server, name: str = "acme", namespace: str = "default") -> Tenant:
    """Wait until a tenant is ready for its generation."""
    found: Tenant = await eventually(partial(read, plane, name, namespace), is_ready)
    return found


async def condition(
    plane: Server,
    kind: str,
    status: str,
    reason: str,
    name: str = "acme",
    namespace: str = "default",
) -> Condition:
    """Wait until a condition of a tenant says this."""

    async def look() -> Condition | None:
        found = await read(plane, name, namespace)
        return None if found is None else find_condition(found.status.conditions, kind)

    def holds(seen: Condition | None) -> bool:
        return seen is not None and (seen.status, seen.reason) == (status, reason)

    found: Condition = await eventually(look, holds)
    return found


async def gone(plane: Server, name: str = "acme", namespace: str = "default") -> None:
    """Delete a tenant, and wait until it is gone."""
    await plane.client.delete(Tenant, name, namespace=namespace)
    await eventually(partial(read, plane, name, namespace), lambda found: found is None)


def planes_of(objects: Iterable[dict[str, Any]]) -> set[str]:
    """Return the ids of the data planes that objects are labelled with."""
    return {str((each["metadata"].get("labels") or {}).get(DATA_PLANE)) for each in objects}


def with_expired_token(plane: Server) -> bytes:
    """A kubeconfig that leads to a data plane, which refuses its credentials."""
    kubeconfig = yaml.safe_load(plane.environment.kubeconfig("manager").read_bytes())
    users = [{**each, "user": {"token": "expired"}} for each in kubeconfig["users"]]
    return json.dumps({**kubeconfig, "users": users}).encode()
