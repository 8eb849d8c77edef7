"""A stack with exactly the rights of config/data-plane, and on the hub those of one namespace."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from apis.fleet.labels import APPROVE_ORPHANS, PARALLEL_PREFIX
from apis.tenancy import Tenant
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupKind, GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import AlreadyExists, Forbidden
from ctrlruntime.envtest.users import User, administrator
from internal.fleet.hub import instead_of_foreign, parallel_label
from internal.fleet.pods import WORKLOADS
from internal.tenancy.shared.missing_permissions import Grant
from internal.tenancy.shared.privileges import PrivilegeRefused
from manager.controllers.hub import StackOptions, add_hub
from manager.controllers.orphan_sweep import add_orphan_sweep
from manager.controllers.tenancy_options import TenancyOptions
from tests.docs.blocks import ROOT
from tests.fleet.stack.harness import (
    CONFIG_MAP,
    DEPLOYMENT,
    NAMESPACE,
    SECRET,
    Server,
    condition,
    config_map,
    deployment,
    entry,
    eventually,
    gone,
    ready,
    server,
    tenant,
)
from tests.fleet.stack.pod import Pod
from tests.fleet.stack.test_processes import stack
from tests.support.manager_harness import make_manager

RBAC = "rbac.authorization.k8s.io"
FOLDER = ROOT / "config" / "data-plane"
PARTS = (
    "namespace",
    "service_account",
    "role",
    "role_binding",
    "aggregated_role",
    "aggregated_role_binding",
)


def subjects(*users: str) -> list[dict[str, str]]:
    """Return users as subjects of a binding."""
    return [{"kind": "User", "name": each, "apiGroup": RBAC} for each in users]


async def install_data_plane(client: Client, *users: str) -> None:
    """Create what config/data-plane has besides the CRDs, bound to the user `manager` and others."""
    bound = {"subjects": subjects("manager", *users)}
    for name in PARTS:
        for made in yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text()):
            await client.create(made | (bound if "subjects" in made else {}))


async def grant(
    client: Client, kind: str, name: str, rules: list[Any], namespace: str = ""
) -> None:
    """Create a role and its binding to the user `manager`."""
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    head = {"apiVersion": f"{RBAC}/v1", "metadata": metadata}
    await client.create({**head, "kind": kind, "rules": rules})
    reference = {"apiGroup": RBAC, "kind": kind, "name": name}
    await client.create(
        {**head, "kind": f"{kind}Binding", "roleRef": reference, "subjects": subjects("manager")}
    )


def shipped(who: str) -> list[Any]:
    """Return the rules of the stack's reader or writer on the hub, as config/operator ships them."""
    role = yaml.safe_load((ROOT / "config" / "operator" / f"stack_{who}_role.yaml").read_text())
    return list(role["rules"])


@pytest.mark.criterion("R-F19")
async def test_the_label_that_a_missing_right_advises_gives_it_to_the_stack(tmp_path: Path) -> None:
    users = (administrator("admin"), User(name="manager"))
    async with server(tmp_path, plane=True, users=users, authorization="RBAC") as plane:
        await install_data_plane(plane.client)
        stack = plane.environment.client("manager")
        kind = BUILTIN[GroupVersionKind("", "v1", "LimitRange")]
        with pytest.raises(Forbidden):
            await stack.list(kind)
        words = shlex.split(Grant("", kind.plural).advice.partition("To allow it: ")[2])
        name, verbs, label = words[3], words[4].partition("=")[2], words[-1].partition("=")
        rule = {"apiGroups": [""], "resources": [kind.plural], "verbs": verbs.split(",")}
        metadata = {"name": name, "labels": {label[0]: label[2]}}
        role = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": metadata}
        await plane.client.create({**role, "rules": [rule]})
        assert await stack.list(kind) == []


