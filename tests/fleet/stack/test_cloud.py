"""Instances on data planes, whose runs, with what these read and hand over, are on the hub."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from apis.cloud import Instance, InstanceTerraform, UpgradeInstanceTask
from apis.fleet.labels import APPROVE_ORPHANS, DATA_PLANE
from ctrlruntime.api.conditions import find_condition
from ctrlruntime.client.errors import NotFound
from ctrlruntime.resources import OWNER, OWNER_UID
from internal.named_secrets import Purpose
from manager.controllers.hub import StackOptions, add_hub
from manager.controllers.orphan_sweep import add_orphan_sweep
from tests.cloud.lifecycle.e2e_environment import image_of
from tests.cloud.tasks.kubeconfigs import inline
from tests.fleet.stack.cloud_harness import (
    CONFIG_MAP,
    DEPLOYMENT,
    JOB,
    KINDS,
    NAME,
    SECRET,
    CloudFleet,
    cloud_fleet,
    embedded_hub,
    writes,
)
from tests.fleet.stack.harness import NAMESPACE, Server, eventually, idle
from tests.support.manager_harness import make_manager

CLOUD = "cloud.ctrlruntime.dev"


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[CloudFleet]:
    async with cloud_fleet(tmp_path, embedded_hub(tmp_path)) as made:
        yield made


async def test_runs_and_workload_are_on_the_hub_and_status_and_records_on_the_data_plane(
    servers: CloudFleet,
) -> None:
    hub, plane = servers.hub, servers.plane
    async with servers.running():
        since = plane.mark()
        await plane.client.create(servers.instance())
        found = await servers.ready()
        assert found.status.outputs["project_id"]
        await servers.condition("HubReady", "True", "ObjectsPlaced")
        terraform = await plane.client.get(InstanceTerraform, NAME, namespace="default")
        assert terraform.status.run is not None
        assert terraform.status.outputs_secret_name == f"{NAME}-outputs"
        jobs = await servers.uids(JOB)
        assert terraform.status.run.run_id in jobs
        assert {name.rpartition("-")[0] for name in jobs} == {
            "terraform",
            "kubernetes",
            "invariants",
        }
        assert await servers.owners(JOB) == {
            f"{kind}.{CLOUD}/default/{NAME}@{plane.id}"
            for kind in ("InstanceTerraform", "InstanceKubernetes", "InstanceInvariants")
        }
        assert await servers.owners(CONFIG_MAP) == {f"Instance.{CLOUD}/default/{NAME}@{plane.id}"}
        assert await servers.owners(SECRET) == {
            f"InstanceTerraform.{CLOUD}/default/{NAME}@{plane.id}"
        }
        assert await servers.data_planes() == {plane.id}
        for kind in (JOB, SECRET, CONFIG_MAP):
            for each in await servers.objects(hub, kind):
                references = each["metadata"].get("ownerReferences") or []
                assert {reference["kind"] for reference in references} <= {"Job"}
        assert await hub.get(DEPLOYMENT, "frontend", servers.workloads) is not None
        assert await servers.left(plane) == {}
        asked = {row.resource for row in plane.counts(since)}
        assert asked.isdisjoint({"pods", "jobs", "secrets", "deployments"})
        await servers.gone()
        assert await servers.left(hub) == {}
        assert await hub.get(DEPLOYMENT, "frontend", servers.workloads) is None


async def test_an_upgrade_runs_on_the_hub_and_rolls_the_workload_there(
    servers: CloudFleet,
) -> None:
    plane = servers.plane
    async with servers.running():
        await plane.client.create(servers.instance())
        await servers.ready()
        change = {"spec": {"version": "5.1.0"}}
        await plane.client.patch(Instance, NAME, change, namespace="default")
        await servers.ready(version="5.1.0")
        (upgrade,) = await plane.client.list(UpgradeInstanceTask, "default")
        assert upgrade.status.run is not None
        assert upgrade.status.run.run_id in await servers.uids(JOB)
        deployed = await servers.hub.get(DEPLOYMENT, "frontend", servers.workloads)
        assert deployed is not None
        assert image_of(deployed).endswith(":5.1.0")


async def test_a_second_data_plane_is_refused_the_name_of_the_first_and_takes_over_when_it_goes(
    tmp_path: Path,
) -> None:
    async with cloud_fleet(tmp_path, embedded_hub(tmp_path), 2) as servers:
        await two_planes_share_a_name(servers)
        assert await servers.left(servers.hub) == {}


async def two_planes_share_a_name(servers: CloudFleet) -> None:
    """Have two data planes want an instance of one name, one after the other."""
    first, second = servers.planes
    async with servers.running(first), servers.running(second):
        await first.client.create(servers.instance())
        await servers.ready(first)
        before = {kind: await servers.uids(kind) for kind in (JOB, SECRET, CONFIG_MAP)}

        await second.client.create(servers.instance())
        found = await servers.condition("Ready", "False", "Conflicted", second)
        holder = f"Instance.{CLOUD}/{servers.namespace}/{NAME}@{first.id}"
        assert f"belongs to {holder}" in found.message
        await servers.condition("HubReady", "False", "Conflicted", second)
        for kind in KINDS[1:]:
            assert await second.client.list(kind, servers.namespace) == []
        assert {kind: await servers.uids(kind) for kind in before} == before

        await servers.gone(first)
        await servers.ready(second)
        await servers.condition("HubReady", "True", "ObjectsPlaced", second)
        assert await servers.data_planes() == {second.id}
        assert set((await servers.uids()).values()).isdisjoint(before[JOB].values())
        await servers.gone(second)


async def test_with_the_data_plane_down_runs_and_workload_go_on_and_nothing_is_done_again(
    servers: CloudFleet,
) -> None:
    hub, plane = servers.hub, servers.plane
    async with servers.running():
        await plane.client.create(servers.instance())
        await servers.ready()
        before = {kind: await servers.uids(kind) for kind in (JOB, SECRET, CONFIG_MAP)}
        since = hub.mark()
        await plane.stop()
        await hub.client.patch(
            CONFIG_MAP,
            f"cloud-instance-{NAME}",
            {"metadata": {"labels": {"a": "b"}}},
            namespace="default",
        )
        await plane.restart()
        assert writes(hub, since) == []
        change = {"spec": {"version": "5.1.0"}}
        await plane.client.patch(Instance, NAME, change, namespace="default")
        await servers.ready(version="5.1.0")
        after = {kind: await servers.uids(kind) for kind in before}
        assert after[CONFIG_MAP] == before[CONFIG_MAP]
        assert {name: after[JOB][name] for name in before[JOB] if name.startswith("terraform")} == {
            name: uid for name, uid in before[JOB].items() if name.startswith("terraform")
        }


async def test_with_the_hub_down_instance_and_subresources_report_that_and_no_run_is_repeated(
    servers: CloudFleet,
) -> None:
    hub, plane = servers.hub, servers.plane
    async with servers.running():
        await plane.client.create(servers.instance())
        await servers.ready()
        before = {kind: await servers.uids(kind) for kind in (JOB, SECRET, CONFIG_MAP)}
        await hub.stop()
        found = await servers.condition("HubReady", "False", "HubUnreachable")
        assert "workloads run on as they are" in found.message
        await servers.condition("Ready", "False", "HubUnreachable")

        async def of_terraform() -> str:
            found = await plane.client.get(InstanceTerraform, NAME, namespace="default")
            condition = find_condition(found.status.conditions, "HubReady")
            return "" if condition is None else condition.reason or ""

        await eventually(of_terraform, lambda seen: seen == "HubUnreachable")
        await hub.restart()
        await servers.condition("HubReady", "True", "ObjectsPlaced")
        await servers.ready()
        await eventually(of_terraform, lambda seen: seen == "ObjectsPlaced")
        assert {kind: await servers.uids(kind) for kind in before} == before


async def test_with_the_hub_down_from_the_start_nothing_is_let_go(servers: CloudFleet) -> None:
    hub, plane = servers.hub, servers.plane
    async with servers.running():
        await plane.client.create(servers.instance())
        await servers.ready()
    await hub.stop()
    async with servers.running():
        await servers.condition("HubReady", "False", "HubUnreachable")
        await plane.client.delete(Instance, NAME, namespace="default")
        await hub.restart()
        await eventually(partial(servers.read, plane), lambda found: found is None)
        assert await servers.left(hub) == {}
        assert await hub.get(DEPLOYMENT, "frontend", servers.workloads) is None


async def test_a_restart_writes_nothing_on_either_server(servers: CloudFleet) -> None:
    hub, plane = servers.hub, servers.plane
    async with servers.running() as manager:
        await plane.client.create(servers.instance())
        await servers.ready()
        await servers.condition("HubReady", "True", "ObjectsPlaced")
        await idle(manager, plane, hub)
    before = {kind: await servers.uids(kind) for kind in (JOB, SECRET, CONFIG_MAP)}
    known = {NAME, *(name for found in before.values() for name in found)}
    stopped = time.time()
    async with servers.running():
        # One that comes later is done with after all that was there at the start.
        later = servers.instance(domain="later.example.com")
        later["metadata"]["name"] = "later"
        later["spec"]["cluster"]["namespace"] = "later-app"
        await plane.client.create(later)
        await servers.ready(name="later")
    for server in (hub, plane):
        assert written_since(server, stopped) & known == set()
    after = {kind: await servers.uids(kind, instance=NAME) for kind in before}
    assert after == before


def written_since(server: Server, since: float) -> set[str]:
    """Return the names of the objects that stacks have written to a server since then, events aside."""
    return {
        each.name
        for each in server.environment.proxy.log.entries()
        if each.user == "manager"
        and each.verb not in {"get", "list", "watch"}
        and each.resource != "events"
        and each.at >= since
    }


async def test_objects_of_an_instance_that_is_gone_are_swept_after_the_delay(
    servers: CloudFleet,
) -> None:
    hub, plane = servers.hub, servers.plane
    async with servers.running():
        await plane.client.create(servers.instance())
        await servers.ready()
    target = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "plane-0"}}
    await hub.client.create(target)
    manager = make_manager(plane.environment.config("manager"), name="manager")
    options = StackOptions(data_plane=plane.id, target_namespace="plane-0")
    connected = await add_hub(manager, hub.environment.config("manager"), options)
    sweeper = add_orphan_sweep(manager, connected, period=1e6, delay=0.0)
    async with manager.running():
        await connected.cluster.wait_synced(60.0)
        await manager.cache.wait_synced(60.0)
        assert (await sweeper.look()).orphaned == frozenset()
        assert await servers.uids(JOB)
        for kind in reversed(KINDS):
            for found in await plane.client.list(kind, "default"):
                name = str(found.metadata.name)
                patch = {"metadata": {"finalizers": None}}
                await plane.client.patch(kind, name, patch, namespace="default")
                with contextlib.suppress(NotFound):
                    await plane.client.delete(kind, name, namespace="default")

        async def swept() -> dict[str, list[str]]:
            found = await sweeper.look()
            if found.hold is not None:
                approved = {"metadata": {"annotations": {APPROVE_ORPHANS: found.hold.digest}}}
                await hub.client.patch(NAMESPACE, "plane-0", approved)
            return await servers.left(hub)

        await eventually(swept, lambda seen: seen == {})
    workload = await hub.get(DEPLOYMENT, "frontend", servers.workloads)
    assert workload is not None, "what an instance's run made stays"


async def test_a_kubeconfig_of_the_data_plane_itself_is_refused(servers: CloudFleet) -> None:
    hub, plane = servers.hub, servers.plane
    text = inline(plane.environment.kubeconfig("admin"))
    labels = {Purpose.CLUSTER.value: "true"}
    metadata = {"name": "wrong", "namespace": "default", "labels": labels}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    await hub.client.create({**secret, "stringData": {"kubeconfig": text}})
    cluster = servers.instance()["spec"]["cluster"]
    opened = {**cluster, "kubeconfigFrom": {"name": "wrong", "key": "kubeconfig"}}
    async with servers.running():
        await plane.client.create(servers.instance(infrastructure={}, cluster=opened))
        found = await servers.condition("Ready", "False", "Failed")
        assert "opens the data plane of this instance" in found.message
        assert await plane.client.list(DEPLOYMENT, servers.workloads) == []
        await servers.gone()
        assert await servers.left(hub) == {}


async def test_a_workload_that_is_deleted_on_the_hub_is_noticed_and_applied_again(
    servers: CloudFleet,
) -> None:
    hub, plane = servers.hub, servers.plane
    async with servers.running():
        await plane.client.create(servers.instance())
        await servers.ready()
        before = await hub.get(DEPLOYMENT, "frontend", servers.workloads)
        assert before is not None
        assert before["metadata"]["labels"][DATA_PLANE] == plane.id
        await hub.client.delete(DEPLOYMENT, "frontend", namespace=servers.workloads)

        async def again() -> dict[str, Any] | None:
            return await hub.get(DEPLOYMENT, "frontend", servers.workloads)

        def is_new(seen: dict[str, Any] | None) -> bool:
            return seen is not None and seen["metadata"]["uid"] != before["metadata"]["uid"]

        made = await eventually(again, is_new)
        assert made["metadata"]["labels"][DATA_PLANE] == plane.id
        await servers.ready()


async def test_a_name_holder_that_is_deleted_by_hand_comes_back(servers: CloudFleet) -> None:
    plane, hub = servers.plane, servers.hub
    name = f"cloud-instance-{NAME}"
    async with servers.running():
        await plane.client.create(servers.instance())
        await servers.ready()
        before = (await servers.uids(CONFIG_MAP))[name]
        runs = await servers.uids()
        await hub.client.delete(CONFIG_MAP, name, namespace="default")
        await eventually(
            partial(servers.uids, CONFIG_MAP), lambda seen: seen.get(name, before) != before
        )
        await servers.ready()
        assert await servers.uids() == runs


async def test_a_secret_of_that_name_is_left_alone_and_its_holder_is_named(
    servers: CloudFleet,
) -> None:
    hub, plane = servers.hub, servers.plane
    metadata: dict[str, Any] = {
        "name": f"{NAME}-outputs",
        "namespace": "default",
        "annotations": {OWNER: "Tenant.tenancy.ctrlruntime.dev/default/acme@elsewhere"},
    }
    secret: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    made: dict[str, Any] = await hub.client.create(secret)
    async with servers.running():
        await plane.client.create(servers.instance())

        async def message() -> str:
            try:
                found = await plane.client.get(InstanceTerraform, NAME, namespace="default")
            except NotFound:
                return ""
            return found.status.message

        taken = "belongs to Tenant.tenancy.ctrlruntime.dev/default/acme@elsewhere"
        await eventually(message, lambda seen: taken in seen)
        kept = await hub.get(SECRET, f"{NAME}-outputs")
        assert kept is not None
        assert kept["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_a_subresource_that_is_made_anew_adopts_the_secret_of_the_one_before(
    servers: CloudFleet,
) -> None:
    hub, plane = servers.hub, servers.plane
    async with servers.running():
        await plane.client.create(servers.instance())
        await servers.ready()
    before = await hub.get(SECRET, f"{NAME}-outputs")
    assert before is not None
    lost = await plane.client.get(InstanceTerraform, NAME, namespace="default")
    patch = {"metadata": {"finalizers": None}}
    await plane.client.patch(InstanceTerraform, NAME, patch, namespace="default")
    await plane.client.delete(InstanceTerraform, NAME, namespace="default")
    async with servers.running():

        async def recorded() -> tuple[str, str]:
            """Return the UIDs of the Secret and of its recorded owner."""
            found = await hub.get(SECRET, f"{NAME}-outputs")
            metadata = {} if found is None else found["metadata"]
            return metadata.get("uid", ""), metadata.get("annotations", {}).get(OWNER_UID, "")

        same, owner = await eventually(recorded, lambda seen: seen[1] != lost.metadata.uid)
        assert same == before["metadata"]["uid"]
        made = await plane.client.get(InstanceTerraform, NAME, namespace="default")
        assert owner == made.metadata.uid
        await servers.ready()


@pytest.mark.criterion("SH-37")
async def test_an_instance_goes_on_at_another_member_of_its_stack_and_nothing_runs_twice(
    servers: CloudFleet,
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(contextlib.AsyncExitStack())
        await first.enter_async_context(servers.running(member="one"))
        await servers.plane.client.create(servers.instance())
        await eventually(servers.uids)
        await stack.enter_async_context(servers.running(member="two"))
        await first.aclose()
        await servers.ready()
    jobs = [name.rpartition("-")[0] for name in await servers.uids(JOB)]
    assert sorted(jobs) == ["invariants", "kubernetes", "terraform"]
