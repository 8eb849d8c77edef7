"""Conditions: written only on news, dated only on a transition."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlruntime.api import (
    Condition,
    find_condition,
    is_condition_false,
    is_condition_true,
    remove_condition,
    set_condition,
)
from ctrlruntime.api.conditions import (
    LONGEST_MESSAGE,
    conditions_of,
    conditions_to_wire,
    new_condition,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
LATER = START + timedelta(hours=1)


def ready(status: str = "True", reason: str = "Up", message: str = "") -> Condition:
    return Condition.model_validate(
        {"type": "Ready", "status": status, "reason": reason, "message": message}
    )


def test_the_first_condition_is_dated_now() -> None:
    conditions: list[Condition] = []
    assert set_condition(conditions, ready(), START)
    assert conditions[0].last_transition_time == START


def test_the_same_condition_changes_nothing() -> None:
    conditions: list[Condition] = []
    set_condition(conditions, ready(), START)
    before = conditions[0]
    assert not set_condition(conditions, ready(), LATER)
    assert conditions[0] is before


def test_a_new_reason_is_news_but_no_transition() -> None:
    conditions: list[Condition] = []
    set_condition(conditions, ready(), START)
    assert set_condition(conditions, ready(reason="StillUp"), LATER)
    assert conditions[0].reason == "StillUp"
    assert conditions[0].last_transition_time == START


def test_a_new_status_is_a_transition() -> None:
    conditions: list[Condition] = []
    set_condition(conditions, ready(), START)
    assert set_condition(conditions, ready("False"), LATER)
    assert conditions[0].last_transition_time == LATER


def test_a_transition_can_bring_its_own_time() -> None:
    conditions: list[Condition] = []
    own = START - timedelta(days=1)
    set_condition(conditions, ready().model_copy(update={"last_transition_time": own}), START)
    assert conditions[0].last_transition_time == own


def test_a_message_that_the_server_would_refuse_is_cut() -> None:
    conditions: list[Condition] = []
    set_condition(conditions, ready(message="x" * 40_000), START)
    assert len(conditions[0].message) == 32768
    assert conditions[0].message.endswith("…")
    assert not set_condition(conditions, ready(message="x" * 40_000), LATER)


def test_conditions_are_found_asked_and_removed() -> None:
    conditions: list[Condition] = []
    set_condition(conditions, ready(), START)
    assert find_condition(conditions, "Ready") is conditions[0]
    assert find_condition(conditions, "Other") is None
    assert is_condition_true(conditions, "Ready")
    assert not is_condition_false(conditions, "Ready")
    assert not is_condition_true(conditions, "Other")
    assert not is_condition_false(conditions, "Other")
    assert remove_condition(conditions, "Ready")
    assert not remove_condition(conditions, "Ready")


@pytest.mark.parametrize("wrong", [{"reason": "has space"}, {"reason": ""}, {"status": "Maybe"}])
def test_what_the_server_would_refuse_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        Condition.model_validate({"type": "Ready", "status": "True", "reason": "Up", **wrong})


updates = st.builds(
    lambda type_, status, reason: Condition.model_validate(
        {"type": type_, "status": status, "reason": reason}
    ),
    st.sampled_from(["Ready", "Degraded", "Applied"]),
    st.sampled_from(["True", "False", "Unknown"]),
    st.sampled_from(["A", "B"]),
)


@given(st.lists(updates, max_size=20))
def test_any_sequence_keeps_one_of_each_type_in_order_and_dates_transitions(
    sequence: list[Condition],
) -> None:
    conditions: list[Condition] = []
    expected: dict[str, tuple[str, str, datetime]] = {}
    for step, update in enumerate(sequence):
        now = START + timedelta(seconds=step)
        old = expected.get(update.type)
        since = old[2] if old and old[0] == update.status else now
        changed = set_condition(conditions, update, now)
        assert changed == (old is None or old[:2] != (update.status, update.reason))
        expected[update.type] = (update.status, update.reason, since)
    assert [item.type for item in conditions] == sorted(expected)
    assert {
        item.type: (item.status, item.reason, item.last_transition_time) for item in conditions
    } == expected


def test_a_new_condition_is_cut_between_words_and_writes_no_unset_generation() -> None:
    made = new_condition("Ready", False, "Waiting", "word " * 300)
    assert made.status == "False"
    assert len(made.message) <= LONGEST_MESSAGE
    assert made.message.endswith("word…")
    assert made.to_wire().keys() == {"type", "status", "reason", "message"}
    later = new_condition("Ready", "Unknown", "Waiting", "", generation=3)
    assert (later.status, later.observed_generation) == ("Unknown", 3)


def test_stored_conditions_are_read_and_written_with_their_defaults() -> None:
    made = new_condition("Ready", True, "Reconciled", "")
    [wire] = conditions_to_wire([made])
    assert wire["message"] == ""
    assert conditions_of({"conditions": [wire]}) == [made]
    assert conditions_of({}) == []