@pytest.mark.criterion("R-F19")
@pytest.mark.parametrize("do", ["write there", "make it"])
def test_another_namespace_is_refused_to_a_stack_with_what_to_do_instead(do: str) -> None:
    """The commands are those of a parallel namespace, which FLEET-R22 has a Tenant use."""
    privileges = TenancyOptions(instead_of_foreign=instead_of_foreign("east")).privileges
    makes = do == "make it"
    kind, name = GroupKind("", "Namespace"), "NAME" if makes else "shop"
    check = (
        partial(privileges.check_kind, kind, namespaced=False)
        if makes
        else partial(privileges.check_place, name, "default")
    )
    with pytest.raises(PrivilegeRefused) as refused:
        check()
    grant = f"kubectl label namespace {name} {parallel_label('east')}=true"
    assert f"on the hub: kubectl create namespace {name} && {grant}" in str(refused.value)
    assert "--allow-foreign" not in str(refused.value)


@pytest.mark.criterion("FLEET-R25")
def test_the_rights_on_a_data_plane_name_no_workload() -> None:
    role, own = yaml.safe_load_all((FOLDER / "role.yaml").read_text())
    named = {
        (group, plural)
        for rule in [*role["rules"], *own["rules"]]
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }
    workloads = {
        (each.gvk.group, each.plural)
        for each in BUILTIN.values()
        if each.gvk.group_kind in WORKLOADS
    }
    assert workloads.isdisjoint(named)
    assert ("tenancy.ctrlruntime.dev", "tenants") in named


@contextlib.asynccontextmanager
async def hub_and_plane(folder: Path, *more: str) -> AsyncIterator[tuple[Server, Server]]:
    """A hub and a data plane with what config/data-plane has; the user `manager` has no right on the hub.

    `more`: further users with its rights on the data plane.
    """
    users = (administrator("admin"), *(User(name=each) for each in ("manager", *more)))
    async with contextlib.AsyncExitStack() as opened:
        made = []
        for name, is_plane in (("hub", False), ("plane", True)):
            (folder / name).mkdir()
            started = server(folder / name, plane=is_plane, authorization="RBAC", users=users)
            made.append(await opened.enter_async_context(started))
        hub, plane = made
        await install_data_plane(plane.client, *more)
        yield hub, plane


async def test_the_shipped_rights_suffice_and_a_namespace_that_is_not_granted_is_named(
    tmp_path: Path,
) -> None:
    async with hub_and_plane(tmp_path) as (hub, plane):
        await grant(hub.client, "ClusterRole", "reads", shipped("reader"))
        await grant(hub.client, "ClusterRole", "secrets", shipped("secret_reader"))
        program = await stack(hub, plane, "manager", "--role=controllers")
        async with program:
            since = plane.mark()
            await plane.client.create(
                tenant(deployment(config="s"), config_map("s"), config_map("n"))
            )
            found = await condition(plane, "HubReady", "False", "NamespaceNotGranted")
            assert "kubectl label namespace default" in found.message
            assert "parallel.fleet.ctrlruntime.dev/planes=true" in found.message
            assert await plane.names(CONFIG_MAP) == {"n"}
            assert await hub.names(DEPLOYMENT) == set()
            await grant(hub.client, "Role", "writes", shipped("writer"), "default")
            await ready(plane)
            assert (await hub.names(DEPLOYMENT), await hub.names(CONFIG_MAP)) == ({"web"}, {"s"})
            await gone(plane)
            assert (await hub.names(DEPLOYMENT), await hub.names(CONFIG_MAP)) == (set(), set())
            refused = [row for row in plane.counts(since) if row.code == 403]
            assert refused == []


