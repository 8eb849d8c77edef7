"""Bulk upgrades: who gets a version at which stage."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apis.cloud import Instance
from internal.cloud.waves import MONTHLY, PATCH, TYPES, is_newer, plan


def instance(name: str, kind: str, version: str = "5.1.0", **more: Any) -> Instance:
    metadata = {"name": name, "namespace": "default", "labels": {"instance-type": kind}}
    annotations = more.pop("annotations", {})
    return Instance.from_manifest(
        {
            "metadata": {**metadata, "annotations": annotations},
            "spec": {"sourcegraphVersion": version, **more},
        }
    )


def fleet(size: int, version: str = "5.1.0") -> list[Instance]:
    return [
        instance(f"src-{kind}-{number}", kind, version) for kind in TYPES for number in range(size)
    ]


def at(stage: int, instances: list[Instance], to: str = "5.2.0") -> list[str]:
    wave = plan(instances, to, MONTHLY[stage - 1].percent)
    return [item.metadata.name or "" for item in wave.upgrade]


@pytest.mark.criterion("SG-73")
def test_the_public_stages_of_a_release() -> None:
    counts = [plan(fleet(20), "5.2.0", stage.percent).counts for stage in MONTHLY]
    assert [each["internal"] for each in counts] == [(20, 20)] * 5
    assert [each["trial"][0] for each in counts] == [0, 0, 6, 20, 20]
    assert [each["production"][0] for each in counts] == [0, 0, 2, 8, 20]
    patches = [plan(fleet(20), "5.2.1", stage.percent).counts for stage in PATCH]
    assert [each["production"][0] for each in patches] == [0, 2, 8, 20]


@pytest.mark.criterion("SG-73")
@settings(deadline=None, max_examples=20)
@given(st.integers(0, 30), st.randoms(use_true_random=False))
def test_a_stage_contains_the_ones_before_whatever_the_order(size: int, order: Any) -> None:
    instances = fleet(size)
    before: set[str] = set()
    for stage in range(1, len(MONTHLY) + 1):
        shuffled = list(instances)
        order.shuffle(shuffled)
        chosen = at(stage, shuffled)
        assert chosen == at(stage, instances)
        assert before <= set(chosen)
        before = set(chosen)
    assert len(before) == len(instances)


@pytest.mark.criterion("SG-73")
def test_a_new_patch_restarts_at_an_earlier_stage() -> None:
    instances = fleet(10)
    third = set(at(3, instances))
    for item in instances:
        if item.metadata.name in third:
            item.spec.sourcegraph_version = "5.2.0"
    assert at(3, instances) == []  # the same stage again does nothing
    again = at(1, instances, to="5.2.1")
    assert again == sorted(again)
    assert {name.rsplit("-", 1)[0] for name in again} == {"src-internal"}
    assert set(at(3, instances, to="5.2.1")) == third


@pytest.mark.criterion("SG-71")
def test_who_is_passed_by() -> None:
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


def test_newer() -> None:
    assert is_newer("5.10.0", "5.9.9")
    assert not is_newer("5.2.0", "5.2.0")
    assert not is_newer("insiders", "5.2.0")
