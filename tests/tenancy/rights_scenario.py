"""A tenant's whole life in which the manager uses every right it has, rare paths included.

Replies are lost (a list of one object follows), a streaming list fails (pages follow), fields are to be
left as they are (the object is read), objects are replaced as a whole and taken away, events recur, the
manager leads, and somebody reads its metrics.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import aiohttp
from structlog.typing import FilteringBoundLogger

from apis.tenancy import LIST_KINDS, Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest.crds import is_served
from ctrlruntime.envtest.proxy import DropEvents, Fail, LoseReply, Mark, Match
from ctrlruntime.manager import Manager, ManagerOptions, MetricsServing
from manager.options import LEADER_ELECTION_ID
from tests.manifests.installation import NAMESPACE, RBAC, SERVICE_ACCOUNT
from tests.tenancy.drift_matrix import CASES, Case
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import NAMESPACE_KIND, TenancyHarness, mapping

USER = "manager"
LEASE = mapping("coordination.k8s.io/v1", "Lease")
READER_BINDING = mapping(f"{RBAC}/v1", "ClusterRoleBinding")
OWN = (
    "tenants.tenancy.ctrlruntime.dev",
    "tenantregistries.tenancy.ctrlruntime.dev/status",
    "tenanttemplates.tenancy.ctrlruntime.dev/status",
)
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


class LeadersHarness(TenancyHarness):
    """A harness whose manager leads by the Lease of the installation, and shows metrics to readers."""

    __slots__ = ()

    async def start_manager(self, add: Callable[[Manager], None] | None = None) -> None:
        """Without a Lease of former tests, so that one is made."""
        with contextlib.suppress(NotFound):
            await self.client.delete(LEASE, LEADER_ELECTION_ID, namespace=NAMESPACE)
        async with asyncio.timeout(90):
            await TenancyHarness.start_manager(self, add)

    def make_manager(self, config: Config, logger: FilteringBoundLogger) -> Manager:
        return Manager(config, self.manager_options(), logger=logger)

    def manager_options(self) -> ManagerOptions:
        """As in the installation, on free ports."""
        return ManagerOptions(
            name="manager",
            leader_election=True,
            leader_election_id=LEADER_ELECTION_ID,
            leader_election_namespace=NAMESPACE,
            metrics_bind_address="127.0.0.1:0",
            metrics=MetricsServing(secure=True, authorize=True),
            health_bind_address="0",
        )


# -- what is in the template ---------------------------------------------------------------------


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
    """Of the kinds that are known everywhere, those that this server has."""
    return {gvk for gvk in BUILTIN if await is_served(client, gvk)}


def entries(chosen: list[Case], space: str, **options: object) -> dict[str, Any]:
    """Lists of a template with these resources; `space` is the name of the Namespace among them."""
    lists: dict[str, Any] = {}
    for case in chosen:
        entry = {**case.entry(""), "waitForReady": False, **options}
        entry["spec"] = {**entry["spec"]}
        if case.list == "namespaces":
            entry["nameTemplate"] = space
        lists.setdefault(case.list, []).append(entry)
    return lists


# -- the life ------------------------------------------------------------------------------------


async def live(harness: LeadersHarness, chosen: list[Case]) -> None:
    """From the manager's start to its end."""
    mark = harness.mark()
    resources = [case.kind.resource for case in chosen]
    lose_replies(harness, [*resources, *OWN])
    await harness.start_manager()
    fleet = await Fleet.make(harness)
    space = f"{fleet.namespace}-space"
    try:
        fleet.rows("a")
        await fleet.registry()
        await fleet.template(**entries(chosen, space))
        await fleet.ready("a-app")
        harness.environment.proxy.clear()
        await fleet.allow_delete("nonsense")  # an event now, and the same event at the next plan
        await fleet.event("InvalidAnnotation")
        await everything_changes(fleet, chosen, space)
        await metrics_are_read(fleet)
        await harness.idle(lost_after=0.5)
        fleet.delete_row("a")
        await fleet.approve("Held: a-app")
        await deleted(harness, mark, [*resources, "tenants.tenancy.ctrlruntime.dev"])
    finally:
        harness.environment.proxy.clear()
        await harness.stop_manager()
        await sweep(fleet, space)