@pytest.mark.criterion("G-F1")
@pytest.mark.parametrize("restricted", [False, True], ids=["all", "restricted"])
async def test_the_shipped_rights_suffice_to_sweep_orphans_and_to_record_it(
    tmp_path: Path, restricted: bool
) -> None:
    async with hub_and_plane(tmp_path) as (hub, plane):
        label = f"{PARALLEL_PREFIX}planes"
        await hub.client.create(namespace("planes"))
        await hub.client.patch(NAMESPACE, "default", {"metadata": {"labels": {label: "true"}}})
        await grant(hub.client, "ClusterRole", "reads", shipped("reader"))
        kind, places = ("Role", ("planes", "default")) if restricted else ("ClusterRole", ("",))
        for place in places:
            await grant(hub.client, kind, "secrets", shipped("secret_reader"), place)
        await grant(hub.client, "Role", "writes", shipped("writer"), "default")
        await grant(hub.client, "Role", "records", shipped("recorder"), "planes")
        arguments = () if restricted else ("--unrestricted-hub-secrets",)
        async with await stack(hub, plane, "manager", "--role=controllers", *arguments):
            await plane.client.create(tenant(reader_of("s"), secret("s")))
            await ready(plane)
        manager = make_manager(plane.environment.config("manager"), name="manager")
        options = StackOptions(
            data_plane=plane.id, target_namespace="planes", restrict_secrets=restricted
        )
        connected = await add_hub(manager, hub.environment.config("manager"), options)
        sweeper = add_orphan_sweep(manager, connected, period=1e6, delay=0.0)
        async with manager.running():
            await connected.cluster.wait_synced(60.0)
            await manager.cache.wait_synced(60.0)
            assert (await sweeper.look()).orphaned == frozenset()
            await plane.client.patch(
                Tenant, "acme", {"metadata": {"finalizers": None}}, namespace="default"
            )
            await plane.client.delete(Tenant, "acme", namespace="default")
            held = await eventually(sweeper.look, lambda seen: seen.held == 1)
            assert held.hold is not None
            approved = {"metadata": {"annotations": {APPROVE_ORPHANS: held.hold.digest}}}
            await hub.client.patch(NAMESPACE, "planes", approved)
            await sweeper.look()
            assert (await hub.names(DEPLOYMENT), await hub.names(SECRET)) == (set(), set())


def namespace(name: str) -> dict[str, Any]:
    """A Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def secret(name: str) -> dict[str, Any]:
    """A Secret of a tenant."""
    return entry(name, "Secret", stringData={"k": "v"})


def reader_of(name: str) -> dict[str, Any]:
    """A Deployment whose Pods read a Secret."""
    made = deployment(f"{name}-web")
    (container,) = made["spec"]["spec"]["template"]["spec"]["containers"]
    container["envFrom"] = [{"secretRef": {"name": name}}]
    return made


async def test_restricted_stacks_watch_secrets_in_parallel_namespaces_alone_and_follow_their_labels(
    tmp_path: Path,
) -> None:
    async with hub_and_plane(tmp_path) as (hub, plane):
        label = f"{PARALLEL_PREFIX}planes"
        for name, value in (("planes", "no"), ("acme", "no"), ("default", "true")):
            with contextlib.suppress(AlreadyExists):
                await hub.client.create(namespace(name))
            await hub.client.patch(NAMESPACE, name, {"metadata": {"labels": {label: value}}})
        await plane.client.create(namespace("acme"))
        await grant(hub.client, "ClusterRole", "reads", shipped("reader"))
        for name in ("planes", "default"):
            await grant(hub.client, "Role", "secrets", shipped("secret_reader"), name)
        await grant(hub.client, "Role", "writes", shipped("writer"), "default")
        pod = Pod(hub, plane, "planes", "controllers")
        async with pod.running():
            await plane.client.create(tenant(reader_of("s"), secret("s")))
            await ready(plane)
            assert await hub.names(SECRET) == {"s"}
            await plane.client.create(tenant(reader_of("t"), secret("t"), namespace="acme"))
            found = await condition(
                plane, "HubReady", "False", "NamespaceNotGranted", namespace="acme"
            )
            assert f"kubectl label namespace acme {label}=true" in found.message
            for role in ("secret_reader", "writer"):
                await grant(hub.client, "Role", role.replace("_", "-"), shipped(role), "acme")
            assert pod.restarts == 0
            await hub.client.patch(NAMESPACE, "acme", {"metadata": {"labels": {label: "true"}}})
            await ready(plane, namespace="acme")
            assert (pod.restarts, await hub.names(SECRET, "acme")) == (1, {"t"})
            assert "the parallel namespaces have changed" in pod.output
        log = hub.environment.proxy.log.entries()
        places = {
            each.namespace for each in log if (each.user, each.resource) == ("manager", "secrets")
        }
        assert places == {"planes", "default", "acme"}
