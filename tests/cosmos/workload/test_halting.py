"""Failed Pods halt a rollout, and what had failed before is fixed whatever the budget is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctrlruntime.cache.entry import Entry
from internal.cosmos.workload.halting import HaltRules, remaining_fixes
from internal.cosmos.workload.plan import Plan, plan
from internal.cosmos.workload.probe import Health
from tests.resources.ordinal_factories import differences, existing, pod

pytestmark = pytest.mark.criterion("RO-COSMOS")

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
WELL = Health(True, True)
DOWN = Health(False, False, "connection refused")
CATCHING_UP = Health(False, True, "catching up")
NOT_ASKED = Health(False, False, "not asked yet", known=False)
OLD, NEW = "app:1", "app:2"
PULLING = {"containerStatuses": [{"name": "app", "state": {"waiting": {"reason": "ErrImagePull"}}}]}
INITIALISING = {"initContainerStatuses": [{"name": "get", "state": {"running": {}}}]}


def crashed(seconds: float, restarts: int = 2) -> dict[str, Any]:
    at = (NOW - timedelta(seconds=seconds)).isoformat()
    last = {"terminated": {"exitCode": 1, "finishedAt": at}}
    one = {"name": "app", "restartCount": restarts, "state": {"running": {}}, "lastState": last}
    return {"containerStatuses": [one]}


def there(
    number: int, image: str = OLD, age: float = 3600, status: Mapping[str, Any] | None = None
) -> Entry:
    at = (NOW - timedelta(seconds=age)).isoformat()
    return existing(pod(number, image), creationTimestamp=at, status=dict(status or {}))


def planned(
    entries: Iterable[Entry],
    health: Mapping[str, Health] | None = None,
    *,
    limit: int | str | None = 1,
    max_unavailable: int = 4,
    fixes: Iterable[str] = (),
    held: str = "",
) -> Plan:
    """The plan for 8 Pods of the image NEW."""
    found = list(entries)
    rules = None if limit is None else HaltRules(limit=limit, now=NOW, fixes=frozenset(fixes))
    return plan(
        differences([pod(number, NEW) for number in range(8)], found),
        found,
        {entry.name: WELL for entry in found} | dict(health or {}),
        replicas=8,
        max_unavailable=max_unavailable,
        held=held,
        rules=rules,
    )


def replaced(made: Plan) -> list[str]:
    return sorted(update.entry.name for update in made.replacements)


OTHERS = [there(number) for number in range(2, 8)]


@pytest.mark.parametrize(
    ("status", "health", "age", "failed"),
    [
        ({}, DOWN, 599, False),
        ({}, DOWN, 601, True),
        ({}, WELL, 601, False),
        ({}, CATCHING_UP, 90_000, False),
        (PULLING, DOWN, 5, True),
        (INITIALISING, DOWN, 90_000, False),
        (crashed(30), WELL, 60, True),
        (crashed(30), WELL, 90_000, True),
        (crashed(30, restarts=1), WELL, 60, False),
        (crashed(601), WELL, 700, False),
    ],
    ids=[
        "in time",
        "too late",
        "works",
        "catches up",
        "no image",
        "fills its disk",
        "keeps ending",
        "has ended for a day",
        "ended once",
        "ended long ago",
    ],
)
def test_a_pod_fails_by_its_deadline_or_by_its_containers(
    status: Mapping[str, Any], health: Health, age: float, failed: bool
) -> None:
    entries = [there(0, NEW, age, status), there(1, NEW), *OTHERS]
    made = planned(entries, {"set-0": health})
    assert made.halting.failed == (("set-0",) if failed else ())
    assert bool(made.halting.halted) == failed
    assert bool(made.replacements) != failed
    if failed:
        assert made.blocked == "the rollout is halted, 1 member failed: set-0"


@pytest.mark.parametrize(
    ("limit", "halted"), [(None, False), (2, True), (3, False), ("25%", True), ("50%", False)]
)
def test_a_rollout_halts_at_the_limit(limit: int | str | None, halted: bool) -> None:
    entries = [there(0, NEW, 5, PULLING), there(1, NEW, 5, PULLING), *OTHERS]
    made = planned(entries, dict.fromkeys(["set-0", "set-1"], DOWN), limit=limit)
    assert replaced(made) == ([] if halted else ["set-2", "set-3"])
    assert bool(made.halting.halted) == halted


def test_a_halt_holds_what_is_down_and_outdated_too() -> None:
    entries = [there(0, NEW, 5, PULLING), there(1, NEW), *OTHERS]
    made = planned(entries, {"set-0": DOWN, "set-5": DOWN})
    assert replaced(made) == []
    made = planned(entries, {"set-0": DOWN, "set-5": DOWN}, limit=2)
    assert replaced(made)[-1] == "set-5"


def test_other_content_ends_the_halt_and_reaches_the_failed_pods_first() -> None:
    entries = [there(0, "app:bad", 700, PULLING), there(1, "app:bad", 700, PULLING), *OTHERS]
    made = planned(entries, dict.fromkeys(["set-0", "set-1"], DOWN), max_unavailable=1)
    assert made.halting.halted == ""
    assert replaced(made) == ["set-0", "set-1"], "two at once, where one may be down"
    assert made.fixes == {"set-0", "set-1"}


def test_a_fix_is_made_while_another_pod_that_is_down_takes_the_budget() -> None:
    entries = [there(0, NEW, 5), there(1, OLD, 700, PULLING), *OTHERS]
    made = planned(entries, {"set-0": DOWN, "set-1": DOWN}, max_unavailable=1)
    assert replaced(made) == ["set-1"]
    made = planned(entries, {"set-0": DOWN, "set-1": DOWN}, max_unavailable=1, limit=None)
    assert replaced(made) == ["set-1"], "without halt rules too"


def test_pods_that_only_the_manager_cannot_reach_stay_within_the_budget() -> None:
    entries = [there(number) for number in range(8)]
    health = {entry.name: DOWN for entry in entries}
    assert len(planned(entries, health, max_unavailable=2).replacements) == 2


def test_a_fix_that_fails_is_no_failure_of_the_change() -> None:
    entries = [there(0, NEW, 700, PULLING), there(1, NEW), *OTHERS]
    made = planned(entries, {"set-0": DOWN}, fixes=["set-0"])
    assert (made.halting.failed, made.halting.halted) == ((), "")
    assert replaced(made) == ["set-2", "set-3", "set-4"]


def test_a_pod_that_fails_in_time_keeps_its_slot_and_is_no_fix() -> None:
    entries = [there(0, "app:bad", 20, PULLING), there(1, NEW), *OTHERS]
    made = planned(entries, {"set-0": DOWN})
    assert "set-0" in replaced(made)
    assert made.fixes == set()


def test_after_a_restart_nothing_is_replaced_until_the_changed_pods_are_polled() -> None:
    entries = [there(0, NEW), there(1, NEW), *OTHERS]
    made = planned(entries, {"set-0": NOT_ASKED})
    assert replaced(made) == []
    assert made.blocked.startswith("set-0 has not been polled yet")
    assert made.halting.halted == ""
    assert replaced(planned(entries, {"set-0": NOT_ASKED}, limit=None)) != []
    young = [there(0, NEW, 5), there(1, NEW), *OTHERS]
    assert replaced(planned(young, {"set-0": NOT_ASKED})) != []


def test_a_freeze_still_lets_fixes_through_and_a_halt_does_not() -> None:
    entries = [there(0, NEW), there(1, OLD, 700, PULLING), *OTHERS]
    made = planned(entries, {"set-1": DOWN}, held="frozen")
    assert (replaced(made), len(made.frozen), made.blocked) == (["set-1"], 6, "frozen")
    failed = [there(0, NEW, 700, PULLING), *entries[1:]]
    made = planned(failed, {"set-0": DOWN, "set-1": DOWN}, held="frozen")
    assert (replaced(made), len(made.frozen), made.blocked) == ([], 7, "frozen")


def test_a_recorded_fix_is_forgotten_once_its_pod_works() -> None:
    rules = HaltRules(limit=1, now=NOW, fixes=["set-0", "set-1", "set-2", "set-3", "set-9"])
    names = [f"set-{number}" for number in range(8)]
    health = {"set-0": WELL, "set-1": DOWN, "set-2": WELL}
    kept = remaining_fixes(rules, names, {"set-2"}, health)
    assert kept == {"set-1", "set-2", "set-3"}
    assert remaining_fixes(None, names, (), health) == frozenset()


STATES = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from([WELL, DOWN, CATCHING_UP, NOT_ASKED]),
        st.sampled_from([{}, PULLING, INITIALISING, crashed(30)]),
        st.sampled_from([5.0, 700.0]),
    ),
    min_size=8,
    max_size=8,
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STATES, st.integers(1, 4), st.integers(1, 9))
def test_no_pod_is_replaced_while_as_many_failed_as_the_limit(
    states: list[tuple[bool, Health, dict[str, Any], float]], limit: int, most_down: int
) -> None:
    entries = [
        there(number, OLD if old else NEW, age, status)
        for number, (old, _, status, age) in enumerate(states)
    ]
    health = {entry.name: said for entry, (_, said, _, _) in zip(entries, states, strict=True)}
    made = planned(entries, health, limit=limit, max_unavailable=most_down)
    free = planned(entries, health, limit=None, max_unavailable=most_down)
    sure = [  # failed by any reading of the rules
        entry.name
        for entry, (old, said, status, age) in zip(entries, states, strict=True)
        if not old and (status == PULLING or (said is DOWN and age > 600 and status == {}))
    ]
    if len(sure) >= limit:
        assert not made.replacements
    assert set(sure) <= set(made.halting.failed)
    assert set(replaced(made)) <= set(replaced(free)), "rules only ever hold"
    stuck = {
        entry.name
        for entry, (old, said, status, _) in zip(entries, states, strict=True)
        if old and said.known and not said.available and status == PULLING
    }
    everything = {name for name, said in health.items() if said.available} == set()
    if not everything:
        assert stuck <= set(replaced(free)), "a fix takes no budget"
