"""Who owns which slot: shares, moves, epochs, and what the object records."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlruntime.sharding.assignment import (
    RECREATED,
    Announced,
    Assignment,
    BadAssignment,
    SlotRecord,
    decode,
    distribute,
    encode,
    reassigned,
)
from ctrlruntime.sharding.slots import ALL_SLOTS, SLOTS

pytestmark = pytest.mark.criterion("SH-1")


def named(count: int) -> list[str]:
    return [f"manager-{number}" for number in range(count)]


def moved(before: dict[int, str], after: dict[int, str]) -> int:
    return sum(before[slot] != after[slot] for slot in before)


def grown(*counts: int) -> list[dict[int, str]]:
    """Return the owners after each of these numbers of members, one after the other."""
    found: list[dict[int, str]] = []
    for count in counts:
        found.append(distribute(found[-1] if found else {}, named(count)))
    return found


@pytest.mark.parametrize(
    ("counts", "moves"),
    [((2, 3), 21), ((4, 5), 12), ((4, 3), 16), ((7, 6), 9), ((1, 2), 32), ((1, 2, 4), 32)],
)
def test_no_more_slots_move_than_the_newcomer_takes_or_the_lost_one_had(
    counts: tuple[int, ...], moves: int
) -> None:
    *_, before, after = grown(*counts)
    assert moved(before, after) == moves


@given(st.lists(st.integers(1, 20), min_size=2, max_size=8))
def test_shares_are_even_and_what_one_has_it_keeps(counts: list[int]) -> None:
    found = grown(*counts)
    for (before, old), (after, new) in zip(
        zip(found, counts, strict=True), zip(found[1:], counts[1:], strict=True), strict=False
    ):
        shares = Counter(after.values())
        assert after.keys() == ALL_SLOTS
        assert max(shares.values()) - min(shares.get(each, 0) for each in named(new)) <= 1
        changed = {slot for slot in ALL_SLOTS if before[slot] != after[slot]}
        came, gone = {*named(new)} - {*named(old)}, {*named(old)} - {*named(new)}
        assert all(before[slot] in gone or after[slot] in came for slot in changed)
        if abs(new - old) <= 1:
            assert len(changed) <= SLOTS / max(new, old) + 1


def test_a_member_under_a_new_name_takes_the_slots_of_the_one_that_is_gone() -> None:
    before = grown(4)[0]
    after = distribute(before, [*named(3), "manager-x"])
    assert {before[slot] for slot in before if before[slot] != after[slot]} == {"manager-3"}
    assert sorted(Counter(after.values()).values()) == [16] * 4


def test_a_part_of_the_slots_goes_to_members_alone_and_none_without_members() -> None:
    assert distribute({1: "a", 40: "a"}, ["a", "b"], frozenset(range(32))).keys() == {*range(32)}
    assert distribute({1: "a"}, []) == {}


def test_the_order_of_members_does_not_matter() -> None:
    assert distribute({}, named(7)) == distribute({}, named(7)[::-1])


def all_of(owner: str) -> dict[int, str]:
    return dict.fromkeys(ALL_SLOTS, owner)


def test_an_epoch_grows_with_each_change_and_stays_without_one() -> None:
    first = reassigned(None, all_of("a"), {"a": Announced()})
    assert (first.epoch, first.slots[3]) == (1, SlotRecord("a", 1))
    assert reassigned(first, all_of("a"), {}) is first
    second = reassigned(first, {**all_of("a"), 3: "b"}, {})
    assert (second.epoch, second.slots[3]) == (2, SlotRecord("b", 2, frozenset({"a"})))
    assert second.slots[4] == first.slots[4]


def test_former_owners_stay_until_each_has_let_go_or_the_next_one_works() -> None:
    a = reassigned(None, all_of("a"), {})
    b = reassigned(a, all_of("b"), {})
    c = reassigned(b, all_of("c"), {"a": Announced(1, ALL_SLOTS)})
    assert c.slots[3] == SlotRecord("c", 3, frozenset({"a", "b"}))
    holding = Announced(3, frozenset({3}))
    for announced in ({"a": holding}, {"a": Announced(2)}, {"b": Announced(2)}, {}):
        assert reassigned(c, all_of("c"), announced).slots[3] == c.slots[3]
    let_go = reassigned(c, all_of("c"), {"a": Announced(3), "b": Announced(3, frozenset({4}))})
    assert let_go.slots[3] == SlotRecord("c", 3)
    assert let_go.slots[4] == SlotRecord("c", 3, frozenset({"b"}))
    works = reassigned(c, {**all_of("c"), 3: "a"}, {"c": holding})
    assert works.slots[3] == SlotRecord("a", 4, frozenset({"c"}))
    assert works.slots[4] == c.slots[4]
    back = reassigned(c, all_of("b"), {})
    assert back.slots[3] == SlotRecord("b", 4, frozenset({"a", "c"}))


def test_where_the_object_is_gone_any_member_may_hold_any_slot() -> None:
    announced = {"a": Announced(7, frozenset({3})), "b": Announced(9)}
    made = reassigned(None, all_of("a"), announced)
    assert (made.epoch, made.slots[3]) == (
        9 + RECREATED,
        SlotRecord("a", 9 + RECREATED, frozenset({"b"})),
    )


def test_slots_stay_recorded_while_there_is_no_owner() -> None:
    before = reassigned(None, all_of("a"), {})
    after = reassigned(before, {}, {})
    assert after.slots[0] == SlotRecord("", 2, frozenset({"a"}))
    again = reassigned(after, all_of("b"), {})
    assert again.slots[0] == SlotRecord("b", 3, frozenset({"a"}))


RECORDS = st.builds(
    SlotRecord,
    st.sampled_from(["", "a", "b"]),
    st.integers(0, 3),
    st.frozensets(st.sampled_from("abc")),
)


@given(st.lists(RECORDS, min_size=SLOTS, max_size=SLOTS), st.integers(1, 2**40))
def test_what_is_written_is_read_as_the_same(slots: list[SlotRecord], epoch: int) -> None:
    assignment = Assignment(epoch, tuple(slots))
    assert decode(encode(assignment)) == assignment


def test_an_assignment_is_short() -> None:
    owners = grown(8)[0]
    assert len(encode(reassigned(None, owners, {}))) < 700


NO_ASSIGNMENTS = (
    "",
    "{}",
    "[]",
    '{"epoch":1,"owners":[]}',
    '{"epoch":1,"owners":[{"slots":"0-62"}]}',
    '{"epoch":1,"owners":[{"slots":"0-64"}]}',
    '{"epoch":0,"owners":[{"slots":"0-63"}]}',
    '{"epoch":1,"x":' + "[" * 100_000 + "]" * 100_000 + "}",
    '{"epoch":1,"owners":[{"slots":"\ud800"}]}',
)


@pytest.mark.parametrize("text", NO_ASSIGNMENTS)
def test_what_a_person_broke_is_no_assignment(text: str) -> None:
    with pytest.raises(BadAssignment, match="it is written anew"):
        decode(text)
