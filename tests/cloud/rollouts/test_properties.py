"""The laws of FleetRollouts over random fleets: budget, once, order, exact rollback, deadlines."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apis.cloud import FleetRollout, FleetRolloutPhase, Phase
from ctrlruntime.json import Json
from ctrlruntime.rollout import ChangeKind, Health, decide, resolve
from internal.cloud.rollouts.members import Rival, fleet_of
from internal.cloud.rollouts.strategy import strategy_of
from tests.cloud.rollouts.fleet import FleetSimulation, instances

pytestmark = pytest.mark.criterion("RO-FLEET-LAWS")

BEGIN = datetime(2026, 3, 2, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SIZES = st.integers(1, 12)
BUDGETS = st.one_of(st.integers(1, 5), st.sampled_from(["10%", "50%"]))
SEEDS = st.integers(0, 2**16)
SHARES = st.lists(st.integers(0, 100), min_size=0, max_size=4)
OLD, NEW = "5.2.0", "5.3.0"


def rollout(target: str = NEW, **spec: object) -> FleetRollout:
    return FleetRollout.from_manifest(
        {
            "metadata": {"name": "release", "namespace": "default", "generation": 1},
            "spec": {"targetVersion": target, **spec},
        }
    )


def simulation(size: int, seed: int, **spec: Json) -> FleetSimulation:
    fleet = instances({"internal": size, "production": size}, OLD)
    run = FleetSimulation(rollout(**spec), fleet, BEGIN, slowest=timedelta(minutes=9))
    run.random.seed(seed)
    return run


def waves(shares: list[int]) -> list[dict[str, object]]:
    return [{"name": f"w{number}", "percent": share} for number, share in enumerate(shares)]


@settings(max_examples=30, deadline=None)
@given(SIZES, BUDGETS, SEEDS, SHARES)
def test_every_instance_changes_once_within_the_budget_and_waves_contain_each_other(
    size: int, budget: int | str, seed: int, shares: list[int]
) -> None:
    run = simulation(size, seed, maxConcurrent=budget, waves=waves(sorted(shares)))
    for _ in range(size * 30 + 60):
        run.step(MINUTE)
        counts = [(wave.updated, wave.instances) for wave in run.status.waves]
        assert counts == sorted(counts, key=lambda pair: pair[1])
    assert run.status.phase is FleetRolloutPhase.COMPLETE
    assert sorted(item.name for _, item in run.assigned) == sorted(run.fleet)
    assert run.most_changing <= resolve(budget, 2 * size)


@settings(max_examples=30, deadline=None)
@given(SIZES, BUDGETS, SEEDS, st.integers(1, 3), st.integers(0, 40))
def test_a_rollback_returns_exactly_what_changed_and_a_halt_stops_within_one_pass(
    size: int, budget: int | str, seed: int, limit: int, until: int
) -> None:
    run = simulation(size, seed, maxConcurrent=budget, haltOnFailures=limit, onHalt="Rollback")
    run.run(BEGIN + until * MINUTE, MINUTE)
    run.bad = frozenset({NEW})
    for _ in range(size * 30 + 120):
        halted = bool(run.step(MINUTE).halted)
        assigned = [item for at, item in run.assigned if at == run.now]
        assert not halted or all(item.change.kind is ChangeKind.ROLLBACK for item in assigned)
    changed = [item.name for _, item in run.assigned if item.version == NEW]
    restored = [item.name for _, item in run.assigned if item.change.kind is ChangeKind.ROLLBACK]
    assert len(changed) == len(set(changed))
    if restored:
        assert sorted(restored) == sorted(changed)
    else:
        assert len(run.status.waves) == 0
    assert run.most_changing <= resolve(budget, 2 * size) + limit  # failed ones go back apart


@settings(max_examples=30, deadline=None)
@given(SIZES, SEEDS, st.data())
def test_instances_that_were_unhealthy_before_are_not_drawn_and_do_not_halt(
    size: int, seed: int, data: st.DataObject
) -> None:
    run = simulation(size, seed, maxConcurrent=3)
    sick = data.draw(st.sets(st.sampled_from(sorted(run.fleet))))
    for name in sick:
        run.fleet[name] = replace(run.fleet[name], health=Health.FAILED, phase=Phase.FAILED)
    run.run(BEGIN + (size * 20 + 60) * MINUTE, MINUTE)
    assert {item.name for _, item in run.assigned} == set(run.fleet) - sick
    assert run.status.failed == 0
    for name in sick:
        run.fleet[name] = replace(run.fleet[name], health=Health.READY, phase=Phase.READY)
    run.run(run.now + (size * 20 + 60) * MINUTE, MINUTE)
    assert run.status.phase is FleetRolloutPhase.COMPLETE


def test_a_fix_of_what_the_rollout_broke_waits_for_no_budget_and_no_wave() -> None:
    run = simulation(6, 1, maxConcurrent=2, haltOnFailures=2)
    run.bad = frozenset({NEW})
    run.run(BEGIN + 30 * MINUTE, MINUTE)
    broken = {name for name, item in run.fleet.items() if item.health is Health.FAILED}
    assert len(broken) >= 2
    run.rollout = rollout("5.3.1", maxConcurrent=1, haltOnFailures=2, waves=waves([0]))
    decision = run.step(MINUTE)
    assert broken <= {item.name for item in decision.changes}


def test_an_instance_that_is_not_ready_in_time_frees_its_slot_and_counts_as_failed() -> None:
    run = simulation(2, 1, maxConcurrent=1, haltOnFailures=2, progressDeadlineSeconds=600)
    run.slowest = timedelta(days=2)
    run.step(MINUTE)
    run.run(BEGIN + 10 * MINUTE, MINUTE)
    assert len(run.assigned) == 1
    run.run(BEGIN + 13 * MINUTE, MINUTE)
    assert len(run.assigned) == 2
    assert run.status.failed == 1


def test_an_instance_of_a_newer_rollout_is_skipped_and_the_order_is_that_of_the_hash() -> None:
    fleet = list(instances({"internal": 5}, OLD).values())
    spec = rollout(maxConcurrent=5, waves=waves([40])).spec
    rival = Rival(name="newer", selector={"instance-type": "internal"})
    assert not fleet_of("release", spec, fleet, [rival], BEGIN).members
    chosen = [
        sorted(item.name for item in decide(target, found, strategy_of(spec, {}), BEGIN).changes)
        for target in (NEW, "5.4.0", "5.5.0", "5.6.0")
        for found in (fleet_of("release", spec, reversed(fleet), [], BEGIN).members,)
    ]
    assert all(len(each) == 2 for each in chosen)
    assert len({tuple(each) for each in chosen}) > 1
