"""The cloud system on a data plane as a process, with exactly the rights that are shipped."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import yaml

from apis.cloud import Instance
from ctrlruntime.envtest.users import User, administrator
from tests.fleet.stack.cloud_harness import (
    CUSTOMER,
    JOB,
    NAME,
    CloudFleet,
    cloud_fleet,
    embedded_hub,
)
from tests.fleet.stack.harness import eventually
from tests.fleet.stack.test_processes import stack
from tests.fleet.stack.test_rights import FOLDER, grant, install_data_plane, shipped

OPTIONS = ("--system=cloud", "--run-provider=jobs", "--job-image=manager:v1")


def test_the_rights_on_a_data_plane_are_to_the_kinds_of_the_system_and_not_to_runs() -> None:
    role, _ = yaml.safe_load_all((FOLDER / "role.yaml").read_text())
    named = {
        name
        for rule in role["rules"]
        if "cloud.ctrlruntime.dev" in rule["apiGroups"]
        for name in rule["resources"]
    }
    assert named >= {"instances", "instances/status", "instanceterraforms/status", "fleetrollouts"}
    everything = {name for rule in role["rules"] for name in rule["resources"]}
    assert everything.isdisjoint({"jobs", "pods", "deployments"})


@contextlib.asynccontextmanager
async def limited(folder: Path) -> AsyncIterator[CloudFleet]:
    """Servers where the manager has the shipped rights, and on the hub none to write yet."""
    users = (administrator("admin"), administrator(CUSTOMER), User(name="manager"))
    hub = embedded_hub(folder, users, "RBAC")
    async with cloud_fleet(folder, hub, plane_users=users, authorization="RBAC") as servers:
        await install_data_plane(servers.plane.client)
        await grant(servers.hub.client, "ClusterRole", "reads", shipped("reader"))
        await grant(servers.hub.client, "ClusterRole", "secrets", shipped("secret_reader"))
        yield servers


async def test_a_namespace_that_is_not_granted_is_named_and_a_stack_starts_jobs_once_it_is(
    tmp_path: Path,
) -> None:
    """Up to the Job: its Pod is of the shipped image, which simulated nodes do not run."""
    async with limited(tmp_path) as servers:
        hub, plane = servers.hub, servers.plane
        program = await stack(hub, plane, "manager", "--role=controllers", *OPTIONS)
        async with program:
            since = plane.mark()
            await plane.client.create(servers.instance())
            found = await servers.condition("HubReady", "False", "NamespaceNotGranted")
            assert "kubectl label namespace default" in found.message
            assert "parallel.fleet.ctrlruntime.dev/planes=true" in found.message
            await servers.condition("Ready", "False", "NamespaceNotGranted")
            assert await servers.left(hub) == {}

            await grant(hub.client, "Role", "writes", shipped("writer"), "default")
            granted = time.time()
            change = {"metadata": {"labels": {"instance-type": "trial"}}}
            await plane.client.patch(Instance, NAME, change, namespace="default")
            await servers.condition("HubReady", "True", "ObjectsPlaced")
            (job,) = await eventually(partial(servers.objects, hub, JOB), bool)
            (container,) = job["spec"]["template"]["spec"]["containers"]
            assert container["image"] == "manager:v1"
            assert [row for row in plane.counts(since) if row.code == 403] == []
            refused_later = [
                each
                for each in hub.environment.proxy.log.entries()
                if each.user == "manager" and each.code == 403 and each.began > granted
            ]
            assert refused_later == []


async def test_the_shipped_rights_suffice_from_infrastructure_to_the_last_object(
    tmp_path: Path,
) -> None:
    async with limited(tmp_path) as servers:
        await grant(servers.hub.client, "Role", "writes", shipped("writer"), "default")
        marks = [(each, each.mark()) for each in (servers.hub, servers.plane)]
        async with servers.running():
            await servers.plane.client.create(servers.instance())
            await servers.ready()
            await servers.gone()
        assert await servers.left(servers.hub) == {}
        for server, since in marks:
            assert [row for row in server.counts(since) if row.code == 403] == []
