"""The laws of rollouts, over random fleets, late views and crashes."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlruntime.rollout import ChangeKind, Health, OnHalt, Reason, Strategy, Wave, decide, resolve
from tests.rollout.fleet_simulation import SECOND, START, Simulation, fleet

pytestmark = pytest.mark.criterion("RO-1")

SIZES = st.integers(1, 16)
SKEWS = st.one_of(st.integers(1, 6), st.sampled_from(["10%", "25%", "50%"]))
SEEDS = st.integers(0, 2**16)
HOUR = timedelta(hours=1)
DELAYS = st.integers(0, 5)
CRASHES = st.frozensets(st.integers(0, 60), max_size=6)


@settings(max_examples=40)
@given(SIZES, SKEWS, SEEDS, DELAYS, CRASHES)
def test_no_more_than_the_budget_change_at_once_with_late_views_and_crashes(
    size: int, skew: int | str, seed: int, delay: int, crashes: frozenset[int]
) -> None:
    run = Simulation(fleet(size), Strategy(max_skew=skew), "v2", seed=seed, delay=delay)
    run.run(60, crashes=crashes)
    assert run.most_changing <= resolve(skew, size)


@settings(max_examples=40)
@given(SIZES, SKEWS, SEEDS, DELAYS, CRASHES)
def test_every_member_gets_the_target_once(
    size: int, skew: int | str, seed: int, delay: int, crashes: frozenset[int]
) -> None:
    run = Simulation(fleet(size), Strategy(max_skew=skew), "v2", seed=seed, delay=delay)
    run.run(size * 14 + 70, crashes=crashes)
    assert set(run.versions().values()) == {"v2"}
    assert sorted(item.name for item in run.assigned) == sorted(run.members)
    assert run.last is not None
    assert run.last.is_complete
    assert run.last.look_again is None


@settings(max_examples=40)
@given(SIZES, SEEDS, st.integers(1, 25))
def test_a_fix_of_broken_members_does_not_wait_for_the_budget(
    size: int, seed: int, failed: int
) -> None:
    members = fleet(size, failed=min(failed, size))
    broken = {name for name, member in members.items() if member.health is Health.FAILED}
    run = Simulation(members, Strategy(max_skew=1), "v2", seed=seed)
    decision = run.step()
    assert broken <= {item.name for item in decision.changes}
    assert len(run.changing()) <= 1
    run.run(size * 10 + 20)
    assert set(run.versions().values()) == {"v2"}
    assert run.most_changing <= 1


@settings(max_examples=40)
@given(SIZES, SEEDS, SKEWS, st.integers(1, 5), DELAYS)
def test_a_bad_version_halts_within_one_pass_of_the_last_failure(
    size: int, seed: int, skew: int | str, limit: int, delay: int
) -> None:
    strategy = Strategy(
        max_skew=skew, halt_on_failures=limit, progress_deadline=15 * SECOND, soak=HOUR
    )
    run = Simulation(fleet(size), strategy, "v2", seed=seed, delay=delay, bad=frozenset({"v2"}))
    for _ in range(limit * 16 + 20):
        decision = run.step()
        if decision.halted:
            assert not decision.changes
    assert len(run.changed()) <= limit + resolve(skew, size)
    if size >= limit:
        assert decide("v2", list(run.members.values()), strategy, run.now).halted


@settings(max_examples=40)
@given(SIZES, SEEDS, SKEWS)
def test_a_halted_rollout_goes_on_with_another_version(
    size: int, seed: int, skew: int | str
) -> None:
    strategy = Strategy(max_skew=skew, halt_on_failures=1)
    run = Simulation(fleet(size), strategy, "v2", seed=seed, bad=frozenset({"v2"}))
    run.run(30)
    assert run.last is not None
    assert run.last.halted
    run.target = "v3"
    run.run(size * 12 + 30)
    assert set(run.versions().values()) == {"v3"}


def test_a_halted_rollout_goes_on_when_it_is_resumed_and_halts_on_new_failures() -> None:
    strategy = Strategy(max_skew=1, halt_on_failures=1, progress_deadline=20 * SECOND, soak=HOUR)
    run = Simulation(fleet(6), strategy, "v2", bad=frozenset({"v2"}))
    run.run(20)
    assert len(run.changed()) == 1
    run.strategy = replace(strategy, resumed_at=run.now)
    run.run(40)
    assert len(run.changed()) == 2
    assert run.last is not None
    assert run.last.halted


@settings(max_examples=40)
@given(SIZES, SEEDS, SKEWS, st.integers(1, 4), DELAYS, CRASHES)
def test_a_rollback_returns_exactly_the_members_that_were_changed(
    size: int, seed: int, skew: int | str, limit: int, delay: int, crashes: frozenset[int]
) -> None:
    members = fleet(size)
    strategy = Strategy(
        max_skew=skew,
        halt_on_failures=limit,
        on_halt=OnHalt.ROLLBACK,
        progress_deadline=15 * SECOND,
        soak=HOUR,
    )
    stuck = frozenset(random.Random(seed).sample(sorted(members), min(size, limit)))
    run = Simulation(members, strategy, "v2", seed=seed, delay=delay, stuck=stuck)
    run.run(size * 14 + 120, crashes=crashes)
    changed = run.changed()
    restored = {item.name for item in run.assigned if item.change.kind is ChangeKind.ROLLBACK}
    if restored:
        assert restored == changed
        assert set(run.versions().values()) == {"v1"}
    assert run.most_changing <= resolve(skew, size)
    assert len(run.assigned) == len({(item.name, item.version) for item in run.assigned})


@settings(max_examples=40)
@given(SEEDS, DELAYS)
def test_a_rollback_returns_all_when_everybody_fails(seed: int, delay: int) -> None:
    strategy = Strategy(max_skew=10, halt_on_failures=3, on_halt=OnHalt.ROLLBACK)
    bad = frozenset({"v2"})
    run = Simulation(fleet(40), strategy, "v2", seed=seed, delay=delay, bad=bad)
    run.run(60)
    assert 3 <= len(run.changed()) <= 13
    assert set(run.versions().values()) == {"v1"}
    assert run.last is not None
    assert run.last.halted
    assert not run.last.changes


def test_a_member_that_is_not_ready_in_time_frees_its_slot_and_counts_as_a_failure() -> None:
    strategy = Strategy(max_skew=1, progress_deadline=30 * SECOND)
    run = Simulation(fleet(3), strategy, "v2", slowest=1)
    run.step()
    run.ready_at.clear()
    run.run(29)
    assert len(run.changed()) == 1
    decision = run.step()
    assert len(decision.failed) == 1
    assert len(decision.changes) == 1
    run.run(5)
    assert len(run.changed()) == 3


def test_health_lost_long_after_the_change_is_no_failure_of_it() -> None:
    strategy = Strategy(max_skew=5, halt_on_failures=1, progress_deadline=30 * SECOND)
    run = Simulation(fleet(3), strategy, "v2")
    run.run(20)
    lost = run.now + timedelta(hours=1)
    members = [
        replace(each, health=Health.FAILED, health_since=lost) for each in run.members.values()
    ]
    assert not decide("v2", members, strategy, lost + SECOND).failed


@settings(max_examples=40)
@given(st.integers(4, 25), SEEDS, st.integers(1, 60))
def test_waves_go_in_order_and_soak(size: int, seed: int, soak: int) -> None:
    wave = Wave(name="canary", percent=20, soak=soak * SECOND)
    run = Simulation(fleet(size), Strategy(waves=(wave,)), "v2", seed=seed)
    canary = wave.select("v2", run.members.values())
    assert len(canary) == -(-size * 20 // 100)
    while not run.changed() - canary and run.now < START + timedelta(minutes=5):
        run.step()
    ready = max(run.members[name].health_since or START for name in canary)
    assert run.now >= ready + soak * SECOND
    assert run.changed() == set(run.members)


@settings(max_examples=40)
@given(SIZES, SEEDS, SKEWS, st.integers(1, 4), DELAYS, CRASHES)
def test_a_wave_has_a_budget_of_its_own(
    size: int, seed: int, skew: int | str, most: int, delay: int, crashes: frozenset[int]
) -> None:
    wave = Wave(name="all", max_concurrent=most)
    strategy = Strategy(waves=(wave,), max_skew=skew)
    run = Simulation(fleet(size), strategy, "v2", seed=seed, delay=delay)
    run.run(60, crashes=crashes)
    assert 0 < run.most_changing <= min(most, resolve(skew, size))


@settings(max_examples=40)
@given(
    st.dictionaries(st.sampled_from("abc"), st.integers(1, 12), min_size=1),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 100)),
    st.integers(0, 100),
)
def test_a_wave_has_its_share_of_every_group_rounded_up(
    sizes: dict[str, int], shares: dict[str, int], percent: int
) -> None:
    members = [
        replace(member, name=f"{group}-{member.name}", group=group)
        for group, size in sizes.items()
        for member in fleet(size).values()
    ]
    chosen = Wave(name="early", percent=percent, shares=shares).select("v2", members)
    for group, size in sizes.items():
        count = sum(name.startswith(f"{group}-") for name in chosen)
        assert count == math.ceil(size * shares.get(group, percent) / 100)


@settings(max_examples=40)
@given(SIZES, SEEDS, SKEWS)
def test_a_rollout_is_complete_when_all_are_ready_and_wakes_for_each_deadline_before(
    size: int, seed: int, skew: int | str
) -> None:
    deadline = 20 * SECOND
    strategy = Strategy(max_skew=skew, progress_deadline=deadline)
    run = Simulation(fleet(size), strategy, "v2", seed=seed)
    for _ in range(60):
        before = dict(run.members)
        decision = run.step()
        changing = [
            member.change.at
            for name, member in run.members.items()
            if member.change is not None and member == before[name] and not member.is_ready
        ]
        if changing:
            assert decision.look_again == min(changing) + deadline
        done = all(each.is_ready and each.version == "v2" for each in run.members.values())
        assert decision.is_complete == done


def test_a_wave_that_selects_no_member_holds_the_rollout() -> None:
    wave = Wave(name="canary", labels={"tier": "internal"})
    decision = decide("v2", list(fleet(5).values()), Strategy(waves=(wave,)), START)
    assert not decision.changes
    assert {item.reason for item in decision.waiting.values()} == {Reason.WAVE}


def test_a_failed_canary_holds_the_other_members() -> None:
    wave = Wave(name="canary", percent=10)
    bad = frozenset({"v2"})
    strategy = Strategy(waves=(wave,), progress_deadline=20 * SECOND)
    run = Simulation(fleet(10), strategy, "v2", bad=bad)
    run.run(60)
    assert len(run.changed()) == 1


def test_a_wave_without_approval_waits_for_it() -> None:
    wave = Wave(name="canary", percent=10, approved=False)
    decision = decide("v2", list(fleet(10).values()), Strategy(waves=(wave,)), START)
    reasons = [item.reason for item in decision.waiting.values()]
    assert reasons.count(Reason.APPROVAL) == 1
    assert not decision.changes


def test_paused_rollouts_and_paused_members_do_not_change() -> None:
    members = fleet(4, failed=1)
    paused = decide("v2", list(members.values()), Strategy(paused=True), START)
    assert not paused.changes
    members["m2"] = replace(members["m2"], paused=True)
    decision = decide("v2", list(members.values()), Strategy(), START)
    assert {item.name for item in decision.changes} == {"m0", "m1", "m3"}
    assert decision.waiting["m2"].reason is Reason.MEMBER_PAUSED


@settings(max_examples=40)
@given(st.integers(2, 20), SEEDS, st.integers(10, 90))
def test_a_wave_keeps_its_size_while_members_become_unfit_and_fit_again(
    size: int, seed: int, percent: int
) -> None:
    wave = Wave(name="early", percent=percent, soak=HOUR)
    run = Simulation(fleet(size), Strategy(waves=(wave,), max_skew=1), "v2", seed=seed)
    rng = random.Random(seed)
    share = -(-size * percent // 100)
    for _ in range(size * 10):
        for name in rng.sample(sorted(run.members), 1):
            member = run.members[name]
            if member.version == "v1":
                unfit = "" if member.unfit else "it is not healthy"
                run.members[name] = replace(member, unfit=unfit)
        decision = run.step()
        assert not [item.name for item in decision.changes if run.members[item.name].unfit]
        assert len(run.changed()) <= share


def test_an_unfit_member_waits_and_reports_why() -> None:
    members = fleet(2)
    members["m0"] = replace(members["m0"], health=Health.FAILED, unfit="it is not healthy")
    decision = decide("v2", list(members.values()), Strategy(), START)
    assert [item.name for item in decision.changes] == ["m1"]
    assert decision.waiting["m0"].reason is Reason.MEMBER_UNFIT
    assert decision.waiting["m0"].message == "it is not healthy"


@settings(max_examples=40)
@given(SIZES, SEEDS, SKEWS, DELAYS, st.integers(1, 30), CRASHES)
def test_a_requested_halt_returns_exactly_what_was_changed_and_is_reversible(
    size: int, seed: int, skew: int | str, delay: int, after: int, crashes: frozenset[int]
) -> None:
    strategy = Strategy(max_skew=skew)
    run = Simulation(fleet(size), strategy, "v2", seed=seed, delay=delay)
    run.run(after, crashes=crashes)
    changed = run.changed()
    run.strategy = replace(strategy, halt="an undo was requested", on_halt=OnHalt.ROLLBACK)
    run.run(size * 14 + 70, crashes=crashes)
    restored = [item.name for item in run.assigned if item.change.kind is ChangeKind.ROLLBACK]
    assert sorted(restored) == sorted(changed)
    assert set(run.versions().values()) == {"v1"}
    assert run.most_changing <= resolve(skew, size)
    run.strategy = replace(strategy, resumed_at=run.now)
    run.run(size * 14 + 70)
    assert set(run.versions().values()) == {"v2"}


@settings(max_examples=40)
@given(st.integers(2, 16), SEEDS, st.integers(1, 15))
def test_new_members_get_the_version_of_most_others_while_a_rollout_is_halted(
    size: int, seed: int, skew: int
) -> None:
    strategy = Strategy(max_skew=min(skew, size - 1), halt_on_failures=1)
    run = Simulation(fleet(size), strategy, "v2", seed=seed, bad=frozenset({"v2"}))
    assert run.step().for_new == "v2"
    run.run(20)
    assert run.last is not None
    assert run.last.halted
    assert run.last.for_new == "v1"


ORDER = """
from ctrlruntime.rollout.strategy import in_order
print(*in_order("v2", [f"m{number}" for number in range(20)]))
"""


def test_the_order_does_not_depend_on_the_process_and_differs_between_targets() -> None:
    from ctrlruntime.rollout.strategy import in_order

    names = [f"m{number}" for number in range(20)]
    shown = {
        subprocess.run(
            [sys.executable, "-c", ORDER],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()[0]
        for seed in ("1", "2")
    }
    assert shown == {in_order("v2", reversed(names))[0]}
    assert in_order("v2", names) != in_order("v3", names)
