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


async def test_every_query_about_data_planes_is_served_by_the_operator() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator() as manager:
        await hub.configure(**SCALE)
        await deployed(hub, east=east)
        look = partial(missing, manager)
        assert await eventually(look, lambda names: names == OF_WORKERS) == OF_WORKERS


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
