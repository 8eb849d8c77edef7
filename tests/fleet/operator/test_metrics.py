"""Series of scale mode: the operator serves the queries about data planes; workers of stacks serve the others."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from ctrlruntime.manager import Manager
from manager.controllers.hub import StackOptions, add_hub
from manager.controllers.orphan_sweep import add_orphan_sweep
from tests.fleet.stack.harness import fleet
from tests.observability.queries import of_alerts, of_dashboard, unserved
from tests.support.manager_harness import make_manager
from tests.support.waiting import eventually

from .harness import SCALE, Hub, deployed, planes

pytestmark = pytest.mark.criterion("METRICS-LIVE")

OF_OPERATOR = {"fleet_data_plane_up", "fleet_target_namespaces", "fleet_hub_namespaces"}
OF_WORKERS = {"fleet_data_plane_objects", "fleet_orphans", "fleet_orphans_held"}


async def missing(manager: Manager) -> set[str]:
    """The series of the dashboard and the alerts that a process does not serve."""
    text, _ = await manager.metrics.scrape()
    queries = (of_dashboard("fleet"), of_alerts("ctrlruntime.fleet"))
    found = {name for each in queries for name in unserved(text.decode(), each)}
    return {name for name in found if name.startswith("fleet_")}


async def namespaces_of_the_hub(manager: Manager) -> int:
    """The number that the operator reports; 0 before it has looked."""
    text, _ = await manager.metrics.scrape()
    lines = (line.split() for line in text.decode().splitlines() if not line.startswith("#"))
    return next((int(float(value)) for name, value in lines if name == "fleet_hub_namespaces"), 0)


@pytest.mark.criterion("FLEET-R30")
async def test_r30_the_namespaces_of_the_hub_are_counted() -> None:
    async with Hub.running() as hub, hub.operator() as manager:
        await hub.configure(**SCALE)
        count = partial(namespaces_of_the_hub, manager)
        before = await eventually(count, bool)
        await hub.add("east", None)
        after = await eventually(count, lambda number: number != before)
        assert (before > 0, after) == (True, before + 1)


@pytest.mark.criterion("FLEET-R30")
async def test_every_query_about_data_planes_is_served_by_the_operator() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator() as manager:
        await hub.configure(**SCALE)
        await deployed(hub, east=east)
        look = partial(missing, manager)
        assert await eventually(look, lambda names: names == OF_WORKERS) == OF_WORKERS


@pytest.mark.criterion("D5-16")
async def test_every_query_about_orphans_is_served_by_the_workers(tmp_path: Path) -> None:
    async with fleet(tmp_path) as servers:
        manager = make_manager(servers.plane.environment.config("manager"), name="manager")
        options = StackOptions(data_plane=servers.plane.id, target_namespace="plane-0")
        hub = await add_hub(manager, servers.hub.environment.config("manager"), options)
        sweeper = add_orphan_sweep(manager, hub, period=1e6)
        async with manager.running():
            await hub.cluster.wait_synced(60.0)
            await sweeper.look()
            assert await missing(manager) == OF_OPERATOR
