"""Modes, the list of target namespaces and the conditions, without a server."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from apis.fleet import FleetConfig, FleetConfigStatus, Reason, TargetNamespace, TargetResult
from apis.fleet.labels import DATA_PLANE, TARGET_NAMESPACE
from internal.fleet import status
from internal.fleet.targets import Mode, Outcome, is_former, is_mistyped, mode_of

from .harness import config

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
WELL = Outcome(Reason.SUCCESSFUL_DEPLOYMENT, "Namespace deployed successfully")
GONE = Outcome(Reason.UNREACHABLE, "it does not answer")


@dataclass(frozen=True)
class Named:
    """A namespace."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)


@pytest.mark.criterion("FLEET-R1")
@pytest.mark.parametrize(
    ("spec", "mode"),
    [
        ({}, Mode(namespace="fleet")),
        ({"targetNamespace": "here"}, Mode(namespace="here")),
        ({"scaleMode": {}}, Mode(namespace="fleet")),
        ({"scaleMode": {"enabled": False}, "targetNamespace": "here"}, Mode(namespace="here")),
        ({"scaleMode": {"enabled": True}}, Mode(scale=True)),
        ({"scaleMode": {"enabled": True}, "targetNamespace": "here"}, None),
    ],
)
def test_r01_r02_what_a_configuration_requests(spec: dict[str, object], mode: Mode | None) -> None:
    assert mode_of(FleetConfig.from_manifest(config(**spec))) == mode


@pytest.mark.criterion("FLEET-R3")
@pytest.mark.parametrize("value", ["false", "True", "TRUE", "yes", "", "true "])
def test_r03_only_the_value_true_counts(value: str) -> None:
    mode = Mode(scale=True)
    assert not mode.wants(Named("east", {DATA_PLANE: value}))
    assert not mode.wants(Named("east"))
    assert mode.wants(Named("east", {DATA_PLANE: "true"}))
    assert is_mistyped(Named("east", {DATA_PLANE: value})) is (value not in {"false", ""})


def test_former_target_namespaces_are_those_that_are_marked_and_not_wanted() -> None:
    marked = {TARGET_NAMESPACE: "true"}
    both = {**marked, DATA_PLANE: "true"}
    assert is_former(Named("east", marked), Mode(scale=True))
    assert not is_former(Named("east", both), Mode(scale=True))
    assert is_former(Named("east", both), Mode(namespace="fleet"))
    assert not is_former(Named("fleet", marked), Mode(namespace="fleet"))
    assert not is_former(Named("east"), Mode(scale=True))


@pytest.mark.criterion("FLEET-R17", "D5-10")
def test_r17_all_permutations_give_one_order_failures_first() -> None:
    outcomes = {"a": WELL, "b": GONE, "c": WELL, "d": GONE, "e": WELL}
    for names in itertools.permutations(outcomes):
        before = status.target_list(names, {name: outcomes[name] for name in names}, [], NOW)
        assert [entry.name for entry in before] == ["b", "d", "a", "c", "e"]
        again = status.target_list(list(reversed(names)), outcomes, before, LATER)
        assert again == before


@pytest.mark.criterion("FLEET-R16")
def test_r16_r19_a_transition_is_a_change_of_result_or_reason_alone() -> None:
    (first,) = status.target_list(["a"], {"a": GONE}, [], NOW)
    assert first == TargetNamespace(
        name="a",
        result=TargetResult.FAILURE,
        reason="DataPlaneUnreachable",
        message="it does not answer",
        last_transition_time=NOW,
    )
    worded = Outcome(Reason.UNREACHABLE, "connection refused")
    (second,) = status.target_list(["a"], {"a": worded}, [first], LATER)
    assert (second.message, second.last_transition_time) == ("connection refused", NOW)
    other = Outcome(Reason.FORBIDDEN, "forbidden")
    (third,) = status.target_list(["a"], {"a": other}, [second], LATER)
    assert third.last_transition_time == LATER


def test_a_namespace_that_was_not_looked_at_yet_keeps_its_entry() -> None:
    before = status.target_list(["a", "b"], {"a": WELL, "b": GONE}, [], NOW)
    assert status.target_list(["a", "b"], {}, before, LATER) == before
    assert status.target_list(["b", "c"], {}, before, LATER) == before[:1]


@pytest.mark.criterion("FLEET-R15")
@pytest.mark.parametrize(
    ("failed", "healthy", "unknown", "expected"),
    [
        (0, 0, 0, ("True", "0 target namespace(s) deployed successfully")),
        (0, 3, 0, ("True", "3 target namespace(s) deployed successfully")),
        (1, 2, 1, ("False", "1 target namespace(s) did not deploy successfully -- see the ")),
        (3, 0, 0, ("False", "3 target namespace(s) did not deploy successfully -- see the ")),
        (0, 2, 1, ("False", "1 target namespace(s) are being deployed")),
    ],
)
def test_r15_ready_reports_how_many_are_not_healthy(
    failed: int, healthy: int, unknown: int, expected: tuple[str, str]
) -> None:
    outcomes = {f"f{each}": GONE for each in range(failed)}
    outcomes |= {f"s{each}": WELL for each in range(healthy)}
    wanted = [*outcomes, *(f"u{each}" for each in range(unknown))]
    entries = status.target_list(wanted, outcomes, [], NOW)
    ready = status.ready(wanted, entries, 1)
    assert (ready.status, ready.message[: len(expected[1])]) == expected


def test_messages_have_at_most_256_characters_and_keep_what_to_do() -> None:
    long = Outcome(Reason.UNREACHABLE, f"{'it does not answer ' * 40}; look at the network")
    (entry,) = status.target_list(["a"], {"a": long}, [], NOW)
    assert len(entry.message) <= 256
    assert entry.message.endswith("; look at the network")


@pytest.mark.criterion("FLEET-R19")
def test_r19_an_unchanged_status_is_equal() -> None:
    entries = status.target_list(["a"], {"a": WELL}, [], NOW)
    conditions = [status.ready(["a"], entries, 1), status.teardown({}, 1)]
    first = status.updated(
        FleetConfigStatus(), generation=1, entries=entries, conditions=conditions, now=NOW
    )
    again = status.target_list(["a"], {"a": WELL}, first.target_namespaces, LATER)
    conditions = [status.ready(["a"], again, 1), status.teardown({}, 1)]
    assert first == status.updated(
        first, generation=1, entries=again, conditions=conditions, now=LATER
    )


def test_teardown_names_what_is_left_where() -> None:
    found = status.teardown({"b": "2 Pod(s) are being deleted", "a": "not looked at yet"}, 1)
    assert (found.status, found.reason) == ("False", "TearingDown")
    assert found.message == "a: not looked at yet; b: 2 Pod(s) are being deleted."
