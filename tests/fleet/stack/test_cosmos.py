"""Sets of nodes on data planes, whose Pods, claims and all else are on the hub."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from apis.cosmos import CosmosFullNode
from apis.fleet.labels import APPROVE_ORPHANS
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.proxy import Mark
from ctrlruntime.envtest.proxy.log import Row
from ctrlruntime.manager import Manager, ManagerOptions
from manager.controllers.hub import StackOptions, add_hub
from manager.controllers.orphan_sweep import add_orphan_sweep
from tests.fleet.stack.cosmos_harness import (
    CLAIM,
    OF_NODES,
    POD,
    USERS,
    CosmosFleet,
    cosmos_fleet,
)
from tests.fleet.stack.harness import NAMESPACE, Server, eventually, idle


def embedded_hub(folder: Path) -> Environment:
    """An embedded API server with machines."""
    (folder / "hub").mkdir()
    return Environment(proxy=True, nodes=True, folder=folder / "hub", users=USERS)


def writes(server: Server, since: Mark) -> list[Row]:
    """Return what stacks wrote to a server since then, events aside."""
    rows = server.counts(since)
    reads = {"get", "list", "watch"}
    return [row for row in rows if row.verb not in reads and row.resource != "events"]


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[CosmosFleet]:
    async with cosmos_fleet(tmp_path, embedded_hub(tmp_path)) as made:
        yield made


async def test_what_a_set_has_is_on_the_hub_and_its_status_on_the_data_plane(
    servers: CosmosFleet,
) -> None:
    hub, plane = servers.hub, servers.plane
    async with servers.running():
        since = plane.mark()
        await plane.client.create(servers.node_set())
        found = await servers.complete()
        assert found.status.replicas == 2
        await servers.condition("HubReady", "True", "ObjectsPlaced")
        left = await servers.left(hub)
        assert left["Pod"] == ["chain-0", "chain-1"]
        assert set(left) == {kind.gvk.kind for kind in OF_NODES}
        assert await servers.data_planes() == {plane.id}
        made = [each for kind in OF_NODES for each in await servers.objects(hub, kind)]
        assert not any("ownerReferences" in each["metadata"] for each in made)
        assert await servers.left(plane) == {}
        asked = {row.resource for row in plane.counts(since)}
        assert asked.isdisjoint({"pods", "jobs", "persistentvolumeclaims", "services"})
        await servers.gone()
        assert await servers.left(hub) == {}


async def test_a_second_data_plane_is_refused_the_names_of_the_first_and_takes_over_when_it_goes(
    tmp_path: Path,
) -> None:
    async with cosmos_fleet(tmp_path, embedded_hub(tmp_path), planes=2) as servers:
        await two_planes_share_a_name(servers)
        assert await servers.left(servers.hub) == {}


async def two_planes_share_a_name(servers: CosmosFleet) -> None:
    """Have two data planes want the same objects of the hub, one after the other."""
    first, second = servers.planes
    async with servers.running(first), servers.running(second):
        await first.client.create(servers.node_set())
        await servers.complete(first)
        before = {kind: await servers.uids(kind) for kind in OF_NODES}

        await second.client.create(servers.node_set())
        found = await servers.condition("Ready", "False", "ReconcileError", second)
        holder = f"CosmosFullNode.cosmos.ctrlruntime.dev/{servers.namespace}/chain@{first.id}"
        assert f"belongs to {holder}" in found.message
        assert {kind: await servers.uids(kind) for kind in OF_NODES} == before
        assert await servers.data_planes() == {first.id}

        await servers.gone(first)
        await servers.complete(second)
        assert await servers.data_planes() == {second.id}
        assert (await servers.uids()).keys() == before[POD].keys()
        assert set((await servers.uids()).values()).isdisjoint(before[POD].values())
        await servers.gone(second)


async def test_with_the_data_plane_down_nodes_run_on_and_nothing_rolls_when_it_is_back(
    servers: CosmosFleet,
) -> None:
    plane = servers.plane
    async with servers.running():
        await plane.client.create(servers.node_set())
        await servers.complete()
        before = {kind: await servers.uids(kind) for kind in OF_NODES}
        await plane.stop()
        since = servers.hub.mark()
        await servers.comet.until_asked("chain-0", servers.namespace, more=5)
        assert writes(servers.hub, since) == []
        await plane.restart()
        change = {"spec": {"strategy": {"maxUnavailable": 2}}}
        await plane.client.patch(CosmosFullNode, "chain", change, namespace=servers.namespace)
        await servers.complete()
        assert {kind: await servers.uids(kind) for kind in OF_NODES} == before


async def test_with_the_hub_down_the_set_reports_that_and_nothing_rolls_when_it_is_back(
    servers: CosmosFleet,
) -> None:
    hub, plane = servers.hub, servers.plane
    async with servers.running():
        await plane.client.create(servers.node_set())
        await servers.complete()
        before = {kind: await servers.uids(kind) for kind in OF_NODES}
        await hub.stop()
        found = await servers.condition("HubReady", "False", "HubUnreachable")
        assert "workloads run on as they are" in found.message
        await servers.condition("Ready", "False", "TransientError")
        await hub.restart()
        await servers.condition("HubReady", "True", "ObjectsPlaced")
        await servers.complete()
        assert {kind: await servers.uids(kind) for kind in OF_NODES} == before


async def test_with_the_hub_down_from_the_start_a_set_is_reported_and_not_let_go(
    servers: CosmosFleet,
) -> None:
    hub, plane = servers.hub, servers.plane
    async with servers.running():
        await plane.client.create(servers.node_set())
        await servers.complete()
    before = await servers.uids(CLAIM)
    await hub.stop()
    async with servers.running():
        await servers.condition("HubReady", "False", "HubUnreachable")
        await servers.lift_protection(plane)
        await plane.client.delete(CosmosFullNode, "chain", namespace=servers.namespace)
        await hub.restart()
        await eventually(lambda: servers.read(plane), lambda found: found is None)
        assert before
        assert await servers.left(hub) == {}


async def test_a_restart_writes_nothing_on_either_server(servers: CosmosFleet) -> None:
    hub, plane = servers.hub, servers.plane
    async with servers.running() as manager:
        await plane.client.create(servers.node_set())
        await servers.complete()
        await idle(manager, plane, hub)
    marks = [(each, each.mark()) for each in (hub, plane)]
    async with servers.running():
        await servers.comet.until_asked("chain-0", servers.namespace, more=10)
    for server, since in marks:
        assert writes(server, since) == []


async def test_deleted_as_orphan_a_set_leaves_what_it_has_and_one_of_its_name_adopts_it(
    servers: CosmosFleet,
) -> None:
    plane = servers.plane
    async with servers.running():
        await plane.client.create(servers.node_set())
        await servers.complete()
        before = {kind: await servers.uids(kind) for kind in OF_NODES}
        await servers.gone(propagation="Orphan")
        assert {kind: await servers.uids(kind) for kind in OF_NODES} == before
        await plane.client.create(servers.node_set())
        await servers.complete()
        assert {kind: await servers.uids(kind) for kind in OF_NODES} == before
        await servers.gone()
        assert await servers.left(servers.hub) == {}


async def test_an_upgrade_goes_by_polled_heights_without_containers_that_read_the_set(
    servers: CosmosFleet,
) -> None:
    versions = [{"height": 0, "image": "gaia:v1"}, {"height": 200, "image": "gaia:v2"}]
    async with servers.running():
        await servers.plane.client.create(servers.node_set(chain={"versions": versions}))
        await servers.complete()
        before = await servers.uids()
        for pod in await servers.objects(servers.hub, POD):
            containers = [*pod["spec"]["containers"], *pod["spec"]["initContainers"]]
            names = {each["name"] for each in containers}
            assert names >= {"node", "healthcheck"}
            assert not {each for each in names if each.startswith("version-check")}
        servers.comet.advance(100)

        async def images() -> set[str]:
            pods = await servers.objects(servers.hub, POD)
            return {
                each["image"]
                for pod in pods
                for each in pod["spec"]["containers"]
                if each["name"] == "node"
            }

        await eventually(images, lambda seen: seen == {"gaia:v2"})
        await servers.complete()
        assert set((await servers.uids()).values()).isdisjoint(before.values())


async def test_an_object_without_a_data_plane_is_a_conflict_and_is_left_alone(
    servers: CosmosFleet,
) -> None:
    hub, plane = servers.hub, servers.plane
    claim: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "pvc-chain-0", "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    made = await hub.client.create(claim)
    async with servers.running():
        await plane.client.create(servers.node_set())
        found = await servers.condition("Ready", "False", "ReconcileError")
        assert "PersistentVolumeClaim default/pvc-chain-0 is left as it is" in found.message
        assert f"default/chain@{plane.id}" in found.message
        await servers.gone()
    kept = await hub.get(CLAIM, "pvc-chain-0")
    assert kept is not None
    assert kept["metadata"]["uid"] == made["metadata"]["uid"]
    assert not kept["metadata"].get("labels")


async def test_objects_of_a_set_that_is_gone_are_swept_after_the_delay(
    servers: CosmosFleet,
) -> None:
    hub, plane = servers.hub, servers.plane
    async with servers.running():
        await plane.client.create(servers.node_set())
        await servers.complete()
    target = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "plane-0"}}
    await hub.client.create(target)
    manager = Manager(
        plane.environment.config("manager"),
        ManagerOptions(name="manager", metrics_bind_address="0", health_bind_address="0"),
    )
    options = StackOptions(data_plane=plane.id, target_namespace="plane-0")
    connected = await add_hub(manager, hub.environment.config("manager"), options)
    sweeper = add_orphan_sweep(manager, connected, period=1e6, delay=0.0)
    async with manager.running():
        await connected.cluster.wait_synced(60.0)
        await manager.cache.wait_synced(60.0)
        assert (await sweeper.look()).orphaned == frozenset()
        before = await servers.uids()
        assert len(before) == 2
        await plane.client.patch(
            CosmosFullNode, "chain", {"metadata": {"finalizers": None}}, namespace="default"
        )
        await servers.gone()

        async def swept() -> dict[str, list[str]]:
            found = await sweeper.look()
            if found.hold is not None:
                approved = {"metadata": {"annotations": {APPROVE_ORPHANS: found.hold.digest}}}
                await hub.client.patch(NAMESPACE, "plane-0", approved)
            return await servers.left(hub)

        await eventually(swept, lambda seen: seen == {})


@pytest.mark.criterion("SH-28")
async def test_members_of_a_stack_share_its_sets_and_one_goes_on_with_those_of_another(
    servers: CosmosFleet,
) -> None:
    names = [f"chain{number}" for number in range(4)]
    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(contextlib.AsyncExitStack())
        one = await first.enter_async_context(servers.running(member="one"))
        two = await stack.enter_async_context(servers.running(member="two"))
        for each in (one, two):
            await eventually(partial(held_by, each), lambda slots: len(slots) == 32)
        for name in names:
            await servers.plane.client.create(servers.node_set(name))
        for name in names:
            await servers.complete(name=name)
        before = await servers.left(servers.hub)
        since = servers.hub.mark()
        for name in names:
            change = {"spec": {"chain": {"config": {"maxInboundPeers": 7}}}}
            await servers.plane.client.patch(
                CosmosFullNode, name, change, namespace=servers.namespace
            )
        await first.aclose()
        for name in names:
            await servers.complete(name=name)
        assert await servers.left(servers.hub) == before
        deleted = [row for row in writes(servers.hub, since) if row.verb == "delete"]
        assert {row.resource for row in deleted} == {"pods"}
        assert sum(row.count for row in deleted) == 2 * len(names), "each node once"


async def held_by(manager: Manager) -> frozenset[int]:
    return frozenset() if manager.shards is None else manager.shards.held
