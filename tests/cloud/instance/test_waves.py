"""Bulk upgrades: who gets a version at which harness."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apis.cloud import Instance
from ctrlruntime.rollout import Change, ChangeKind
from internal.cloud.bulk import MONTHLY, PATCH, TYPES, is_newer, plan
from internal.cloud.release_assignment import ReleaseAssignment, format_assignment


def instance(name: str, kind: str, version: str = "5.1.0", **more: object) -> Instance:
    metadata = {"name": name, "namespace": "default", "labels": {"instance-type": kind}}
    annotations, ready = more.pop("annotations", {}), more.pop("ready", "True")
    condition = {
        "type": "Ready",
        "status": ready,
        "reason": "Test",
        "message": "",
        "lastTransitionTime": "2026-03-01T12:00:00Z",
    }
    return Instance.from_manifest(
        {
            "metadata": {**metadata, "annotations": annotations, "generation": 1},
            "spec": {"version": version, **more},
            "status": {
                "observedGeneration": 1,
                "conditions": [condition],
                "phase": "Ready" if ready == "True" else "Failed",
            },
        }
    )


def fleet(size: int, version: str = "5.1.0") -> list[Instance]:
    return [
        instance(f"src-{kind}-{number}", kind, version) for kind in TYPES for number in range(size)
    ]


def at(harness: int, instances: list[Instance], to: str = "5.2.0") -> list[str]:
    wave = plan(instances, to, MONTHLY[harness - 1].percent)
    return [item.metadata.name or "" for item in wave.upgrade]


@pytest.mark.criterion("SG-73")
def test_the_public_stages_of_a_release() -> None:
    counts = [plan(fleet(20), "5.2.0", harness.percent).counts for harness in MONTHLY]
    assert [each["internal"] for each in counts] == [(20, 20)] * 5
    assert [each["trial"][0] for each in counts] == [0, 0, 6, 20, 20]
    assert [each["production"][0] for each in counts] == [0, 0, 2, 8, 20]
    patches = [plan(fleet(20), "5.2.1", harness.percent).counts for harness in PATCH]
    assert [each["production"][0] for each in patches] == [0, 2, 8, 20]


@pytest.mark.criterion("SG-73")
@settings(deadline=None, max_examples=20)
@given(st.integers(0, 30), st.randoms(use_true_random=False))
def test_a_stage_contains_the_ones_before_whatever_the_order(
    size: int, order: random.Random
) -> None:
    instances = fleet(size)
    before: set[str] = set()
    for harness in range(1, len(MONTHLY) + 1):
        shuffled = list(instances)
        order.shuffle(shuffled)
        chosen = at(harness, shuffled)
        assert chosen == at(harness, instances)
        assert before <= set(chosen)
        before = set(chosen)
    assert len(before) == len(instances)


@pytest.mark.criterion("SG-73")
def test_a_new_patch_restarts_at_an_earlier_stage() -> None:
    instances = fleet(10)
    third = set(at(3, instances))
    for item in instances:
        if item.metadata.name in third:
            item.spec.version = "5.2.0"
    assert at(3, instances) == []  # the same harness again does nothing
    again = at(1, instances, to="5.2.1")
    assert again == sorted(again)
    assert {name.rsplit("-", 1)[0] for name in again} == {"src-internal"}
    assert len(at(3, instances, to="5.2.1")) == len(third)


@pytest.mark.criterion("H-B7")
def test_h_b7_each_version_draws_its_own_canaries() -> None:
    drawn = [tuple(at(3, fleet(40), to=f"5.{minor}.0")) for minor in range(2, 12)]
    canaries = [{name for name in names if "internal" not in name} for names in drawn]
    assert all(len(names) == 12 + 4 for names in canaries)
    assert not set.intersection(*canaries), "nobody is the first of every release"
    assert drawn[0] == tuple(at(3, fleet(40), to="5.2.0")), "the same command draws the same"


@pytest.mark.criterion("H-B7")
def test_h_b7_canaries_are_healthy_and_not_paused() -> None:
    ill = [instance(f"ill-{n}", "production", ready="False") for n in range(5)]
    paused = [
        instance(f"paused-{n}", "production", annotations={f"{domain}/paused": "true"})
        for n, domain in enumerate(("cloud.ctrlruntime.dev", "ctrlruntime.dev"))
    ]
    stale = instance("stale", "production")
    stale.metadata.generation = 2
    well = [instance(f"well-{n}", "production") for n in range(2)]
    wave = plan([*ill, *paused, stale, *well], "5.2.0", {"production": 10})
    assert {item.metadata.name for item in wave.upgrade} <= {"well-0", "well-1"}
    assert wave.counts == {"production": (1, 10)}
    everybody = plan([*ill, *paused, stale, *well], "5.2.0", {"production": 100})
    assert [item.metadata.name for item in everybody.upgrade] == ["well-0", "well-1"]
    reasons = {item.name.rpartition("/")[2]: item.reason for item in everybody.passed}
    assert reasons["ill-0"] == "it is not healthy, its phase is Failed"
    assert reasons["paused-1"] == "it is paused by the annotation ctrlruntime.dev/paused"
    assert "not healthy" in reasons["stale"]
    fixing = plan([*ill, *paused], "5.2.0", {"production": 100}, unhealthy=True)
    assert len(fixing.upgrade) == len(ill)


@pytest.mark.criterion("H-B7")
def test_h_b7_those_that_have_the_version_count_first_whatever_their_state() -> None:
    """The second call of a harness draws nobody else while the first canary is upgraded."""
    fleet_now = [instance(f"src-{n}", "production") for n in range(10)]
    [canary] = plan(fleet_now, "5.2.0", {"production": 10}).upgrade
    canary.spec.version = "5.2.0"
    canary.metadata.generation = 2
    again = plan(fleet_now, "5.2.0", {"production": 10})
    assert again.upgrade == []
    assert again.counts == {"production": (1, 10)}


@pytest.mark.criterion("H-B7")
@given(
    st.lists(
        st.tuples(
            st.sampled_from([*TYPES, "unheard-of"]),
            st.sampled_from(["5.1.0", "5.2.0", "6.0.0"]),
            st.sampled_from(["True", "False"]),
            st.sampled_from(["stable", "insiders", "pause"]),
        ),
        max_size=12,
    ),
    st.integers(0, 100),
    st.booleans(),
)
def test_h_b7_every_instance_is_in_the_result_once(
    drawn: list[tuple[str, str, str, str]], percent: int, unhealthy: bool
) -> None:
    """Those that have the version already, too."""
    instances = [
        instance(f"src-{n}", kind, version, ready=ready, releaseChannel=channel)
        for n, (kind, version, ready, channel) in enumerate(drawn)
    ]
    wave = plan(instances, "5.2.0", dict.fromkeys(TYPES, percent), unhealthy=unhealthy)
    listed = [f"default/{item.metadata.name}" for item in wave.upgrade]
    listed += [item.name for item in wave.passed]
    assert sorted(listed) == sorted(f"default/{item.metadata.name}" for item in instances)
    there = {item.name for item in wave.passed if item.reason == "it has 5.2.0 already"}
    assert all(
        f"default/{item.metadata.name}" in there
        for item in instances
        if item.spec.wanted_version == "5.2.0"
        and item.spec.release_channel == "stable"
        and (item.metadata.labels or {})["instance-type"] in TYPES
    )


@pytest.mark.criterion("SG-71")
def test_which_instances_are_skipped() -> None:
    instances = [
        instance("a", "internal", releaseChannel="insiders"),
        instance("b", "internal", releaseChannel="pause"),
        instance(
            "c", "internal", annotations={"cloud.ctrlruntime.dev/control-plane-mode": "false"}
        ),
        instance("d", "internal", "6.0.0"),
        instance("e", "unheard-of"),
        instance("f", "internal"),
    ]
    wave = plan(instances, "5.2.0", MONTHLY[-1].percent)
    assert [item.metadata.name for item in wave.upgrade] == ["f"]
    reasons = {item.name.rpartition("/")[2]: item.reason for item in wave.passed}
    assert "insiders" in reasons["a"]
    assert "pause" in reasons["b"]
    assert "out of management" in reasons["c"]
    assert "newer" in reasons["d"]
    assert "instance-type" in reasons["e"]


ORDER = ("5.1.9", "5.2.0-rc.1", "5.2.0", "5.3.0-rc.1", "5.3.0-rc.2", "5.3.0-rc.10", "5.3.0", "5.10")


@pytest.mark.criterion("H-B7")
@pytest.mark.parametrize("prefix", ["", "v"])
def test_h_b7_versions_are_ordered_as_semver_defines(prefix: str) -> None:
    for number, version in enumerate(ORDER):
        for other in ORDER[: number + 1]:
            assert is_newer(prefix + version, other) is (version != other)
            assert not is_newer(other, version)


def test_what_is_no_version_is_never_newer() -> None:
    assert not is_newer("insiders", "5.2.0")
    assert not is_newer("5.2.0", "insiders")


@pytest.mark.criterion("H-B7")
@pytest.mark.parametrize(
    ("to", "reason", "has"),
    [
        ("5.1.5", "it has 5.2.0, which is newer", 0),
        ("5.2.0", "it has 5.2.0 already", 1),
        ("5.3.0", "", 1),
    ],
)
def test_a_version_that_a_rollout_assigned_counts_in_place_of_the_specs(
    to: str, reason: str, has: int
) -> None:
    assignment = ReleaseAssignment(
        rollout="monthly",
        version="5.2.0",
        spec_version="5.1.0",
        change=Change(ChangeKind.ROLLOUT, datetime(2026, 3, 1, tzinfo=UTC), "5.1.0"),
    )
    found = instance("src-1", "internal")
    found.status.release_assignment = format_assignment(assignment)
    made = plan([found], to, {"internal": 100})
    assert [each.reason for each in made.passed] == ([reason] if reason else [])
    assert made.counts.get("internal", (0, 0))[0] == has
    assert len(made.upgrade) == (to == "5.3.0")