def lose_replies(harness: TenancyHarness, resources: list[str]) -> None:
    """The reply to the first write of each kind is lost, and its watch does not tell what came of it:
    it has to be asked for. The first watch of definitions fails, and with it a streaming list."""
    proxy = harness.environment.proxy
    for resource in resources:
        proxy.add(LoseReply(), Match(user=USER, verb="write", resource=resource), times=1)
        types = ("MODIFIED",) if resource.endswith("/status") else ("ADDED", "MODIFIED")
        watched = Match(user=USER, resource=resource.removesuffix("/status"))
        proxy.add(DropEvents(types=types), watched, times=None)
    proxy.add(Fail(500), Match(user=USER, verb="watch", resource=DEFINITIONS), times=1)


async def everything_changes(fleet: Fleet, chosen: list[Case], space: str) -> None:
    """Every resource is replaced as a whole, with a label more and a field that is not ours to set."""
    more = entries(
        chosen,
        space,
        patchStrategy="replace",
        ignoreFields=["$.nobody.has.this"],
        labelsTemplate={"changed": "true"},
    )
    await fleet.template(**more)
    resources = {case.kind.resource for case in chosen}

    async def replaced() -> set[str]:
        log = fleet.harness.environment.proxy.log.entries()
        return resources - {e.resource for e in log if e.user == USER and e.verb == "update"}

    await fleet.harness.eventually(replaced, lambda left: not left)


async def deleted(harness: TenancyHarness, mark: Mark, resources: list[str]) -> None:
    """Until the manager has asked for the deletion of an object of each kind."""

    async def left() -> set[str]:
        log = harness.environment.proxy.log.entries(mark)
        return set(resources) - {e.resource for e in log if e.verb == "delete" and e.user == USER}

    await harness.eventually(left, lambda found: not found)


async def metrics_are_read(fleet: Fleet) -> None:
    """By an account that has the role for it; not by one that has not."""
    assert fleet.harness.manager is not None
    url = f"https://127.0.0.1:{fleet.harness.manager.metrics_port}/metrics"
    reader, stranger = [await account(fleet, name) for name in ("reader", "stranger")]
    await fleet.harness.client.create(reading(fleet.namespace))
    async with aiohttp.ClientSession() as session:

        async def asked_by(token: str) -> int:
            headers = {"Authorization": f"Bearer {token}"}
            async with session.get(url, headers=headers, ssl=False) as answer:
                return answer.status

        assert await asked_by(stranger) == 403
        assert await asked_by(reader) == 200


async def account(fleet: Fleet, name: str) -> str:
    """A new service account's token."""
    client, metadata = fleet.harness.client, {"name": name, "namespace": fleet.namespace}
    await client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await client.create_subresource(
        SERVICE_ACCOUNT, name, "token", request, namespace=fleet.namespace
    )
    return str(answer["status"]["token"])


def reading(namespace: str) -> dict[str, Any]:
    """The installation's role of those who read metrics, for the account `reader`."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{namespace}-reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": namespace}],
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "ctrlruntime-metrics-reader"},
    }


async def sweep(fleet: Fleet, space: str) -> None:
    """Leave nothing in a server that others use: what waits for the manager waits no longer."""
    client = fleet.harness.client
    for kind, name in ((Tenant, "a-app"), (TenantRegistry, "registry"), (TenantTemplate, "app")):
        with contextlib.suppress(NotFound):
            await fleet.patch(kind, name, {"metadata": {"finalizers": None}})
            await fleet.delete(kind, name)
    with contextlib.suppress(NotFound):
        await client.delete(READER_BINDING, f"{fleet.namespace}-reader")
    for namespace in (fleet.namespace, space):
        with contextlib.suppress(NotFound):
            await client.delete(NAMESPACE_KIND, namespace)
