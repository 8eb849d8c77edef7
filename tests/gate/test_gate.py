"""Permits, holds, the record and the table of state, one behaviour a test."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime, timedelta

import pytest

from ctrlruntime.api.kinds import GroupKind, GroupVersionKind, Manifest
from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.gate import (
    HOLDS_STATE,
    STATE,
    Budget,
    BudgetRecord,
    Cause,
    Evidence,
    Gate,
    Hold,
    ParentState,
    Permit,
    Removal,
    Scratch,
    Victim,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CONFIG_MAP = GroupKind("", "ConfigMap")


def removal(number: int = 0, evidence: Evidence = Evidence.CERTAIN) -> Removal:
    return Removal(
        victim=Victim(CONFIG_MAP, "default", f"object-{number:02}"),
        uid=f"uid-{number}",
        holds_state=False,
        cause=Cause.SPEC_CHANGED,
        evidence=evidence,
    )


def entry(manifest: Manifest, *, metadata_only: bool = False) -> Entry:
    decoder = EntryDecoder(GroupVersionKind.of(manifest), metadata_only=metadata_only)
    return decoder.decode_manifest(manifest)


def of_kind(api_version: str, kind: str, **more: object) -> Manifest:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, **more}


def test_a_permit_comes_from_a_gate_alone() -> None:
    with pytest.raises(TypeError, match="Gate"):
        Permit()
    permit = Gate().removal(removal())
    assert isinstance(permit, Permit)
    assert permit.removal == removal()
    with pytest.raises(TypeError, match="Gate"):
        pickle.dumps(permit)
    with pytest.raises(TypeError, match="Gate"):
        copy.copy(permit)


def test_a_hold_names_ten_and_counts_the_rest() -> None:
    hold = Hold.of([removal(number) for number in range(25)], "over the budget")
    assert len(hold.names) == 10
    assert hold.count == 25
    assert "object-00 (SpecChanged)" in hold.message
    assert "and 15 more" in hold.message
    assert hold.digest in hold.message


def test_a_gate_with_a_budget_decides_on_sets_alone() -> None:
    with pytest.raises(TypeError, match="removals"):
        Gate(budget=Budget()).removal(removal())


def test_protection_of_a_parent_holds_a_single_removal() -> None:
    held = Gate().removal(removal(), parent=ParentState(protection="the registry is protected"))
    assert isinstance(held, Hold)
    assert held.reason == "the registry is protected"


@pytest.mark.parametrize(
    "data", [[], "x", {"members": []}, {"members": {"a": "1"}}, {"state": {"a": True}}]
)
def test_a_record_that_cannot_be_read_is_no_empty_budget(data: object) -> None:
    with pytest.raises(ValueError, match="record of removals"):
        BudgetRecord.of(data)


def test_a_rollout_with_a_budget_of_its_own_is_not_counted() -> None:
    gate = Gate(budget=Budget())
    taken = [
        Removal(
            victim=Victim(CONFIG_MAP, "default", f"pod-{number}"),
            uid=f"uid-{number}",
            holds_state=False,
            cause=Cause.REPLACED,
            evidence=Evidence.CERTAIN,
            in_rollout=True,
        )
        for number in range(9)
    ]
    decision = gate.removals(taken, now=NOW, parent=ParentState(members=9))
    assert len(decision.permits) == 9
    assert decision.record == BudgetRecord()


@pytest.mark.parametrize(
    ("manifest", "holds"),
    [
        (of_kind("v1", "ConfigMap"), False),
        (of_kind("v1", "Secret"), False),
        (of_kind("v1", "Namespace"), True),
        (of_kind("v1", "PersistentVolumeClaim"), True),
        (of_kind("apps/v1", "Deployment"), False),
        (of_kind("apps/v1", "StatefulSet", spec={"replicas": 1}), False),
        (of_kind("apps/v1", "StatefulSet", spec={"volumeClaimTemplates": [{}]}), True),
        (of_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition"), True),
        (of_kind("example.com/v1", "Database"), True),
    ],
)
def test_what_holds_state(manifest: Manifest, holds: bool) -> None:
    assert STATE.holds_state(entry(manifest)) is holds


def test_a_stateful_set_of_which_only_metadata_is_known_holds_state() -> None:
    assert STATE.holds_state(entry(of_kind("apps/v1", "StatefulSet", spec={}), metadata_only=True))


def test_the_table_of_state_is_extended_and_never_weakened_for_built_in_kinds() -> None:
    database, claim = GroupKind("example.com", "Database"), GroupKind("", "PersistentVolumeClaim")
    table = STATE.with_stateless(database, claim).with_stateful(CONFIG_MAP)
    assert not table.holds_state(entry(of_kind("example.com/v1", "Database")))
    assert table.holds_state(entry(of_kind("v1", "PersistentVolumeClaim")))
    assert table.holds_state(entry(of_kind("v1", "ConfigMap")))
    drawn = of_kind("v1", "Secret")
    drawn["metadata"]["annotations"] = {HOLDS_STATE: "true"}
    assert STATE.holds_state(entry(drawn))


@pytest.mark.parametrize("kind", ["PersistentVolumeClaim", "Namespace"])
def test_what_holds_state_is_no_scratch(kind: str) -> None:
    with pytest.raises(ValueError, match="holds state"):
        Scratch(GroupKind("", kind), "a cache")


@pytest.mark.criterion("G-T6")
def test_g_t6_a_used_approval_counts_once_also_after_it_was_taken_off() -> None:
    """The newest hundred are remembered, however old, and whatever is on the object now."""
    at = int(NOW.timestamp())
    used = {f"{number:016x}": at - number for number in range(101)}
    oldest = f"{100:016x}"
    for given, left in (((), used.keys() - {oldest}), ((oldest,), used.keys())):
        kept = Budget().current(BudgetRecord(used=used), NOW + timedelta(days=400), given)
        assert kept.used.keys() == left
