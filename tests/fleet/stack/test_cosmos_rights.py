"""The cosmos system on a data plane as a process, with exactly the rights that are shipped."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import yaml

from apis.cosmos import CosmosFullNode, StatefulJob
from apis.fleet.labels import PARALLEL_PREFIX
from ctrlruntime.client.errors import AlreadyExists
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.users import User, administrator
from tests.fleet.stack.cosmos_harness import (
    CLAIM,
    POD,
    SECRET,
    CosmosFleet,
    cosmos_fleet,
)
from tests.fleet.stack.harness import NAMESPACE, eventually
from tests.fleet.stack.pod import Pod
from tests.fleet.stack.test_cosmos_jobs import (
    JOB,
    read_job,
    snapshot,
    started,
    stateful_job,
    with_snapshots,
)
from tests.fleet.stack.test_processes import stack
from tests.fleet.stack.test_rights import FOLDER, grant, install_data_plane, namespace, shipped

OPTIONS = ("--system=cosmos", "--node-poll-seconds=0.2", "--node-sidecar-image=manager:v1")


def test_the_rights_on_a_data_plane_are_to_the_kinds_of_the_system_alone() -> None:
    role, _ = yaml.safe_load_all((FOLDER / "role.yaml").read_text())
    of_system = [rule for rule in role["rules"] if "cosmos.ctrlruntime.dev" in rule["apiGroups"]]
    named = {name for rule in of_system for name in rule["resources"]}
    assert named >= {"cosmosfullnodes", "cosmosfullnodes/status", "statefuljobs"}
    assert not {name for name in named if name.endswith("/finalizers")}
    writes = {"create", "delete", "update"}
    assert not [rule for rule in of_system if writes & set(rule["verbs"])]


@contextlib.asynccontextmanager
async def with_rights(folder: Path) -> AsyncIterator[CosmosFleet]:
    """A hub and a data plane with what config/data-plane has; the user `manager` has no right on the hub."""
    users = (administrator("admin"), administrator("csi"), User(name="manager"))
    (folder / "hub").mkdir()
    hub = Environment(
        proxy=True, nodes=True, folder=folder / "hub", users=users, authorization="RBAC"
    )
    async with cosmos_fleet(folder, hub, plane_users=users, authorization="RBAC") as servers:
        await install_data_plane(servers.plane.client)
        yield servers


async def test_the_shipped_rights_suffice_and_a_namespace_that_is_not_granted_is_named(
    tmp_path: Path,
) -> None:
    async with with_rights(tmp_path) as servers:
        client = servers.hub.client
        await grant(client, "ClusterRole", "reads", shipped("reader"))
        await grant(client, "ClusterRole", "secrets", shipped("secret_reader"))
        arguments = ("--role=controllers", "--unrestricted-hub-secrets", *OPTIONS)
        program = await stack(servers.hub, servers.plane, "manager", *arguments)
        async with with_snapshots(servers), program:
            since = servers.plane.mark()
            await servers.plane.client.create(servers.node_set())
            found = await servers.condition("HubReady", "False", "NamespaceNotGranted")
            assert "kubectl label namespace default" in found.message
            assert "parallel.fleet.ctrlruntime.dev/planes=true" in found.message
            await snapshot(servers, "own", labelled=True)
            await servers.plane.client.create(stateful_job())

            def refused(seen: StatefulJob | None) -> bool:
                return seen is not None and "kubectl label namespace" in seen.status.status

            await eventually(lambda: read_job(servers), refused)
            assert await servers.left(servers.hub) == {}

            await grant(client, "Role", "writes", shipped("writer"), "default")
            granted = time.time()
            await servers.plane.client.patch(
                CosmosFullNode, "chain", {"metadata": {"labels": {"a": "b"}}}, namespace="default"
            )
            await servers.complete()
            await servers.condition("HubReady", "True", "ObjectsPlaced")
            await started(servers)
            await servers.plane.client.delete(StatefulJob, "weekly", namespace="default")
            await eventually(lambda: read_job(servers), lambda seen: seen is None)
            assert (await servers.uids(JOB), len(await servers.uids(CLAIM))) == ({}, 2)
            await servers.gone()
            assert await servers.left(servers.hub) == {}
            assert await servers.uids(POD) == {}
            assert [row for row in servers.plane.counts(since) if row.code == 403] == []
            refused_later = [
                each
                for each in servers.hub.environment.proxy.log.entries()
                if each.user == "manager" and each.code == 403 and each.began > granted
            ]
            assert refused_later == []


async def test_restricted_stacks_read_keys_of_nodes_in_parallel_namespaces_alone_and_follow_their_labels(
    tmp_path: Path,
) -> None:
    label = f"{PARALLEL_PREFIX}planes"
    async with with_rights(tmp_path) as servers:
        hub, plane = servers.hub.client, servers.plane.client
        for name, value in (("planes", "no"), ("acme", "no"), ("default", "true")):
            with contextlib.suppress(AlreadyExists):
                await hub.create(namespace(name))
            await hub.patch(NAMESPACE, name, {"metadata": {"labels": {label: value}}})
        await plane.create(namespace("acme"))
        await grant(hub, "ClusterRole", "reads", shipped("reader"))
        for name in ("planes", "default"):
            await grant(hub, "Role", "secrets", shipped("secret_reader"), name)
        await grant(hub, "Role", "writes", shipped("writer"), "default")
        acme = replace(servers, namespace="acme")
        pod = Pod(servers.hub, servers.plane, "planes", "controllers", arguments=OPTIONS)
        async with pod.running():
            await plane.create(servers.node_set())
            await servers.complete()
            keys = await servers.uids(SECRET)
            assert keys
            await plane.create(acme.node_set())
            found = await acme.condition("HubReady", "False", "NamespaceNotGranted")
            assert f"kubectl label namespace acme {label}=true" in found.message
            for role in ("secret_reader", "writer"):
                await grant(hub, "Role", role.replace("_", "-"), shipped(role), "acme")
            assert pod.restarts == 0
            await hub.patch(NAMESPACE, "acme", {"metadata": {"labels": {label: "true"}}})
            await acme.complete()
            await acme.condition("HubReady", "True", "ObjectsPlaced")
            assert pod.restarts == 1, pod.output
            assert "the parallel namespaces have changed" in pod.output
            assert (await acme.uids(SECRET)).keys() == keys.keys()
            assert await servers.uids(SECRET) == keys
            await acme.gone()
            assert await acme.left(acme.hub) == {}
        log = servers.hub.environment.proxy.log.entries()
        places = {
            each.namespace for each in log if (each.user, each.resource) == ("manager", "secrets")
        }
        assert places == {"planes", "default", "acme"}
