"""A controller without a defect keeps every rule; each defect is found."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from ctrlruntime.envtest.simulation import Case, Simulation, explore, simulated
from ctrlruntime.envtest.simulation.oracles import CHANGES_NOTHING, ENDS, IDLE, LEASE, ROLLED_BACK
from tests.simulation import stories
from tests.simulation.stories import Defect


@simulated(seeds=20)
async def test_a_controller_ends_where_it_does_without_faults(sim: Simulation) -> None:
    await stories.story(sim)
    found = await sim.client.get(stories.Shop, "a", namespace="default")
    assert found.status.size == 3


@pytest.mark.parametrize(
    ("defect", "rule"),
    [
        (stories.writes_always, CHANGES_NOTHING),
        (stories.flaps, ROLLED_BACK),
        (stories.polls, IDLE),
        (stories.watches_anew, IDLE),
        (stories.remembers, "fresh manager"),
        (stories.gives_up, "settles"),
        (stories.ends, ENDS),
    ],
)
def test_a_defect_is_found(defect: Defect, rule: str) -> None:
    story = partial(stories.story, defect=defect)
    report = explore(story, map(Case, range(100)), workers=2, shrink=False)
    assert [each.rule for each in report.red] == [rule]


async def a_leader_stands_still(sim: Simulation) -> None:
    sim.allow(CHANGES_NOTHING)  # its other client does not show its own writes in the cache
    await sim.install(stories.Shop)
    add = partial(stories.add_shop, defect=stories.goes_past_the_fence)
    replicas = sim.manager(add, replicas=2, leader_election=True)
    await sim.client.create(stories.shop("a"))
    await sim.sleep(1)
    for replica in replicas:
        if replica.elected:
            replica.pause(18)
    await sim.sleep(60)


def test_a_write_of_a_former_leader_is_found() -> None:
    report = explore(a_leader_stands_still, [Case(0, modes=frozenset())])
    assert [each.rule for each in report.red] == [LEASE]


async def managers_begin_anew(sim: Simulation) -> None:
    await sim.install(stories.Shop)
    replicas = sim.manager(stories.add_shop, replicas=2, leader_election=True)
    await sim.client.create(stories.shop("a"))
    await sim.settles(within=900)
    assert any(each.elected for each in replicas)


def test_managers_that_begin_anew_lead_at_once_in_a_brief_seed() -> None:
    """Their Leases last 45 s, and 30 s is how long they have to change something."""
    case = Case(0, modes=frozenset({"brief", "patient"}))
    assert not explore(managers_begin_anew, [case]).red


async def a_manager_stops(sim: Simulation) -> None:
    sim.allow(ENDS)
    (replica,) = sim.manager(lambda manager: asyncio.get_running_loop().call_later(1, manager.stop))
    await sim.sleep(60)
    assert replica.life > 3


def test_a_manager_that_ends_is_started_again() -> None:
    assert not explore(a_manager_stops, [Case(0)]).red


def test_a_rule_that_is_none_is_refused() -> None:
    report = explore(_allows_what_is_no_rule, [Case(0)])
    assert "there are lease" in report.red[0].message


async def _allows_what_is_no_rule(sim: Simulation) -> None:
    sim.allow("leases")
