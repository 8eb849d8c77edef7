"""Deterministic simulation: controllers, API server and faults in one event loop, in virtual time, from one seed.

@simulated(seeds=200)
async def test_shop(sim: Simulation) -> None:
    await sim.install(Shop)
    sim.manager(add_shop, replicas=2, leader_election=True)
    await sim.client.create(shop("a"))
    async with sim.faults():
        await sim.client.patch(Shop, "a", {"spec": {"size": 3}})
        await sim.sleep(120)
    await sim.settles(within=900)
    await sim.stays_idle(3600)
"""

from __future__ import annotations

from ctrlruntime.envtest.simulation.campaign import Report, explore, replay
from ctrlruntime.envtest.simulation.oracles import RULES, RuleBroken
from ctrlruntime.envtest.simulation.plugin import simulated
from ctrlruntime.envtest.simulation.replica import Replica
from ctrlruntime.envtest.simulation.run import Outcome, Story
from ctrlruntime.envtest.simulation.simulation import Simulation
from ctrlruntime.envtest.simulation.tape import Case

__all__ = [
    "RULES",
    "Case",
    "Outcome",
    "Replica",
    "Report",
    "RuleBroken",
    "Simulation",
    "Story",
    "explore",
    "replay",
    "simulated",
]
