"""Slots: which one a name is of, and how they are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlruntime.client.selectors import label_matcher
from ctrlruntime.sharding import (
    ALL_SLOTS,
    SLOT_LABEL,
    SLOTS,
    BadSlots,
    current_slot,
    format_slots,
    parse_slots,
    slot_of,
    slot_of_labels,
    slot_selector,
)

SETS = st.frozensets(st.integers(0, SLOTS - 1), min_size=1)


def test_the_slot_of_a_name_never_changes() -> None:
    known = {
        ("shop", "customer-1"): 0,
        ("shop", "customer-2"): 11,
        ("", "customer-1"): 4,
        ("ns", "ü" * 200): 4,
    }
    assert {each: slot_of(each[1], namespace=each[0]) for each in known} == known


def test_names_that_count_up_spread_over_all_slots() -> None:
    counts = [0] * SLOTS
    for number in range(10_000):
        counts[slot_of(f"customer-{number}", namespace="shop")] += 1
    assert min(counts) > 0
    quarters = [sum(counts[first::4]) for first in range(4)]
    assert max(quarters) < 1.06 * 10_000 / 4


def test_a_namespace_and_a_name_are_not_run_together() -> None:
    pairs = {
        slot_of("bc", namespace=f"a{n}") == slot_of("c", namespace=f"a{n}b") for n in range(50)
    }
    assert pairs == {True, False}


@given(SETS)
def test_what_is_written_is_read_as_the_same(slots: frozenset[int]) -> None:
    assert parse_slots(format_slots(slots)) == slots
    selects = label_matcher(slot_selector(slots))
    assert {slot for slot in ALL_SLOTS if selects({SLOT_LABEL: str(slot)})} == slots
    assert not selects({})


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("0-31", range(32)),
        ("0,5,9-12", [0, 5, 9, 10, 11, 12]),
        (" 63 , 1 - 2", [1, 2, 63]),
        ("0-63", range(64)),
        ("7-7", [7]),
    ],
)
def test_texts_of_slots(text: str, slots: list[int]) -> None:
    assert parse_slots(text) == frozenset(slots)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is neither a slot nor a range"),
        ("1,", "'' is neither"),
        ("a", "'a' is neither"),
        ("-3", "'-3' is neither"),
        ("1-2-3", "'1-2-3' is neither"),
        ("٣", "'٣' is neither"),
        ("64", "'64' goes past the last slot, 63"),
        ("0-64", "'0-64' goes past"),
        ("9-3", "write 3-9 for '9-3'"),
        ("0-5,5", "5 is named twice"),
    ],
)
def test_a_text_that_names_no_slots_is_refused_with_one_that_does(text: str, message: str) -> None:
    with pytest.raises(BadSlots, match=r"such as 0-31 or 0,5,9-12") as caught:
        parse_slots(text)
    assert message in str(caught.value)


@pytest.mark.parametrize("value", ["", "64", "-1", "01", " 1", "1.0", "x", "１"])
def test_a_label_counts_only_as_it_is_written(value: str) -> None:
    assert slot_of_labels({SLOT_LABEL: value}) is None
    assert slot_of_labels({SLOT_LABEL: "1"}) == 1
    assert slot_of_labels({}) is None
    assert slot_of_labels(None) is None


def test_a_selector_of_no_slots_is_refused() -> None:
    with pytest.raises(BadSlots, match="would select every object"):
        slot_selector([])
    with pytest.raises(BadSlots, match="64 is no slot"):
        slot_selector([1, 64])


def test_outside_of_a_pass_there_is_no_slot() -> None:
    assert current_slot.get() is None
