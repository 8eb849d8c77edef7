"""The laws of freezes: nothing changes while one is active, and everything does once none is."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlruntime.rollout import (
    Change,
    ChangeKind,
    Freeze,
    FrozenObject,
    Health,
    OnHalt,
    Reason,
    Strategy,
    Waiting,
    decide,
    hold_of,
    next_edge,
)
from tests.rollout.fleet_simulation import SECOND, START, Simulation, fleet

pytestmark = pytest.mark.criterion("RO-FREEZE")

SEEDS = st.integers(0, 2**16)
SIZES = st.integers(1, 12)
CRASHES = st.frozensets(st.integers(0, 90), max_size=6)
HOUR = timedelta(hours=1)
FROZEN = Waiting(Reason.FROZEN, "ChangeFreeze 'xmas' holds all changes", START + HOUR)


@settings(max_examples=40)
@given(SIZES, SEEDS, st.integers(0, 5), CRASHES, st.integers(1, 20))
def test_nothing_changes_in_a_freeze_and_all_members_change_once_after_it(
    size: int, seed: int, delay: int, crashes: frozenset[int], before: int
) -> None:
    strategy = Strategy(max_skew=2)
    run = Simulation(fleet(size), strategy, "v2", seed=seed, delay=delay)
    run.run(before)
    changed = len(run.assigned)
    run.strategy = replace(strategy, hold=FROZEN)
    run.run(60, crashes=crashes)
    assert len(run.assigned) == changed
    assert run.last is not None
    old = {name for name, version in run.versions().items() if version == "v1"}
    assert {item.reason for item in run.last.waiting.values()} <= {Reason.FROZEN}
    assert set(run.last.waiting) == old
    assert run.last.frozen == (FROZEN if old else None)
    run.strategy = strategy
    run.run(size * 14 + 70)
    assert sorted(item.name for item in run.assigned) == sorted(run.members)


@settings(max_examples=40)
@given(SIZES, SEEDS, st.integers(1, 12))
def test_a_fix_and_a_rollback_wait_for_the_end_of_a_freeze(
    size: int, seed: int, failed: int
) -> None:
    strategy = Strategy(
        halt_on_failures=1, on_halt=OnHalt.ROLLBACK, progress_deadline=15 * SECOND, soak=HOUR
    )
    run = Simulation(
        fleet(size, failed=failed), strategy, "v2", seed=seed, bad=frozenset({"v2"}), slowest=3
    )
    run.run(1)
    run.strategy = replace(strategy, hold=FROZEN)
    assigned = len(run.assigned)
    run.run(40)
    assert len(run.assigned) == assigned
    assert run.last is not None
    assert bool(run.last.returning) == bool(run.last.halted)
    run.strategy = strategy
    run.run(60)
    if run.last.halted:
        assert {item.change.kind for item in run.assigned} >= {ChangeKind.ROLLBACK}


def test_a_closed_window_of_the_registry_holds_changes_and_lets_rollbacks_go() -> None:
    hold = Waiting(Reason.WINDOW, "the maintenance window opens later", START + HOUR)
    strategy = Strategy(halt_on_failures=1, on_halt=OnHalt.ROLLBACK, progress_deadline=5 * SECOND)
    run = Simulation(fleet(6), strategy, "v2", bad=frozenset({"v2"}), slowest=2)
    run.run(1)
    run.strategy = replace(strategy, hold=hold)
    run.run(30)
    assert {item.change.kind for item in run.assigned} == {ChangeKind.ROLLOUT, ChangeKind.ROLLBACK}
    assert set(run.versions().values()) == {"v1"}


def test_the_deadline_of_a_member_does_not_run_while_its_change_is_held() -> None:
    deadline = 10 * SECOND
    member = replace(
        fleet(1)["m0"],
        version="v2",
        health=Health.PROGRESSING,
        change=Change(ChangeKind.ROLLOUT, START, "v1"),
    )
    strategy = Strategy(halt_on_failures=1, progress_deadline=deadline, soak=HOUR)
    later = START + HOUR
    assert decide("v2", [member], strategy, START + 2 * deadline).halted
    held = replace(member, held=True)
    assert not decide("v2", [held], strategy, later).halted
    assert decide("v2", [held], strategy, later).changing == 1
    resumed = replace(member, resumed_at=later)
    assert not decide("v2", [resumed], strategy, later + deadline - SECOND).halted
    assert decide("v2", [resumed], strategy, later + deadline).halted


def test_a_held_member_that_had_failed_counts_as_failed() -> None:
    member = replace(
        fleet(1)["m0"],
        version="v2",
        health=Health.FAILED,
        change=Change(ChangeKind.ROLLOUT, START, "v1"),
        held=True,
    )
    assert decide("v2", [member], Strategy(halt_on_failures=1), START + HOUR).halted


@pytest.mark.parametrize(("seconds", "active"), [(-1, False), (0, True), (59, True), (60, False)])
def test_a_freeze_is_active_from_its_start_until_before_its_end(seconds: int, active: bool) -> None:
    freeze = Freeze(name="x", starts_at=START, until=START + 60 * SECOND)
    now = START + seconds * SECOND
    assert freeze.is_active(now) is active
    assert bool(hold_of([freeze], "Cloud", "default", now)) is active


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), max_size=5), st.integers(0, 110))
def test_what_is_held_changes_at_the_next_edge_and_not_before(
    spans: list[tuple[int, int]], at: int
) -> None:
    freezes = [
        Freeze(
            name=str(number),
            starts_at=START + start * SECOND,
            until=START + (start + length) * SECOND,
        )
        for number, (start, length) in enumerate(spans)
    ]
    now = START + at * SECOND
    edge = next_edge(freezes, now)
    last = (START + 120 * SECOND) if edge is None else edge
    moment = now
    active = {item.name for item in freezes if item.is_active(now)}
    while moment < last:
        assert {item.name for item in freezes if item.is_active(moment)} == active
        moment += SECOND
    if edge is not None:
        assert {item.name for item in freezes if item.is_active(edge)} != active


def test_a_freeze_holds_its_systems_and_namespaces_alone() -> None:
    freeze = Freeze(
        name="x",
        systems=frozenset({"Cloud"}),
        namespaces=frozenset({"prod"}),
        why="Audit",
        exempt=frozenset({FrozenObject("Instance", "prod", "a")}),
    )

    def held(system: str, namespace: str, changed: FrozenObject | None = None) -> bool:
        return hold_of([freeze], system, namespace, START, changed) is not None

    assert held("Cloud", "prod")
    assert not held("Cloud", "test")
    assert not held("Tenancy", "prod")
    assert not held("Cloud", "prod", FrozenObject("Instance", "prod", "a"))
    for other in ("FleetRollout", "prod", "a"), ("Instance", "x", "a"), ("Instance", "prod", "b"):
        assert held("Cloud", "prod", FrozenObject(*other))


def test_of_several_freezes_the_one_that_ends_last_is_named() -> None:
    def named(*ends: datetime | None) -> str:
        freezes = [Freeze(name=f"f{i}", until=end) for i, end in enumerate(ends)]
        found = hold_of(freezes, "Cloud", "default", START)
        return "" if found is None else found.message.split("'")[1]

    assert named(START + SECOND, START + HOUR) == "f1"
    assert named(START + HOUR, None, START + SECOND) == "f1"
    assert named(START) == ""
