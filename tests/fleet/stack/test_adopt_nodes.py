"""`manager fleet adopt` for sets of nodes: Pods and disks of a data plane that was replaced go on as they are."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from apis.fleet.labels import KUBECONFIG_KEY, KUBECONFIG_SECRET
from tests.fleet.stack.cosmos_harness import OF_NODES, CosmosFleet, cosmos_fleet
from tests.fleet.stack.harness import idle
from tests.fleet.stack.test_cosmos import embedded_hub
from tests.manager_cli.program import Program


async def target(servers: CosmosFleet) -> None:
    """Make the target namespace of the second data plane, not labelled yet."""
    text = servers.planes[1].environment.kubeconfig("admin").read_bytes()
    metadata = {"name": KUBECONFIG_SECRET, "namespace": "plane-1"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    data = {KUBECONFIG_KEY: base64.b64encode(text).decode()}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "plane-1"}}
    for each in (namespace, {**secret, "data": data}):
        await servers.hub.client.create(each)


async def adopt(servers: CosmosFleet) -> str:
    """Run the command. Return what it printed."""
    hub = servers.hub.environment.kubeconfig("admin")
    arguments = ("fleet", "adopt", servers.plane.id, "--to", "plane-1", "--kubeconfig", hub)
    async with await Program.start(*arguments) as program:
        assert await program.wait(120) == 0, program.output
        return program.output


@pytest.mark.criterion("G-F5")
async def test_nodes_of_a_replaced_data_plane_keep_their_pods_and_disks(tmp_path: Path) -> None:
    async with cosmos_fleet(tmp_path, embedded_hub(tmp_path), planes=2) as servers:
        first, second = servers.planes
        async with servers.running(first):
            await first.client.create(servers.node_set())
            await servers.complete(first)
        await target(servers)
        await first.stop()
        first.free_port()
        await second.client.create(servers.node_set())
        before = {kind: await servers.uids(kind) for kind in OF_NODES}
        since = servers.hub.mark()
        async with servers.running(second) as stack:
            await servers.condition("Ready", "False", "ReconcileError", second)
            await adopt(servers)
            await servers.complete(second)
            await idle(stack, second, servers.hub)
        assert {kind: await servers.uids(kind) for kind in OF_NODES} == before
        assert await servers.data_planes() == {second.id}
        assert not [row for row in servers.hub.counts(since) if row.verb == "delete"]
