"""Scale mode: hubs with their operators, data planes that come, fail and go, stacks that are programs of their own."""

from __future__ import annotations

import asyncio
import random
from collections import ChainMap
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final
from unittest.mock import patch

from apis.fleet import FleetConfig
from apis.fleet.labels import ORPHAN_RECORD
from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.envtest.simulation import Simulation
from ctrlruntime.manager import GCOptions, Manager
from internal.fleet.stack_builder import StackOptions
from manager.controllers.fleet import OperatorOptions, add_operator
from manager.kinds import PLANE_KINDS
from manager.serving.operator_run import OperatorRun
from tests.simulation.systems.fleet_end import lacks
from tests.simulation.systems.fleet_pods import Nodes, mounted
from tests.simulation.systems.fleet_rules import HubRules, PlaneRules
from tests.simulation.systems.fleet_script import Script
from tests.simulation.systems.fleet_world import Hub, Meant, Plane

_KINDS: Final = (Tenant, TenantTemplate, TenantRegistry)
"""Those of a data plane that have objects here."""


async def story(sim: Simulation) -> None:
    """Tenants that change and move between data planes, while stacks come and go and everything fails."""
    sim.compared = _compared
    draws = sim.draws("script")
    draws_of_kinds = sim.draws("kinds")
    _definitions()  # in the process that all seeds are forked from
    world = Meant()
    nodes = [
        await _hub(sim, world, name, draws) for name in draws.choice((("hub",), ("hub", "hub2")))
    ]
    stacks = ChainMap(*(each.ids for each in nodes))
    for each in nodes:
        each.hub.cluster.shows(HubRules(sim, world, each.hub, stacks))

    async def plane(name: str) -> Plane:
        cluster = await sim.cluster(name)
        await cluster.install(*_KINDS)
        if draws_of_kinds.random() < 0.8:  # where they are missing they are looked for for ever
            await asyncio.gather(*(cluster.client.create(each) for each in _definitions()))
        (found,) = [
            each["metadata"]["uid"]
            for each in cluster.objects("namespaces")
            if each["metadata"]["name"] == "kube-system"
        ]
        made = Plane(name, cluster, found, draws.choice([*world.hubs]))
        cluster.shows(PlaneRules(sim, world, made, stacks))
        return made

    script = Script(sim, world, draws, plane)
    sim.add_fault("plane away", partial(_away, sim, world))
    with mounted(nodes), patch("manager.commands.fleet_move.echo", script.print):
        await script.begin()
        await sim.sleep(draws.choice((0.1, 20, 90)))
        async with sim.faults():
            await script.go_on()
            await sim.sleep(60)
        await script.tidy_up()
        await sim.settles(within=1800, lacks=partial(lacks, world))
        await sim.stays_idle(300)


@cache
def _definitions() -> list[dict[str, Any]]:
    """Return those of the kinds that stacks look for besides, without schemas: there are no objects."""
    found = [each.crd() for each in PLANE_KINDS if each not in _KINDS]
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    for spec in (each["spec"] for each in found):
        spec["versions"] = [
            {**{name: each[name] for name in ("name", "served", "storage")}, "schema": schema}
            for each in spec["versions"]
        ]
    return found


async def _hub(sim: Simulation, world: Meant, name: str, draws: random.Random) -> Nodes:
    cluster = sim.first if not world.hubs else await sim.cluster(name)
    await cluster.install(FleetConfig)
    hub = world.hubs[name] = Hub(name, cluster)
    made = Nodes(sim, hub, world, sim.draws(f"{name} nodes"))
    made.start()
    stack = StackOptions(
        image="stack:1",
        controllers=draws.choice((1, 2)),
        restrict_hub_secrets=draws.random() < 0.7,
    )
    options = OperatorOptions(stack=stack, concurrency=draws.choice((1, 50)), kinds=(Tenant,))

    def add(manager: Manager) -> None:
        add_operator(manager, options)

    runtime = replace(
        OperatorRun().manager_options(), gc=GCOptions(manage=False), handle_signals=False
    )
    sim.manager(
        add,
        replicas=draws.choice((1, 2)),
        leader_election=True,
        options=runtime,
        name=f"operator-{name}-",
        cluster=cluster,
    )
    return made


def _compared(key: str, obj: object) -> object:
    """Leave out what workers note of objects whose owner is gone: the first time when they have run for a while."""
    return None if key.endswith(f"/{ORPHAN_RECORD}") else obj


def _away(sim: Simulation, world: Meant, draw: random.Random) -> str:
    """Take a data plane off the network for a while."""
    there = [each for each in world.planes.values() if not each.away]
    if not there:
        return "none is there"
    plane, seconds = draw.choice(there), draw.choice((2.0, 20.0, 100.0))
    back = plane.cluster.leave()
    plane.away = True

    def end() -> None:
        plane.away = False
        back()

    sim.after(seconds, end)
    sim.lasts(end)
    return f"{plane.name} for {seconds:g} s"
