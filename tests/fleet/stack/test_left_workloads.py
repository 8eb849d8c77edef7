"""Workloads that a data plane left on this hub when it went to another one: `fleet forget` gives safe advice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from apis.fleet.labels import DATA_PLANE
from tests.fleet.stack.harness import DEPLOYMENT, NAMESPACE, Fleet, deployment, ready, tenant
from tests.fleet.stack.move_harness import hold_lease, two_planes
from tests.manager_cli.program import Program


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Fleet]:
    """A data plane whose Tenant has a workload on the hub; its stack has ended."""
    async with two_planes(tmp_path, stacks=0) as made:
        async with made.running():
            await made.plane.client.create(tenant(deployment()))
            await ready(made.plane)
        yield made


async def forget(servers: Fleet) -> str:
    """Run the command, which refuses. Return what it printed."""
    hub = servers.hub.environment.kubeconfig("admin")
    arguments = ("fleet", "forget", "plane-0", "--data-plane", servers.plane.id, "--count=1")
    async with await Program.start(*arguments, "--kubeconfig", hub) as program:
        assert await program.wait(120) == 1, program.output
        return program.output


@pytest.mark.criterion("G-F5")
@pytest.mark.parametrize("holder", ["other/plane-0/a", "other/east/a", ""])
async def test_nothing_on_a_data_plane_that_another_hub_has_is_to_be_deleted_there(
    holder: str, servers: Fleet
) -> None:
    labels = {DATA_PLANE: None}
    await servers.hub.client.patch(NAMESPACE, "plane-0", {"metadata": {"labels": labels}})
    await hold_lease(servers.plane, holder)
    text = await forget(servers)
    assert "answers: it is not lost" in text
    assert holder in text
    assert "delete no Tenant and no set of nodes there" in text
    assert f"-A -l {DATA_PLANE}={servers.plane.id}" in text
    assert await servers.hub.names(DEPLOYMENT) == {"web"}


@pytest.mark.criterion("G-F5")
async def test_where_this_hub_has_the_data_plane_its_tenants_are_deleted_there(
    servers: Fleet,
) -> None:
    await hold_lease(servers.plane, "hub/plane-0/a")
    assert "The stack of plane-0 works on it: delete its Tenants" in await forget(servers)
    assert await servers.hub.names(DEPLOYMENT) == {"web"}
