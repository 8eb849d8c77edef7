"""What a rollback returns and what it leaves, over random fleets, late views and crashes."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlruntime.rollout import (
    Change,
    ChangeKind,
    Health,
    Member,
    OnHalt,
    Strategy,
    Wave,
    decide,
)
from ctrlruntime.rollout.records import change_record, read_change
from tests.rollout.fleet_simulation import SECOND, START, Simulation, fleet

pytestmark = pytest.mark.criterion("RO-4")

SIZES = st.integers(1, 16)
SEEDS = st.integers(0, 2**16)
DELAYS = st.integers(0, 5)
CRASHES = st.frozensets(st.integers(0, 120), max_size=6)
MINUTE = timedelta(minutes=1)


def strategy(limit: int = 1, skew: int = 3, soak: timedelta = MINUTE) -> Strategy:
    return Strategy(
        max_skew=skew,
        halt_on_failures=limit,
        on_halt=OnHalt.ROLLBACK,
        progress_deadline=15 * SECOND,
        soak=soak,
    )


def restored(run: Simulation) -> list[str]:
    return sorted(item.name for item in run.assigned if item.change.kind is ChangeKind.ROLLBACK)


@settings(max_examples=40)
@given(SIZES, SEEDS, st.integers(1, 6), st.integers(1, 50), DELAYS, CRASHES)
def test_health_lost_within_the_soak_returns_exactly_the_changed_members(
    size: int, seed: int, skew: int, after: int, delay: int, crashes: frozenset[int]
) -> None:
    members = fleet(size)
    sick = frozenset([random.Random(seed).choice(sorted(members))])
    run = Simulation(
        members, strategy(skew=skew), "v2", seed=seed, delay=delay, sick=sick, sick_after=after
    )
    run.run(size * 14 + 200, crashes=crashes)
    assert restored(run) == sorted(run.changed()) != []
    assert set(run.versions().values()) == {"v1"}
    assert run.most_changing <= skew + len(sick)  # what lost its health began before
    assert run.last is not None
    assert run.last.returned == len(run.changed())
    assert not run.last.returning


@settings(max_examples=40)
@given(SIZES, SEEDS, DELAYS)
def test_health_lost_after_the_soak_returns_no_member(size: int, seed: int, delay: int) -> None:
    members = fleet(size)
    run = Simulation(
        members, strategy(skew=16), "v2", seed=seed, delay=delay, sick=frozenset(members)
    )
    run.sick_after = 90  # the deadline is 15 s, the soak 60 s
    run.run(200)
    assert not restored(run)
    assert set(run.versions().values()) == {"v2"}


@settings(max_examples=40)
@given(SIZES, SEEDS, DELAYS, CRASHES)
def test_an_irreversible_change_holds_and_is_named(
    size: int, seed: int, delay: int, crashes: frozenset[int]
) -> None:
    plan = replace(strategy(), irreversible=True)
    run = Simulation(fleet(size), plan, "v2", seed=seed, delay=delay, bad=frozenset({"v2"}))
    run.run(100, crashes=crashes)
    assert not restored(run)
    assert run.last is not None
    assert "the change is irreversible" in run.last.halted
    assert set(run.last.kept) == run.changed()
    # What changed while the step was irreversible stays, also once the next ones are not.
    run.strategy = replace(plan, irreversible=False)
    run.run(30)
    assert not restored(run)


def test_a_rollback_never_crosses_an_irreversible_change_of_a_member_that_was_never_ready() -> None:
    change = Change(ChangeKind.ROLLOUT, START, "v1", is_irreversible=True)
    member = Member(name="a", version="v2", health=Health.FAILED, change=change)
    done = decide("v3", [member], strategy(), START + SECOND).changes[0]
    assert done.change.previous == "v1"
    assert done.change.is_irreversible
    after = replace(member, version="v3", change=done.change)
    held = decide("v3", [after], replace(strategy(), halt_on_failures=1), START + MINUTE)
    assert not held.changes


def test_only_versions_whose_content_is_recorded_are_restored() -> None:
    run = Simulation(fleet(4), strategy(skew=4), "v2", bad=frozenset({"v2"}))
    run.members["m0"] = replace(run.members["m0"], version="v0")
    run.strategy = replace(strategy(skew=4), restorable=frozenset({"v1"}))
    run.run(60)
    assert restored(run) == ["m1", "m2", "m3"]
    assert run.versions()["m0"] == "v2"
    assert run.last is not None
    assert run.last.kept == {"m0": "the content of version v0 is not recorded"}


@settings(max_examples=40)
@given(st.integers(4, 16), SEEDS, st.integers(0, 30))
def test_a_rollback_that_is_called_off_stops_and_goes_on_when_it_is_asked_for_again(
    size: int, seed: int, stop: int
) -> None:
    rolling = strategy(skew=2)
    run = Simulation(fleet(size), rolling, "v2", seed=seed, sick=frozenset({"m0"}))
    run.run(stop + 40)
    run.strategy = replace(rolling, on_halt=OnHalt.HOLD)
    before = len(restored(run))
    run.run(20)
    assert len(restored(run)) == before
    run.strategy = rolling
    run.run(size * 14 + 120)
    assert restored(run) == sorted(run.changed())
    assert set(run.versions().values()) == {"v1"}


def test_a_resumed_rollout_gives_the_refused_version_again_and_halts_on_new_failures() -> None:
    run = Simulation(fleet(6), strategy(skew=2), "v2", bad=frozenset({"v2"}))
    run.run(60)
    first = restored(run)
    assert first
    run.strategy = replace(run.strategy, resumed_at=run.now)
    run.bad = frozenset()
    run.run(120)
    assert set(run.versions().values()) == {"v2"}
    assert run.last is not None
    assert run.last.is_complete
    assert not run.last.halted


def test_a_rollout_is_watched_until_its_last_soak_is_over() -> None:
    run = Simulation(fleet(3), strategy(skew=3), "v2", slowest=2)
    run.run(10)
    assert run.last is not None
    assert run.last.is_complete
    assert run.last.watched_until == START + SECOND + 15 * SECOND + MINUTE
    run.run(80)
    assert run.last.watched_until is None


@settings(max_examples=40)
@given(SIZES, SEEDS, DELAYS, st.integers(20, 60))
def test_the_soak_of_a_wave_counts_too(size: int, seed: int, delay: int, after: int) -> None:
    plan = replace(strategy(skew=16, soak=0 * SECOND), waves=(Wave(name="all", soak=MINUTE),))
    members = fleet(size)
    sick = frozenset([random.Random(seed).choice(sorted(members))])
    run = Simulation(members, plan, "v2", seed=seed, delay=delay, sick=sick, sick_after=after)
    run.run(150)
    assert restored(run) == sorted(run.changed()) != []


@settings(max_examples=40)
@given(SIZES, SEEDS, DELAYS, CRASHES)
def test_a_rollback_of_one_version_does_not_halt_the_next(
    size: int, seed: int, delay: int, crashes: frozenset[int]
) -> None:
    run = Simulation(fleet(size), strategy(), "v2", seed=seed, delay=delay, bad=frozenset({"v2"}))
    run.run(60)
    assert restored(run)
    run.target = "v3"
    run.run(size * 14 + 70, crashes=crashes)
    assert set(run.versions().values()) == {"v3"}


@settings(max_examples=40)
@given(SIZES, SEEDS, st.integers(1, 30))
def test_paused_members_and_paused_rollouts_are_not_returned(
    size: int, seed: int, before: int
) -> None:
    run = Simulation(fleet(size), strategy(skew=16), "v2", seed=seed)
    run.run(before)
    paused = random.Random(seed).choice(sorted(run.changed()))
    run.members[paused] = replace(run.members[paused], paused=True)
    run.strategy = replace(strategy(skew=16), halt="requested", paused=True)
    run.run(20)
    assert not restored(run)
    run.strategy = replace(run.strategy, paused=False)
    run.run(20)
    assert restored(run) == sorted(run.changed() - {paused})
    assert run.last is not None
    assert run.last.kept == {paused: "the member is paused"}


@settings(max_examples=40)
@given(SIZES, SEEDS)
def test_a_rollback_returns_to_the_version_in_which_members_were_ready_last(
    size: int, seed: int
) -> None:
    hold = replace(strategy(skew=16), on_halt=OnHalt.HOLD)
    run = Simulation(fleet(size), hold, "v2", seed=seed, bad=frozenset({"v2", "v3"}))
    run.run(1)
    assert set(run.versions().values()) == {"v2"}
    run.target, run.strategy = "v3", replace(strategy(skew=16), halt_on_failures=None)
    run.run(1)
    assert set(run.versions().values()) == {"v3"}
    run.strategy = replace(run.strategy, halt="requested")
    run.run(20)
    assert set(run.versions().values()) == {"v1"}


@given(
    st.builds(
        Change,
        st.sampled_from(ChangeKind),
        st.datetimes(timezones=st.just(UTC)),
        st.text(),
        refused=st.text(),
        is_irreversible=st.booleans(),
        is_fix=st.booleans(),
    )
)
def test_a_change_is_read_as_it_was_recorded(change: Change) -> None:
    assert read_change(change_record(change)) == change
