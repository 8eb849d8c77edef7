"""The parts of the simulated nodes that touch no server."""

from __future__ import annotations

import base64
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlruntime.envtest.nodes.auxiliary_controllers import needed_healthy, selector_text
from ctrlruntime.envtest.nodes.containers import CannotStart, command_of, expand, references
from ctrlruntime.envtest.nodes.deployments import Scale, limits, plan
from ctrlruntime.envtest.nodes.podshape import random_suffix, template_hash
from ctrlruntime.envtest.nodes.status import condition, conditions, difference

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}


@pytest.mark.parametrize(
    ("surge", "unavailable", "replicas", "result"),
    [("25%", "25%", 10, (3, 2)), (1, 0, 3, (1, 0)), (0, 0, 3, (0, 1)), ("0%", "10%", 3, (0, 1)),
     (1, 5, 2, (1, 2))],
)  # fmt: skip
def test_surge_rounds_up_and_unavailable_down(
    surge: object, unavailable: object, replicas: int, result: tuple[int, int]
) -> None:
    strategy = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    assert limits(strategy, replicas) == result


@settings(max_examples=200)
@given(
    replicas=st.integers(0, 12),
    old=st.lists(st.integers(0, 8), max_size=3),
    surge=st.integers(0, 4),
    unavailable=st.integers(0, 4),
    seed=st.integers(0, 1000),
)
def test_a_rollout_keeps_its_limits_and_ends(
    replicas: int, old: list[int], surge: int, unavailable: int, seed: int
) -> None:
    strategy = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    most, fewest = limits(strategy, replicas)
    wanted = {f"old{i}": count for i, count in enumerate(old)} | {"new": 0}
    available = dict(wanted.items())
    dice = random.Random(seed)
    for _ in range(200):
        scales = {
            n: Scale(name=n, wanted=wanted[n], exists=wanted[n], available=available[n])
            for n in wanted
        }
        new = scales.pop("new")
        total, ready = sum(wanted.values()), sum(available.values())
        sizes = plan(replicas, strategy, new, list(scales.values()))
        wanted |= sizes
        available = {n: min(available[n], wanted[n]) for n in wanted}
        assert sum(wanted.values()) <= max(total, replicas + most)
        assert sum(available.values()) >= min(ready, replicas - fewest)
        waiting = [n for n in wanted if available[n] < wanted[n]]
        if not sizes and not waiting:
            break
        for name in waiting:
            if dice.random() < 0.7:
                available[name] += 1
    assert wanted["new"] == replicas
    assert sum(wanted.values()) == replicas


def test_recreate_waits_until_every_old_pod_is_gone() -> None:
    strategy = {"type": "Recreate"}
    new = Scale(name="new", wanted=0, exists=0, available=0)
    old = Scale(name="old", wanted=2, exists=2, available=2)
    assert plan(3, strategy, new, [old]) == {"old": 0}
    going = Scale(name="old", wanted=0, exists=1, available=0)
    assert plan(3, strategy, new, [going]) == {}
    assert plan(3, strategy, new, []) == {"new": 3}


def test_old_pods_that_are_not_available_go_first() -> None:
    new = Scale(name="new", wanted=3, exists=3, available=0)
    broken = Scale(name="broken", wanted=2, exists=2, available=0)
    good = Scale(name="good", wanted=8, exists=8, available=8)
    assert plan(10, ROLLING, new, [good, broken]) == {"broken": 0}


def test_a_status_patch_holds_only_what_changes() -> None:
    assert difference({"a": 1, "b": 2}, {"a": 1, "c": 3}) == {"b": None, "c": 3}
    assert difference({"a": 1}, {"a": 1}) == {}


def test_conditions_keep_their_times_while_nothing_moves() -> None:
    first = conditions(None, [condition("Ready", True, "Well")], NOW, update_time=True)
    later = NOW + timedelta(hours=1)
    assert conditions(first, [condition("Ready", True, "Well")], later, update_time=True) == first
    other = conditions(first, [condition("Ready", True, "Better")], later, update_time=True)
    assert other[0]["lastTransitionTime"] == first[0]["lastTransitionTime"]
    assert other[0]["lastUpdateTime"] != first[0]["lastUpdateTime"]
    moved = conditions(first, [condition("Ready", False, "Well")], later, update_time=True)
    assert moved[0]["lastTransitionTime"] == "2026-01-02T04:04:05Z"


def test_equal_templates_have_equal_hashes() -> None:
    assert template_hash({"a": 1, "b": 2}) == template_hash({"b": 2, "a": 1})
    assert template_hash({"a": 1}) != template_hash({"a": 2})
    assert len(random_suffix()) == 5


@pytest.mark.parametrize(
    ("spec", "expected", "result"),
    [({"minAvailable": 2}, 3, 2), ({"minAvailable": "50%"}, 3, 2), ({"maxUnavailable": 1}, 3, 2),
     ({"maxUnavailable": "100%"}, 3, 0), ({}, 3, 1), ({}, 0, 0)],
)  # fmt: skip
def test_a_budget_computes_how_many_have_to_stay(
    spec: dict[str, Any], expected: int, result: int
) -> None:
    assert needed_healthy(spec, expected) == result


def test_a_selector_becomes_the_text_of_a_query() -> None:
    selector = {
        "matchLabels": {"a": "b"},
        "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["d", "e"]},
            {"key": "f", "operator": "DoesNotExist"},
        ],
    }
    assert selector_text(selector) == "a=b,c in (d,e),!f"


def pod(**container: object) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", **container}]},
    }


def test_the_environment_comes_from_values_maps_secrets_and_fields() -> None:
    item = {
        "command": ["run", "$(HELLO)", "$$(HELLO)", "$(UNKNOWN)"],
        "args": ["$(K1)"],
        "envFrom": [{"configMapRef": {"name": "m"}, "prefix": "K"}],
        "env": [
            {"name": "NAME", "value": "you"},
            {"name": "HELLO", "value": "hi $(NAME)"},
            {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "L", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
            {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "x", "key": "k", "optional": True}}},
        ],
    }  # fmt: skip
    owner = pod(**item)
    assert references(owner) == {("ConfigMap", "m"), ("Secret", "s"), ("Secret", "x")}
    sources = {
        ("ConfigMap", "m"): {"data": {"1": "one"}},
        ("Secret", "s"): {"data": {"k": base64.b64encode(b"deep").decode()}},
        ("Secret", "x"): None,
    }
    command = command_of(owner, owner["spec"]["containers"][0], sources)
    assert command.args == ("run", "hi you", "$(HELLO)", "$(UNKNOWN)", "one")
    assert command.env == {
        "K1": "one", "NAME": "you", "HELLO": "hi you", "S": "deep", "POD": "p", "L": "x",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"image": "x"}, "no command"),
        ({"command": ["x"], "envFrom": [{"secretRef": {"name": "s"}}]}, "secret 's' not found"),
        ({"command": ["x"], "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}]},
         "configmap 'm' not found"),
        ({"command": ["x"], "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}]},
         "not supported"),
    ],
)  # fmt: skip
def test_what_cannot_be_started_reports_why(item: dict[str, Any], message: str) -> None:
    owner = pod(**item)
    with pytest.raises(CannotStart, match=message):
        command_of(owner, owner["spec"]["containers"][0], {})


def test_expansion_leaves_the_unknown() -> None:
    assert expand("$(A)$$B$(C)", {"A": "1"}) == "1$B$(C)"
