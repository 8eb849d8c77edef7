"""The cosmos system on a data plane as a process, with exactly the rights that are shipped."""

from __future__ import annotations

import time
from pathlib import Path

import yaml

from apis.cosmos import CosmosFullNode, StatefulJob
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.users import User, administrator
from tests.fleet.stack.cosmos_harness import CLAIM, POD, cosmos_fleet
from tests.fleet.stack.harness import eventually
from tests.fleet.stack.test_cosmos_jobs import (
    JOB,
    read_job,
    snapshot,
    started,
    stateful_job,
    with_snapshots,
)
from tests.fleet.stack.test_processes import stack
from tests.fleet.stack.test_rights import FOLDER, grant, install_data_plane, shipped

OPTIONS = ("--system=cosmos", "--node-poll-seconds=0.2", "--node-sidecar-image=manager:v1")


def test_the_rights_on_a_data_plane_are_to_the_kinds_of_the_system_alone() -> None:
    role, _ = yaml.safe_load_all((FOLDER / "role.yaml").read_text())
    of_system = [rule for rule in role["rules"] if "cosmos.ctrlruntime.dev" in rule["apiGroups"]]
    named = {name for rule in of_system for name in rule["resources"]}
    assert named >= {"cosmosfullnodes", "cosmosfullnodes/status", "statefuljobs"}
    assert not {name for name in named if name.endswith("/finalizers")}
    writes = {"create", "delete", "update"}
    assert not [rule for rule in of_system if writes & set(rule["verbs"])]


async def test_the_shipped_rights_suffice_and_a_namespace_that_is_not_granted_is_named(
    tmp_path: Path,
) -> None:
    users = (administrator("admin"), administrator("csi"), User(name="manager"))
    (tmp_path / "hub").mkdir()
    hub = Environment(
        proxy=True, nodes=True, folder=tmp_path / "hub", users=users, authorization="RBAC"
    )
    async with cosmos_fleet(tmp_path, hub, plane_users=users, authorization="RBAC") as servers:
        await install_data_plane(servers.plane.client)
        client = servers.hub.client
        await grant(client, "ClusterRole", "reads", shipped("reader"))
        await grant(client, "ClusterRole", "secrets", shipped("secret_reader"))
        program = await stack(servers.hub, servers.plane, "manager", "--role=controllers", *OPTIONS)
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
