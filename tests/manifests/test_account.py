"""The manager as the service account of dist/install.yaml: nothing is forbidden, nothing unused.

One tenant's whole life is walked, rare paths included: replies that are lost (a live read follows),
replaced and repeated objects, events that recur, the lead.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from apis.tenancy import LIST_KINDS, Tenant, TenantRegistry
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import APIError, Forbidden, NotFound
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.proxy import DropEvents, LoseReply, Mark, Match
from ctrlruntime.envtest.proxy.log import LogEntry
from ctrlruntime.envtest.users import User
from ctrlruntime.manager import Manager, ManagerOptions
from ctrlruntime.manager.logs import make_logger
from manager.controllers.tenancy import add_tenancy
from manager.options import LEADER_ELECTION_ID
from tests.backends import SharedServer
from tests.manifests.installation import (
    NAMESPACE,
    Right,
    account_token,
    forbidden,
    granted,
    install,
    installed,
    unused,
    used,
)
from tests.tenancy.drift_matrix import CASES, Case
from tests.tenancy.fleet import Fleet
from tests.tenancy.world import NAMESPACE_KIND, World, permissive

pytestmark = pytest.mark.xdist_group("manifests")

USER = "manager"


class Resident(World):
    """A world on a server that others use too, whose manager leads by a Lease of its own."""

    __slots__ = ()

    async def start_manager(self) -> None:
        self._log = (self.folder / "manager.log").open("a")
        self.manager = Manager(
            self.environment.config(USER),
            ManagerOptions(
                name="manager",
                leader_election=True,
                leader_election_id=LEADER_ELECTION_ID,
                leader_election_namespace=NAMESPACE,
                metrics_bind_address="0",
                health_bind_address="0",
            ),
            logger=make_logger(format="console", stream=self._log),
        )
        add_tenancy(self.manager, self.options)
        self._task = asyncio.create_task(self.manager.start())
        await asyncio.wait_for(self.manager.elected.wait(), 30)


@contextlib.asynccontextmanager
async def embedded(folder: Path) -> AsyncIterator[Resident]:
    """A current server; the account's rights are given to a user."""
    users = ("admin", User(name=USER))
    async with Environment(
        folder=folder, proxy=True, users=users, authorization="RBAC"
    ) as environment:
        await install(environment.client("envtest"), user=USER)
        yield Resident(environment, folder, options=permissive(folder))


@contextlib.asynccontextmanager
async def resident(folder: Path, real: SharedServer) -> AsyncIterator[Resident]:
    """The real server; the account itself, by its token."""
    async with real.environment(folder=folder / "admin", users=("admin",)) as first:
        admin = first.client("admin")
        async with installed(admin):
            token = await account_token(admin)
            users = ("admin", User(name=USER, token=token))
            async with real.environment(folder=folder, proxy=True, users=users) as environment:
                yield Resident(environment, folder, options=permissive(folder))


def is_listed(case: Case) -> bool:
    """Whether the case is the plain one of a list of its own."""
    return LIST_KINDS.get(case.list) == case.kind.gvk.group_kind and not set(case.options) - {
        "waitForReady"
    }


def cases(served: set[GroupVersionKind]) -> list[Case]:
    """One case for each of the fifteen kinds, as far as the server has them."""
    found: dict[str, Case] = {}
    for case in CASES:
        if is_listed(case) and case.kind.gvk in served:
            found.setdefault(case.list, case)
    return list(found.values())


async def served_kinds(client: Client) -> set[GroupVersionKind]:
    kinds = {mapping.gvk for mapping in BUILTIN.values()}
    return {gvk for gvk in kinds if await is_served(client, gvk)}


async def is_served(client: Client, gvk: GroupVersionKind) -> bool:
    path = f"/apis/{gvk.api_version}" if gvk.group else f"/api/{gvk.api_version}"
    try:
        answer = await client.transport.request("GET", path)
    except APIError:
        return False
    return f'"kind":"{gvk.kind}"'.encode() in answer.body


def entries(chosen: list[Case], **options: Any) -> dict[str, Any]:
    """Lists of a template with these resources."""
    lists: dict[str, Any] = {}
    for case in chosen:
        entry = {**case.entry(""), "waitForReady": False, **options}
        entry["spec"] = {**entry["spec"]}
        if case.list == "namespaces":
            entry["nameTemplate"] = "account-{{ .uid }}"
        lists.setdefault(case.list, []).append(entry)
    return lists


async def live(world: Resident, chosen: list[Case]) -> list[LogEntry]:
    """A tenant's whole life. What the manager asked meanwhile."""
    proxy = world.environment.proxy
    mark = world.mark()
    await world.start_manager()
    fleet = await Fleet.make(world)
    resources = [case.kind.resource for case in chosen]
    # The reply to the first write of each kind is lost, and the watch does not tell what came of it:
    # it has to be read.
    for resource in (*resources, *OWN):
        proxy.add(LoseReply(), Match(user=USER, verb="write", resource=resource), times=1)
        types = ("MODIFIED",) if resource.endswith("/status") else ("ADDED", "MODIFIED")
        watched = Match(user=USER, resource=resource.removesuffix("/status"))
        proxy.add(DropEvents(types=types), watched, times=None)
    fleet.rows("a")
    await fleet.registry()
    await fleet.template(**entries(chosen))
    await fleet.ready("a-app", timeout=90)
    proxy.clear()
    await fleet.allow_delete("nonsense")  # an event now, and the same event again at the next plan
    await fleet.event("InvalidAnnotation")
    await everything_changes(fleet, chosen)
    await world.rest()
    fleet.delete_row("a")
    await fleet.allow_delete(1)
    await deleted(world, mark, [*resources, "tenants.tenancy.ctrlruntime.dev"])
    proxy.clear()
    await world.stop_manager()
    await sweep(fleet)
    return proxy.log.entries(mark)


