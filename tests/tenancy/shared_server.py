"""The real server under tests of the whole tenancy system, one for each worker.

The manager is its ServiceAccount there, with the roles of the installation and what an administrator
of these tests adds for kinds that only templates name.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Collection, Iterable
from typing import Any

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import AlreadyExists, APIError, NotFound
from ctrlruntime.envtest.users import User, administrator
from internal.tenancy.shared.missing_permissions import AGGREGATE, VERBS
from tests.backends import SharedServer
from tests.manifests.installation import account_token, install, of_kind
from tests.support.waiting import eventually

OWN = (TenantRegistry, TenantTemplate, Tenant)
ADMIN = "admin"
SECONDS = 7200
"""Tokens last so long, each a second longer than the last: else they might be the same one."""


def _kind(api_version: str, kind: str) -> RESTMapping:
    return BUILTIN[GroupVersionKind.parse(api_version, kind)]


NAMESPACES = _kind("v1", "Namespace")
DEFINITIONS = _kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
CLUSTER_ROLES = _kind("rbac.authorization.k8s.io/v1", "ClusterRole")
BINDINGS = _kind("rbac.authorization.k8s.io/v1", "ClusterRoleBinding")


def grant(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    """A ClusterRole whose rules become the manager's own."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {AGGREGATE: "true"}},
        "rules": list(rules),
    }


ADDED = (
    grant(
        "tenancy-tests-roles",
        {
            "apiGroups": ["rbac.authorization.k8s.io"],
            "resources": ["clusterroles"],
            "verbs": [*VERBS, "escalate"],
        },
    ),
    grant(
        "tenancy-tests-widgets",
        {"apiGroups": ["example.com"], "resources": ["*"], "verbs": [*VERBS]},
    ),
)
"""What templates of these tests name besides the kinds with lists of their own."""


async def add_grants(client: Client) -> None:
    """Create `ADDED`. On a real server a controller makes them the manager's a moment later."""
    for role in ADDED:
        with contextlib.suppress(AlreadyExists):
            await client.create(role)


class InstalledServer:
    """A shared real server, made ready once."""

    _numbers = itertools.count(1)

    def __init__(self, server: SharedServer) -> None:
        self.server = server
        self._there: set[tuple[str, str]] = set()

    async def users(self, names: Iterable[str]) -> list[User]:
        """Administrators as they are asked for; everybody else is the manager's ServiceAccount."""
        async with Client.connect(self.server.config) as client:
            if not await self._installed(client):
                await self._prepare(client)
            self._there = {key async for key in self._scopes(client, leaving=False)}
            return [
                administrator(name)
                if name == ADMIN
                else User(name=name, token=await account_token(client, SECONDS + number))
                for number, name in enumerate(names)
            ]

    def namespace(self) -> str:
        """A name that no other test has."""
        return f"tenancy-{next(self._numbers)}"

    async def _installed(self, client: Client) -> bool:
        """Whether all is there: other suites on this server take their installation with them."""
        names = [each["metadata"]["name"] for each in of_kind("CustomResourceDefinition")]
        there = [self._exists(client, DEFINITIONS, name) for name in names]
        bound = [each["metadata"]["name"] for each in of_kind("ClusterRoleBinding")]
        there += [self._exists(client, BINDINGS, name) for name in bound]
        there += [self._exists(client, CLUSTER_ROLES, each["metadata"]["name"]) for each in ADDED]
        return all(await asyncio.gather(*there))

    async def _prepare(self, client: Client) -> None:
        await install(client)
        await add_grants(client)
        await eventually(lambda: self._aggregated(client))

    async def _aggregated(self, client: Client) -> bool:
        role = await client.get(CLUSTER_ROLES, "ctrlruntime-manager-aggregated-role")
        return len(role.get("rules") or ()) >= len(ADDED)

    # -- afterwards ------------------------------------------------------------------------------

    async def sweep(self) -> None:
        """Remove what a harness has made: our kinds first, then namespaces, then what is cluster-wide.

        Namespaces go by themselves, which takes a while; whoever needs the name of one waits for it.
        """
        async with Client.connect(self.server.config) as client:
            for kind in OWN:
                await self._clear(client, kind.mapping())
            made = [key async for key in self._scopes(client) if key not in self._there]
            await asyncio.gather(*(self._delete(client, _SCOPES[k], name) for k, name in made))
            waited = [(k, name) for k, name in made if k != "namespaces"]
            async with asyncio.timeout(90):
                while waited:
                    waited = [
                        (k, n) for k, n in waited if await self._exists(client, _SCOPES[k], n)
                    ]
                    await asyncio.sleep(0.05)

    async def _clear(self, client: Client, kind: RESTMapping) -> None:
        """Delete every object of a kind; whoever held it by a finalizer has ended."""
        items = await client.list(kind, metadata_only=True)
        await asyncio.gather(*(self._remove(client, kind, item["metadata"]) for item in items))

    async def _remove(self, client: Client, kind: RESTMapping, metadata: dict[str, Any]) -> None:
        name, namespace = metadata["name"], metadata["namespace"]
        try:
            if metadata.get("finalizers"):
                patch = {"metadata": {"finalizers": None}}
                await client.patch(kind, name, patch, namespace=namespace, metadata_only=True)
            await client.delete(kind, name, namespace=namespace)
        except NotFound:
            return

    async def _delete(self, client: Client, kind: RESTMapping, name: str) -> None:
        try:
            await client.delete(kind, name)
        except APIError as error:
            if not isinstance(error, NotFound | AlreadyExists) and error.code != 409:
                raise

    async def _exists(self, client: Client, kind: RESTMapping, name: str) -> bool:
        try:
            await client.get(kind, name)
        except NotFound:
            return False
        return True

    async def _scopes(
        self, client: Client, *, leaving: bool = True
    ) -> AsyncIterator[tuple[str, str]]:
        """What is cluster-wide; without those that leave, the next of their names is another one."""
        for kind, mapping in _SCOPES.items():
            for item in await client.list(mapping, metadata_only=True):
                if leaving or "deletionTimestamp" not in item["metadata"]:
                    yield kind, item["metadata"]["name"]


_SCOPES: dict[str, RESTMapping] = {
    "namespaces": NAMESPACES,
    "definitions": DEFINITIONS,
    "roles": CLUSTER_ROLES,
}


def names_of(users: Collection[str | User]) -> list[str]:
    """Users by name, whatever rights an embedded server would give them."""
    return [user if isinstance(user, str) else user.name for user in users]


def embedded_users(users: Collection[str | User]) -> list[User]:
    """Users of an embedded server: the administrator, and others whose rights are bound to them."""
    return [administrator(name) if name == ADMIN else User(name=name) for name in names_of(users)]
