"""A console over HTTP: an embedded server with RBAC, a running manager that has the kinds in its cache, and users."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from apis.cloud import FleetRollout, Instance, InstanceTerraform
from apis.fleet import FleetConfig
from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api import Resource
from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.users import User, administrator
from ctrlruntime.manager import Manager
from manager.console.options import ConsoleOptions
from manager.console.server import Console
from tests.backends import SharedServer
from tests.support.manager_harness import make_manager
from tests.support.statuses import whole
from tests.support.waiting import eventually

SHOWN = (TenantRegistry, TenantTemplate, Tenant, Instance, FleetRollout, InstanceTerraform)
ADMIN = administrator("admin")
MANAGER = administrator("manager")
STRANGER = User(name="stranger")
TEAM = User(name="team")
"""May list and get everything of the namespace `team`, and nothing else."""
USERS = (ADMIN, MANAGER, STRANGER, TEAM)
RBAC = "rbac.authorization.k8s.io"


@dataclass(slots=True)
class Harness:
    """What runs, and how tests reach it."""

    environment: Environment
    manager: Manager
    console: Console
    client: Client
    http: aiohttp.ClientSession

    def url(self, path: str) -> str:
        scheme = "https" if self.console._options.secure else "http"
        return f"{scheme}://127.0.0.1:{self.console.port}{path}"

    async def get(
        self, path: str, user: User | None = ADMIN, headers: Mapping[str, str] | None = None
    ) -> tuple[int, str]:
        """Status and body of a page."""
        given = {**token_of(user), **(headers or {})}
        async with self.http.get(self.url(path), headers=given, allow_redirects=False) as answer:
            return answer.status, await answer.text()

    async def page(self, path: str, user: User | None = ADMIN) -> str:
        """The body of a page that the user may see."""
        status, text = await self.get(path, user)
        assert status == 200, (status, text)
        return text

    async def put(
        self,
        kind: type[Resource[Any, Any]],
        name: str,
        spec: Mapping[str, Any],
        status: Mapping[str, Any],
        namespace: str = "default",
    ) -> None:
        """An object with a status, in the cache of the manager."""
        await self.client.create(
            {
                "apiVersion": kind.gvk().api_version,
                "kind": kind.gvk().kind,
                "metadata": {"name": name, "namespace": namespace},
                "spec": dict(spec),
            }
        )
        await self.report(kind, name, status, namespace)

    async def report(
        self,
        kind: type[Resource[Any, Any]],
        name: str,
        status: Mapping[str, Any],
        namespace: str = "default",
    ) -> None:
        """Write a status, whole where Ready is True, and wait until the cache has it."""
        first: Mapping[str, str] = next(iter(status.get("conditions") or ()), {})
        if (first.get("type"), first.get("status")) == ("Ready", "True"):
            status = whole(kind.gvk().kind, status)
        written = await self.client.patch_status(
            kind.gvk(), name, {"status": dict(status)}, namespace=namespace
        )
        version = written["metadata"]["resourceVersion"]

        def seen() -> bool:
            entry = self.manager.cache.entry(kind, name, namespace=namespace)
            return entry is not None and int(entry.resource_version) >= int(version)

        await eventually(seen)


@contextlib.asynccontextmanager
async def running(
    options: ConsoleOptions | None = None,
    *kinds: type[Resource[Any, Any]] | RESTMapping,
    server: SharedServer | None = None,
) -> AsyncIterator[Harness]:
    """A console and all that it needs; `server`: a real one, in place of an embedded one."""
    if server is None:
        around = Environment(users=USERS, authorization="RBAC", proxy=True)
    else:
        around = server.environment(users=USERS, proxy=True)
    async with around as environment:
        own = [each for each in kinds if not isinstance(each, RESTMapping)]
        shown = (*SHOWN, FleetConfig)
        await environment.install_crds(*shown, *(each for each in own if each not in shown))
        client = environment.client()
        for manifest in team_rights():
            await client.create(manifest)
        manager = make_manager(environment.config(MANAGER.name))
        for kind in kinds or SHOWN:
            manager.cache.declare(kind)
        console = Console(manager, options or ConsoleOptions(bind_address="127.0.0.1:0"))
        manager.add(console)
        scheme = "https" if options is not None and options.secure else "http"
        try:
            async with (
                aiohttp.ClientSession(
                    headers={"Origin": f"{scheme}://127.0.0.1:{console.port}"},
                    connector=aiohttp.TCPConnector(ssl=False),
                    cookie_jar=aiohttp.CookieJar(unsafe=True),
                ) as http,
                manager.running(),
            ):
                yield Harness(environment, manager, console, client, http)
        finally:
            if server is not None:
                await _remove_team(client)


async def _remove_team(client: Client) -> None:
    """Leave a shared server as it was."""
    await client.delete(NAMESPACE, "team")

    async def is_gone() -> bool:
        try:
            await client.get(NAMESPACE, "team")
        except NotFound:
            return True
        return False

    await eventually(is_gone)


def token_of(user: User | None) -> dict[str, str]:
    """The header by which a user is known."""
    return {"Authorization": f"Bearer {user.token}"} if user is not None else {}


def team_rights() -> list[dict[str, Any]]:
    """The namespace `team`, and the rights of its user."""
    subject = {"kind": "User", "name": TEAM.name, "apiGroup": RBAC}
    metadata = {"name": "team", "namespace": "team"}
    groups = sorted({kind.gvk().group for kind in SHOWN})
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "Role",
            "metadata": metadata,
            "rules": [{"apiGroups": groups, "resources": ["*"], "verbs": ["get", "list"]}],
        },
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "subjects": [subject],
            "roleRef": {"kind": "Role", "name": "team", "apiGroup": RBAC},
        },
    ]


def ready(value: bool, reason: str = "Reconciled", message: str = "") -> dict[str, Any]:
    """A status with the condition Ready."""
    return {
        "observedGeneration": 1,
        "conditions": [
            {
                "type": "Ready",
                "status": str(value),
                "reason": reason,
                "message": message,
                "lastTransitionTime": "2026-11-23T10:00:00Z",
            }
        ],
    }


NAMESPACE = GroupVersionKind("", "v1", "Namespace")
TENANT = {"uid": "u", "templateRef": "web"}
INSTANCE = {"version": "5.2.0"}
