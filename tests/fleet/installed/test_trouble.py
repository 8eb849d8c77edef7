"""A data plane that is full, or lost for good, while the operator and two stacks run as they are installed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from apis.fleet import FleetConfig
from apis.fleet.labels import DATA_PLANE, PARALLEL_PREFIX
from ctrlruntime.envtest.proxy import Fail, Match
from internal.fleet.stack_builder import STATEFUL_SET
from tests.fleet.installed.installation import (
    Installation,
    enable_scale_mode,
    installation,
    namespace,
)
from tests.fleet.stack.harness import (
    DEPLOYMENT,
    NAMESPACE,
    Server,
    deployment,
    eventually,
    is_ready,
    read,
    ready,
    tenant,
)
from tests.manager_cli.program import Program

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("fleet-installed")]
LONG = 240.0
"""Seconds: a Lease counts for 60."""
HEALTHY = "SuccessfulDeployment"


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Installation]:
    """Two data planes with a Tenant each, whose workload is on the hub."""
    async with installation("embedded", tmp_path, "east", "west", planes=2) as made:
        grants = {f"{PARALLEL_PREFIX}{name}": "true" for name in ("east", "west")}
        await made.client.create(namespace("acme", **grants))
        await enable_scale_mode(made)
        for name, plane in zip(("east", "west"), made.planes, strict=True):
            await plane.client.create(namespace("acme"))
            await made.add(name, plane)
            await made.run_pods(name)
            await serve(plane, name)
        await until(made, east=HEALTHY, west=HEALTHY)
        yield made


async def serve(plane: Server, name: str) -> None:
    """Create a Tenant with a Deployment of its name, and wait until it is ready."""
    await plane.client.create(tenant(deployment(name), name=name, namespace="acme"))
    await ready(plane, name, "acme")


async def until(fleet: Installation, **reasons: str) -> None:
    """Wait until the FleetConfig has these reasons."""

    async def look() -> dict[str, str]:
        found = await fleet.client.get(FleetConfig, "fleet")
        return {each.name: each.reason for each in found.status.target_namespaces}

    await eventually(look, lambda seen: seen == reasons, LONG)


async def workloads(fleet: Installation) -> dict[str, Any]:
    """The Deployments of Tenants, by their names: their UIDs and specs."""
    found = await fleet.client.list(DEPLOYMENT, "acme")
    return {each["metadata"]["name"]: (each["metadata"]["uid"], each["spec"]) for each in found}


async def test_a_full_data_plane_is_reported_delays_no_other_and_goes_on_once_there_is_room(
    fleet: Installation,
) -> None:
    east, west = fleet.planes
    before = await workloads(fleet)
    rule = east.environment.proxy.add(
        Fail(507, message="no room"), Match(user="stack-east", verb="write"), times=None
    )
    await east.client.create(tenant(deployment("late"), name="late", namespace="acme"))
    await serve(west, "meanwhile")
    await until(fleet, east="DataPlaneFull", west=HEALTHY)
    during = await workloads(fleet)
    assert {name: during[name] for name in before} == before
    assert not is_ready(await read(east, "late", "acme"))
    east.environment.proxy.remove(rule)
    await fleet.pods["east"].stop()  # without its Lease a Pod ends, and is started again
    await fleet.run_pods("east")
    await ready(east, "late", "acme")
    await until(fleet, east=HEALTHY, west=HEALTHY)
    after = await workloads(fleet)
    assert {name: after[name] for name in during} == during


async def test_a_data_plane_that_is_lost_leaves_its_workloads_until_it_is_forgotten(
    fleet: Installation,
) -> None:
    east, west = fleet.planes
    before = await workloads(fleet)
    since = fleet.hub.mark()
    await east.environment.proxy.stop()
    await serve(west, "meanwhile")
    await until(fleet, east="DataPlaneUnreachable", west=HEALTHY)
    assert {name: (await workloads(fleet))[name] for name in before} == before
    deletes = fleet.hub.environment.proxy.log.since(since).select(verbs=("delete",))
    assert deletes.total == 0, str(deletes)

    await fleet.client.patch(NAMESPACE, "east", {"metadata": {"labels": {DATA_PLANE: None}}})
    await eventually(
        partial(fleet.hub.get, STATEFUL_SET, "fleet-workers", "east"), lambda seen: seen is None
    )
    await fleet.pods["east"].stop()
    await until(fleet, west=HEALTHY)
    assert {name: (await workloads(fleet))[name] for name in before} == before
    kubeconfig = fleet.hub.environment.kubeconfig("admin")
    arguments = ("fleet", "forget", "east", "--count=1", "--kubeconfig", kubeconfig)
    async with await Program.start(*arguments) as program:
        assert await program.wait(120) == 1
        assert "had its stack removed; name the data plane with --data-plane ID" in program.output
    async with await Program.start(*arguments, f"--data-plane={east.id}") as program:
        assert await program.wait(120) == 0, program.output
    assert (await workloads(fleet)).keys() == {"west", "meanwhile"}
