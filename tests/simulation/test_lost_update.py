"""A lost update is found by a test that names no rule."""

from __future__ import annotations

import pytest

from ctrlruntime import Builder, Manager, as_reconciler
from ctrlruntime.envtest.simulation import Case, Simulation, Story, explore
from tests.simulation.stories import Shop, shop


def add_shop(manager: Manager) -> None:
    async def reconcile(found: Shop) -> None:
        name, namespace = found.metadata.name, found.metadata.namespace
        address = f"{name}-{found.spec.size}.example.com"
        if found.spec.address != address:  # the defect: another size may have come by now
            spec = {"size": found.spec.size, "address": address}
            await manager.client.patch(Shop, name, {"spec": spec}, namespace=namespace)

    Builder(manager).for_(Shop).build(as_reconciler(manager.client, Shop, reconcile))


async def story(sim: Simulation) -> None:
    """What a user's test would be."""
    await sim.install(Shop)
    sim.manager(add_shop, replicas=2, leader_election=True)
    await sim.client.create(shop("a"))
    async with sim.faults():
        for size in (2, 3):
            await sim.sleep(1)
            await sim.client.patch(Shop, "a", {"spec": {"size": size}}, namespace="default")
        await sim.sleep(60)
    await sim.settles(within=900)


async def compared(sim: Simulation) -> None:
    """Compare the end with that of the run without faults, and nothing else."""
    sim.allow("others")
    await story(sim)


@pytest.mark.criterion("SIM-D4")
@pytest.mark.parametrize(("told", "rule"), [(story, "others"), (compared, "settles")])
def test_a_lost_update_is_found_within_100_seeds(told: Story, rule: str) -> None:
    (red,) = explore(told, map(Case, range(100)), workers=2).red
    assert (red.rule, len(red.actions) <= 8) == (rule, True)
