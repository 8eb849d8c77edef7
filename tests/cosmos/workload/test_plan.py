"""What a pass does about numbered Pods: scale first, then update within the budget."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctrlruntime.cache.entry import Entry
from ctrlruntime.resources import Desired, Owner
from internal.cosmos.workload.plan import Plan, plan
from internal.cosmos.workload.probe import Health
from internal.cosmos.workload.rollout import MaxUnavailable, tolerated
from tests.resources.ordinal_factories import OWNER, differences, existing, pod

WELL = Health(True, True)
DOWN = Health(False, False, "connection refused")
STARTING = Health(False, True, "catching up")
GOING: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def planned(
    desired: Iterable[Desired],
    entries: Iterable[Entry],
    health: Mapping[str, Health] | None = None,
    *,
    replicas: int = 4,
    max_unavailable: MaxUnavailable = 1,
    paused: Iterable[str] = (),
    urgent: Iterable[str] = (),
    kept: Mapping[str, str] | None = None,
) -> Plan:
    there = list(entries)
    return plan(
        differences(desired, there),
        there,
        {entry.name: WELL for entry in there} | dict(health or {}),
        replicas=replicas,
        max_unavailable=max_unavailable,
        urgent=lambda update: update.entry.name in set(urgent),
        paused=frozenset(paused),
        kept=kept or {},
    )


def pods(*numbers: int, image: str = "app:1") -> list[Desired]:
    return [pod(number, image) for number in numbers]


def there(*numbers: int, image: str = "app:1") -> list[Entry]:
    return [existing(item) for item in pods(*numbers, image=image)]


def replaced(made: Plan) -> list[str]:
    return [update.entry.name for update in made.replacements]


NEW = pods(0, 1, 2, 3, image="app:2")


class TestScale:
    @pytest.mark.criterion("COSMOS-A2-16")
    def test_comes_before_updates(self) -> None:
        made = planned(pods(0, 1, 2, image="app:2"), there(0, 1, 7, 12), replicas=3)
        assert [item.name for item in made.creates] == ["set-2"]
        assert not made.deletes, "those that are to be made count as down"
        assert not replaced(made)
        assert made.outdated == 2
        assert "first" in made.blocked
        made = planned(pods(0, 1, 2, image="app:2"), there(0, 1, 2, 7, 12), replicas=3)
        assert [entry.name for entry in made.deletes] == ["set-12"]
        assert not replaced(made)
        assert (made.outdated, "first" in made.blocked) == (3, True)

    @pytest.mark.criterion("COSMOS-A2-16")
    def test_down_comes_before_updates_too(self) -> None:
        made = planned(pods(0, 1, image="app:2"), there(0, 1, 2), replicas=2)
        assert [entry.name for entry in made.deletes] == ["set-2"]
        assert not replaced(made)

    @pytest.mark.criterion("G-N1")
    @pytest.mark.parametrize("health", [WELL, DOWN])
    @pytest.mark.parametrize(
        ("limit", "gone"),
        [(1, ["set-3"]), (3, ["set-3", "set-2", "set-1"]), ("50%", ["set-3", "set-2"])],
    )
    def test_takes_down_whatever_is_too_much_within_the_budget(
        self, health: Health, limit: MaxUnavailable, gone: list[str]
    ) -> None:
        names = [f"set-{number}" for number in range(4)]
        said = dict.fromkeys(names, health)
        made = planned([], there(0, 1, 2, 3), said, replicas=0, max_unavailable=limit)
        assert [entry.name for entry in made.deletes] == gone
        assert not made.blocked

    @pytest.mark.criterion("G-N1")
    def test_down_waits_for_those_that_are_on_their_way_out(self) -> None:
        entries = [*there(0, 1, 2), existing(pod(3), **GOING)]
        wanted = pods(0, 1, image="app:2")
        made = plan(
            differences(wanted, entries),
            entries,
            {entry.name: WELL for entry in entries},
            replicas=2,
            max_unavailable=1,
            going=1,
        )
        assert (list(made.deletes), replaced(made)) == ([], [])
        assert [entry.name for entry in made.waiting] == ["set-2"]
        assert made.blocked

    @pytest.mark.criterion("G-N1")
    def test_of_other_numbers_keeps_the_old_until_the_new_work(self) -> None:
        entries = there(0, 1, 2, 10, 11, 12)
        for state in (STARTING, DOWN):
            new = {f"set-{number}": state for number in (10, 11, 12)}
            for count in range(4):
                said = {**new, **{f"set-{10 + number}": WELL for number in range(count)}}
                made = planned(pods(10, 11, 12), entries, said, replicas=3)
                gone = [entry.name for entry in made.deletes]
                assert gone == (["set-2"] if count == 3 else [])

    @pytest.mark.criterion("G-N1")
    def test_of_other_numbers_lets_the_new_be_corrected_while_the_old_stay(self) -> None:
        new = dict.fromkeys(["set-10", "set-11"], DOWN)
        fixed = pods(10, 11, image="app:2")
        made = planned(fixed, there(0, 1, 10, 11), new, replicas=2, max_unavailable=1)
        assert (list(made.deletes), replaced(made)) == ([], ["set-10"])

    @pytest.mark.criterion("G-N4")
    @pytest.mark.parametrize("health", [WELL, DOWN])
    def test_down_keeps_a_pod_whose_disk_would_go_with_it(self, health: Health) -> None:
        """It counts as one that is not wanted: others go, and are replaced, as if it were away."""
        kept, found = {"set-3": "its disk goes with it"}, {"set-3": health}
        made = planned(pods(0, 1), there(0, 1, 2, 3), found, replicas=2, kept=kept)
        assert [entry.name for entry in made.deletes] == ["set-2"]
        made = planned(pods(0, 1), there(0, 1, 3), found, replicas=2, kept=kept)
        assert (made.takes_down, made.blocked) == (False, kept["set-3"])
        wanted = [pod(each, "app:2") for each in (0, 1)]
        assert replaced(planned(wanted, there(0, 1, 3), found, replicas=2, kept=kept)) == ["set-0"]

    def test_does_not_make_anew_what_is_still_going(self) -> None:
        made = planned(pods(0), [existing(pod(0), **GOING)], replicas=1)
        assert made == Plan(budget=0)


class TestUpdate:
    def test_takes_as_many_as_the_budget_has(self) -> None:
        made = planned(NEW, there(0, 1, 2, 3), max_unavailable="50%")
        assert (replaced(made), made.budget, made.outdated) == (["set-0", "set-1"], 2, 4)
        assert not made.blocked

    def test_waits_for_those_that_do_not_work(self) -> None:
        entries = [*there(0, image="app:2"), *there(1, 2, 3)]
        made = planned(NEW, entries, {"set-0": STARTING})
        assert (replaced(made), made.budget, made.outdated) == ([], 0, 3)
        assert made.blocked == (
            "1 of 4 Pods do not work, and no more than 1 may; set-0: catching up"
        )

    @pytest.mark.criterion("COSMOS-A2-18")
    def test_counts_those_being_deleted_and_those_missing_as_down(self) -> None:
        entries = [existing(pod(0), **GOING), *there(1, 2, 3)]
        made = planned(NEW, entries, max_unavailable=2)
        assert (replaced(made), made.budget) == (["set-1"], 1)
        made = planned(NEW, entries, max_unavailable=1)
        assert (replaced(made), made.budget) == ([], 0)
        assert made.blocked.endswith("some are missing")

    @pytest.mark.criterion("COSMOS-A2-21")
    def test_takes_urgent_ones_first(self) -> None:
        made = planned(NEW, there(0, 1, 2, 3), urgent=["set-2"])
        assert replaced(made) == ["set-2"]

    @pytest.mark.criterion("COSMOS-A2-20")
    def test_takes_those_that_are_down_first_and_they_cost_nothing(self) -> None:
        made = planned(NEW, there(0, 1, 2, 3), {"set-3": DOWN})
        assert (replaced(made), made.budget) == (["set-3"], 0)

    def test_is_not_stuck_behind_pods_that_the_change_would_mend(self) -> None:
        """All are down, more than may be: no budget is left, and yet they have to be replaced."""
        down = {f"set-{number}": DOWN for number in range(4)}
        made = planned(NEW, there(0, 1, 2, 3), down, max_unavailable=2, urgent=["set-1"])
        assert (replaced(made), made.budget) == (["set-1", "set-0"], 0)

    @pytest.mark.criterion("COSMOS-A2-20")
    def test_of_pods_that_are_down_stays_within_the_limit(self) -> None:
        """Even if all are down: a look that is wrong must not take all of them away at once."""
        down = {f"set-{number}": DOWN for number in range(4)}
        entries = [*there(0, image="app:2"), *there(1, 2, 3)]
        assert not replaced(planned(NEW, entries, down, max_unavailable=1))
        assert replaced(planned(NEW, entries, down, max_unavailable=2)) == ["set-1"]
        entries = [existing(pod(0), **GOING), *there(1, 2, 3)]
        assert not replaced(planned(NEW, entries, down, max_unavailable=1))

    @pytest.mark.criterion("COSMOS-A2-19")
    def test_goes_on_with_those_that_answer_where_none_works(self) -> None:
        """The workload is down anyway: those replaced need not work before the others follow."""
        health = {f"set-{number}": DOWN for number in range(4)} | {"set-0": STARTING}
        entries = [*there(0, image="app:2"), *there(1, 2, 3)]
        assert replaced(planned(NEW, entries, health)) == ["set-1"]

    @pytest.mark.criterion("D5-9")
    def test_does_not_touch_pods_not_polled_yet(self) -> None:
        made = plan(
            differences(NEW, there(0, 1, 2, 3)),
            there(0, 1, 2, 3),
            {"set-0": WELL, "set-1": WELL, "set-2": STARTING},
            replicas=4,
            max_unavailable=2,
        )
        assert (replaced(made), made.budget) == (["set-2"], 0)
        made = plan(
            differences(NEW, there(0, 1, 2, 3)),
            there(0, 1, 2, 3),
            {"set-2": STARTING},
            replicas=4,
            max_unavailable=2,
        )
        assert replaced(made) == ["set-2"], "that it answers does not count: others may well work"

    def test_fixes_in_place_what_was_changed_by_hand(self) -> None:
        lost = existing(pod(0), managedFields=[])
        made = planned(pods(0, 1), [lost, *there(1)], replicas=2)
        assert [update.entry.name for update in made.repairs] == ["set-0"]
        assert not replaced(made)
        assert not made.outdated

    def test_keeps_pods_restored_from_a_backup_if_they_are_as_wanted(self) -> None:
        former = Owner(gvk=OWNER.gvk, namespace="default", name="set", uid="former")
        entries = [existing(item, owner=former, ownerReferences=[]) for item in pods(0, 1)]
        made = planned([pod(0), pod(1, "app:2")], entries, replicas=2)
        assert [update.entry.name for update in made.repairs] == ["set-0"]
        assert replaced(made) == ["set-1"]


class TestPause:
    WANTED = pods(0, 1, 3)

    def test_takes_a_pod_away_within_the_budget(self) -> None:
        made = planned(self.WANTED, there(0, 1, 2, 3), paused=["set-2"])
        assert [entry.name for entry in made.pauses] == ["set-2"]
        assert not made.deletes

    def test_waits_while_others_are_down(self) -> None:
        made = planned(self.WANTED, there(0, 1, 2, 3), {"set-0": STARTING}, paused=["set-2"])
        assert not made.pauses
        assert [entry.name for entry in made.waiting] == ["set-2"]
        assert "set-0: catching up" in made.blocked

    def test_of_a_pod_that_is_down_costs_nothing(self) -> None:
        made = planned(
            self.WANTED, there(0, 1, 2, 3), {"set-0": DOWN, "set-2": DOWN}, paused=["set-2"]
        )
        assert [entry.name for entry in made.pauses] == ["set-2"]

    def test_goes_before_an_update_and_counts_while_it_lasts(self) -> None:
        wanted = pods(0, 1, 3, image="app:2")
        made = planned(wanted, there(0, 1, 2, 3), paused=["set-2"], max_unavailable=2)
        assert [entry.name for entry in made.pauses] == ["set-2"]
        assert not replaced(made)
        made = planned(wanted, there(0, 1, 3), paused=["set-2"], max_unavailable=2)
        assert replaced(made) == ["set-0"]
        assert not replaced(planned(wanted, there(0, 1, 3), paused=["set-2"]))

    def test_that_waits_holds_an_update_up_but_not_what_mends(self) -> None:
        wanted = pods(0, 1, 3, image="app:2")
        health = {"set-0": DOWN}
        made = planned(wanted, there(0, 1, 2, 3), health, paused=["set-2"])
        assert replaced(made) == ["set-0"]
        assert not made.pauses


STATES = st.lists(
    st.tuples(
        st.booleans(),  # outdated
        st.sampled_from([WELL, STARTING, DOWN, Health(False, False, known=False)]),
        st.sampled_from(["there", "there", "there", "going", "missing"]),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.criterion("A2.7-rollout", "COSMOS-A2-18")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STATES, st.integers(1, 14), st.sets(st.integers(0, 11), max_size=1))
def test_no_plan_takes_more_down_than_may_be(
    states: list[tuple[bool, Health, str]], limit: int, away: set[int]
) -> None:
    entries, health, wanted = [], {}, []
    for number, (old, said, state) in enumerate(states):
        if number not in away:
            wanted.append(pod(number, "app:2"))
        if state != "missing":
            more = GOING if state == "going" else {}
            entries.append(existing(pod(number, "app:1" if old else "app:2"), **more))
            health[f"set-{number}"] = said
    replicas = len(states)
    paused = [f"set-{number}" for number in away if number < replicas]
    made = planned(wanted, entries, health, replicas=replicas, max_unavailable=limit, paused=paused)
    works = {
        entry.name
        for entry in entries
        if entry.deletion_timestamp is None and health[entry.name].available
    }
    taken = {*replaced(made), *(entry.name for entry in made.pauses)}
    if taken & works:
        assert replicas - len(works - taken) <= tolerated(limit, replicas)
    assert len(made.replacements) <= tolerated(limit, replicas)
    assert not (made.replacements and (made.creates or made.deletes or made.pauses))
    assert not any(not health[name].known for name in taken)
    assert bool(made.blocked) == bool((made.outdated or made.waiting) and not made.replacements)