async def sweep(fleet: Fleet) -> None:
    """Leave nothing in a server that others use: what waits for the manager waits no longer."""
    for kind, name in ((Tenant, "a-app"), (TenantRegistry, "registry")):
        with contextlib.suppress(NotFound):
            await fleet.patch(kind, name, {"metadata": {"finalizers": None}})
    for namespace in (fleet.namespace, "account-a"):
        with contextlib.suppress(NotFound):
            await fleet.world.client.delete(NAMESPACE_KIND, namespace)


OWN = (
    "tenants.tenancy.ctrlruntime.dev",
    "tenantregistries.tenancy.ctrlruntime.dev/status",
    "tenanttemplates.tenancy.ctrlruntime.dev/status",
)


async def everything_changes(fleet: Fleet, chosen: list[Case]) -> None:
    """Every resource is replaced as a whole, with a label more."""
    more = entries(chosen, patchStrategy="replace", labelsTemplate={"changed": "true"})
    await fleet.template(**more)
    resources = {case.kind.resource for case in chosen}

    async def replaced() -> set[str]:
        log = fleet.world.environment.proxy.log.entries()
        return resources - {e.resource for e in log if e.user == USER and e.verb == "update"}

    await fleet.world.eventually(replaced, lambda left: not left, timeout=60)


async def deleted(world: Resident, mark: Mark, resources: list[str]) -> None:
    """Until the manager has asked for the deletion of an object of each kind."""

    async def left() -> set[str]:
        log = world.environment.proxy.log.entries(mark)
        return set(resources) - {e.resource for e in log if e.verb == "delete" and e.user == USER}

    await world.eventually(left, lambda found: not found, timeout=30)


def rights_on(mappings: list[RESTMapping]) -> set[str]:
    return {mapping.resource for mapping in mappings}


NOT_ON_1_20 = {
    "cronjobs.batch",
    "horizontalpodautoscalers.autoscaling",
    "poddisruptionbudgets.policy",
}
"""Served by the old server in other versions only; the current one has them below."""

BY_METRICS: set[Right] = {
    ("create", "tokenreviews.authentication.k8s.io"),
    ("create", "subjectaccessreviews.authorization.k8s.io"),
}
"""Used when somebody reads metrics over https: tests of the metrics server."""


@pytest.mark.criterion("rbac")
@pytest.mark.timeout(240)
async def test_on_the_real_server_nothing_is_forbidden_and_nothing_unused(
    real_server: SharedServer, tmp_path: Path
) -> None:
    async with resident(tmp_path, real_server) as world:
        kinds = await served_kinds(world.client)
        log = await live(world, cases(kinds))
    assert forbidden(log) == []
    left = {right for right in unused(log) if right[1] not in NOT_ON_1_20}
    assert left - BY_METRICS == set()
    assert used(log) - granted() == set()


@pytest.mark.criterion("rbac")
@pytest.mark.timeout(240)
async def test_on_a_current_server_every_verb_of_every_kind_is_used(tmp_path: Path) -> None:
    async with embedded(tmp_path) as world:
        kinds = await served_kinds(world.client)
        assert len(cases(kinds)) == len(LIST_KINDS)
        log = await live(world, cases(kinds))
    assert forbidden(log) == []
    assert unused(log) - BY_METRICS == set()
    assert used(log) - granted() == set()


@pytest.mark.criterion("rbac")
async def test_the_right_to_finalizers_is_what_owner_references_take(tmp_path: Path) -> None:
    """Where a server protects owners, an object cannot be given one without it."""
    plugins = {"enable_admission_plugins": ["OwnerReferencesPermissionEnforcement"]}
    async with Environment("kube-apiserver", folder=tmp_path / "s", server=plugins) as server:
        admin = server.client("envtest")
        await install(admin)
        token = await account_token(admin)
        users = ("admin", User(name=USER, token=token))
        async with SharedServer(server.backend).environment(  # type: ignore[arg-type]
            folder=tmp_path / "u", users=users
        ) as environment:
            account = environment.client(USER)
            await account.create(owned_by("Tenant"), dry_run=True)
            with pytest.raises(Forbidden, match="cannot set blockOwnerDeletion"):
                await account.create(owned_by("TenantTemplate"), dry_run=True)


def owned_by(kind: str) -> dict[str, Any]:
    reference = {
        "apiVersion": Tenant.gvk().api_version,
        "kind": kind,
        "name": "x",
        "uid": "0d1e6e4e-0000-0000-0000-000000000000",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {"name": "owned", "namespace": "default", "ownerReferences": [reference]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
