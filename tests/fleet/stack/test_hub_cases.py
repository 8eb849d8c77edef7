"""What a stack does while the hub, or a namespace of it, does not take its workloads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from apis.fleet.labels import DATA_PLANE
from apis.tenancy import Tenant
from ctrlruntime.client.errors import Forbidden, NotFound, ServiceUnavailable, TransportError
from internal.fleet.hub import HubReason, explain
from tests.fleet.stack.harness import (
    CONFIG_MAP,
    DEPLOYMENT,
    NAMESPACE,
    Fleet,
    change,
    condition,
    config_map,
    deployment,
    entry,
    eventually,
    fleet,
    gone,
    idle,
    is_ready,
    read,
    ready,
    tenant,
)

TENANTS = "tenants.tenancy.ctrlruntime.dev"


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with fleet(tmp_path) as made:
        yield made


async def test_with_the_hub_down_from_the_start_the_data_plane_converges(servers: Fleet) -> None:
    hub, plane = servers.hub, servers.plane
    await hub.stop()
    async with servers.running(grace=0.5, probe_period=0.1):
        await plane.client.create(tenant(deployment(config="s"), config_map("s"), name="busy"))
        await plane.client.create(tenant(config_map("notes"), name="quiet"))
        await ready(plane, "quiet")
        found = await condition(plane, "HubReady", "False", "HubUnreachable", "busy")
        assert "does not answer" in found.message
        assert await plane.names(CONFIG_MAP) == {"notes"}
        await hub.restart()
        await ready(plane, "busy")
        await condition(plane, "HubReady", "True", "ObjectsPlaced", "busy")
        assert await hub.names(DEPLOYMENT) == {"web"}
        assert (await hub.names(CONFIG_MAP), await plane.names(CONFIG_MAP)) == ({"s"}, {"notes"})


async def test_a_hub_that_goes_down_is_reported_though_nothing_is_to_be_written(
    servers: Fleet,
) -> None:
    hub, plane = servers.hub, servers.plane
    async with servers.running(grace=0.5, probe_period=0.1):
        await plane.client.create(tenant(deployment(), config_map("notes"), name="busy"))
        await plane.client.create(tenant(config_map("quiet"), name="quiet"))
        await ready(plane, "busy")
        before = await ready(plane, "quiet")
        await hub.stop()
        await condition(plane, "HubReady", "False", "HubUnreachable", "busy")
        await condition(plane, "Ready", "False", "ResourcesFailed", "busy")
        await plane.client.create(tenant(config_map("late"), name="late"))
        await ready(plane, "late")
        after = await ready(plane, "quiet")
        assert after.metadata.resource_version == before.metadata.resource_version
        await hub.restart()
        await ready(plane, "busy")
        assert await hub.names(DEPLOYMENT) == {"web"}


async def test_a_tenant_with_workloads_goes_only_once_the_hub_has_let_go_of_them(
    servers: Fleet,
) -> None:
    hub, plane = servers.hub, servers.plane
    async with servers.running(grace=0.5, probe_period=0.1):
        await plane.client.create(tenant(deployment(), config_map("notes")))
        await ready(plane)
        await hub.stop()
        await plane.client.delete(Tenant, "acme", namespace="default")
        await condition(plane, "HubReady", "False", "HubUnreachable")
        await condition(plane, "Ready", "False", "RemovalPending")
        await hub.restart()
        await eventually(lambda: read(plane), lambda found: found is None)
        assert (await hub.names(DEPLOYMENT), await plane.names(CONFIG_MAP)) == (set(), set())


@pytest.mark.criterion("FLEET-R22")
async def test_a_missing_parallel_namespace_is_named_with_the_command_and_never_created(
    servers: Fleet,
) -> None:
    hub, plane = servers.hub, servers.plane
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "acme"}}
    await plane.client.create(namespace)
    async with servers.running():
        made = tenant(deployment(), config_map("notes"), namespace="acme")
        await plane.client.create(made)

        async def look() -> tuple[str, str]:
            found = await read(plane, namespace="acme")
            conditions = [] if found is None else found.status.conditions
            hub_ready = [each for each in conditions if each.type == "HubReady"]
            return (hub_ready[0].reason, hub_ready[0].message) if hub_ready else ("", "")

        _, message = await eventually(look, lambda seen: seen[0] == "NamespaceMissing")
        assert "kubectl create namespace acme" in message
        assert "kubectl label namespace acme parallel.fleet.ctrlruntime.dev/plane-0=true" in message
        assert await plane.names(CONFIG_MAP, "acme") == {"notes"}
        assert await hub.get(NAMESPACE, "acme") is None
        await hub.client.create(namespace)
        await eventually(look, lambda seen: seen[0] == "ObjectsPlaced")
        assert await hub.names(DEPLOYMENT, "acme") == {"web"}


@pytest.mark.criterion("FLEET-R23")
async def test_namespaces_of_a_tenant_are_made_and_removed_on_both(servers: Fleet) -> None:
    hub, plane = servers.hub, servers.plane
    async with servers.running():
        inside = config_map("inside") | {"targetNamespace": "acme-own", "dependIds": ["acme-own"]}
        await plane.client.create(tenant(entry("acme-own", "Namespace"), inside))
        found = await ready(plane)
        keys = {"Namespace//acme-own@acme-own", "hub:Namespace//acme-own@acme-own"}
        assert keys < set(found.status.applied_resources)
        on_hub = await hub.get(NAMESPACE, "acme-own")
        on_plane = await plane.get(NAMESPACE, "acme-own")
        assert on_hub is not None
        assert on_plane is not None
        assert on_hub["metadata"]["labels"][DATA_PLANE] == plane.id
        assert await plane.names(CONFIG_MAP, "acme-own") == {"inside"}
        await gone(plane)
        assert await hub.get(NAMESPACE, "acme-own") is None
        assert await plane.get(NAMESPACE, "acme-own") is None


@pytest.mark.criterion("FLEET-R29")
async def test_an_object_of_another_data_plane_is_a_conflict_that_names_its_holder(
    tmp_path: Path,
) -> None:
    async with fleet(tmp_path, planes=2) as servers:
        first, second = servers.planes
        async with servers.running(first), servers.running(second):
            await first.client.create(tenant(deployment()))
            await ready(first)
            before = await servers.hub.get(DEPLOYMENT, "web")
            forced = deployment(replicas=3) | {"conflictPolicy": "Force"}
            await second.client.create(tenant(forced, config_map("notes")))
            found = await condition(second, "Conflicted", "True", "ResourceConflict")
            assert f"Tenant.tenancy.ctrlruntime.dev/default/acme@{first.id}" in found.message
            assert await second.names(CONFIG_MAP) == {"notes"}
            assert await servers.hub.get(DEPLOYMENT, "web") == before
            await gone(second)
            assert await servers.hub.get(DEPLOYMENT, "web") == before
            await second.client.create(tenant(forced))
            await condition(second, "Conflicted", "True", "ResourceConflict")
            await gone(first)
            await ready(second)
            taken = await servers.hub.get(DEPLOYMENT, "web")
            assert taken is not None
            assert taken["metadata"]["labels"][DATA_PLANE] == second.id
            assert taken["spec"]["replicas"] == 3


async def test_nothing_is_requested_at_rest_and_a_restart_writes_nothing(servers: Fleet) -> None:
    hub, plane = servers.hub, servers.plane
    async with servers.running() as manager:
        await plane.client.create(tenant(deployment(config="s"), config_map("s"), config_map("n")))
        await ready(plane)
        await idle(manager, plane, hub)
    since = [each.mark() for each in (hub, plane)]
    async with servers.running():
        # What it would write for the first tenant comes before what it writes for the second.
        await plane.client.create(tenant(config_map("later"), name="later"))
        await ready(plane, "later")
        await change(
            plane, tenant(deployment(config="s", replicas=2), config_map("s"), config_map("n"))
        )
        await ready(plane)
    on_hub, on_plane = (each.counts(mark) for each, mark in zip((hub, plane), since, strict=True))
    assert on_hub.writes == 1, on_hub
    assert {
        each.resource for each in on_plane if each.verb in {"patch", "create", "update", "delete"}
    } <= {TENANTS, f"{TENANTS}/status", "configmaps"}


async def test_every_list_and_watch_of_the_hub_selects_the_data_plane(servers: Fleet) -> None:
    async with servers.running() as manager:
        await servers.plane.client.create(tenant(deployment(config="s"), config_map("s")))
        await ready(servers.plane)
        cache = manager.get_cluster("hub").cache
        informers = [
            each for kind in cache.declared() for each in cache.informers_of(kind.gvk.group_kind)
        ]
        assert informers
        for each in informers:
            assert each.selection.labels == f"{DATA_PLANE}={servers.plane.id}"


@pytest.mark.criterion("D5-17")
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TransportError("connection refused"), HubReason.UNREACHABLE),
        (ServiceUnavailable("not ready"), HubReason.UNREACHABLE),
        (
            NotFound('namespaces "a" not found', details={"kind": "namespaces", "name": "a"}),
            HubReason.NAMESPACE_MISSING,
        ),
        (
            Forbidden(
                'secrets "x" is forbidden: User "u" cannot patch resource "secrets" in API group "" in the namespace "a"'
            ),
            HubReason.NAMESPACE_NOT_GRANTED,
        ),
        (Forbidden('pods "x" is forbidden: exceeded quota: q'), None),
        (NotFound('configmaps "403" not found', details={"kind": "configmaps", "name": "a"}), None),
    ],
)
def test_errors_of_the_hub_are_distinguished_from_those_of_an_object(
    error: Exception, reason: HubReason | None
) -> None:
    found = explain(error, "a", "plane-a")
    assert (found.reason if found else None) == reason
    if reason in {HubReason.NAMESPACE_MISSING, HubReason.NAMESPACE_NOT_GRANTED}:
        assert found is not None
        assert (
            "kubectl label namespace a parallel.fleet.ctrlruntime.dev/plane-a=true" in found.message
        )


@pytest.mark.criterion("D5-17")
def test_a_right_that_the_stack_lacks_on_the_hub_is_named() -> None:
    """Where the namespace has its label, it is the kind that the stack's role leaves out."""
    denied = 'cannot create resource "rollouts" in API group "argoproj.io" in the namespace "a"'
    found = explain(Forbidden(f'rollouts "x" is forbidden: User "u" {denied}'), "a", "plane-a")
    assert found is not None
    assert (
        "The stack of plane-a may not create rollouts.argoproj.io in the namespace 'a'"
        in found.message
    )
    assert "ClusterRole ctrlruntime-fleet-stack-writer lacks the right" in found.message


@pytest.mark.slow
@pytest.mark.criterion("R-F8")
async def test_what_a_restored_hub_lost_is_made_again_and_its_tenant_is_not_ready_meanwhile(
    servers: Fleet,
) -> None:
    """The hub has no Lease of a stack: the informers of the stack's own cluster find it out."""
    hub, plane = servers.hub, servers.plane
    async with servers.running(grace=1.5, probe_period=0.1):
        await plane.client.create(tenant(deployment("kept"), name="kept"))
        await ready(plane, "kept")
        backup = hub.snapshot()
        await plane.client.create(tenant(deployment("late"), config_map("notes"), name="late"))
        await ready(plane, "late")
        await hub.stop()
        await condition(plane, "HubReady", "False", "HubUnreachable", "late")
        hub.restore(backup)
        await hub.restart()

        async def is_back() -> bool:
            found = await read(plane, "late")
            made = "late" in await hub.names(DEPLOYMENT)
            assert made or not is_ready(found)
            return made

        await eventually(is_back)
        await ready(plane, "late")
        assert await hub.names(DEPLOYMENT) == {"kept", "late"}
