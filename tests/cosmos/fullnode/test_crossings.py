"""When the height of a node decides on another version."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from internal.cosmos.fullnode.upgrade_gate import Crossings, crosses


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(0, 99, False), (0, 100, True), (99, 100, True), (100, 100, False), (100, 250, True)],
)
def test_a_version_is_due_from_its_height_on(before: int, after: int, expected: bool) -> None:
    assert crosses(before, after, [100, 200]) is expected


def test_heights_within_a_version_count_at_once() -> None:
    said = Crossings(Clock(), 10).admit("set", {"hub-0": 50}, {"hub-0": 60, "hub-1": 7}, [100])
    assert said.heights == {"hub-0": 60, "hub-1": 7}
    assert (said.crossed, said.wait) == (False, 0.0)


@pytest.mark.criterion("COSMOS-A10-490")
def test_a_node_that_reaches_another_version_is_given_time_to_write_it_down() -> None:
    clock = Clock()
    crossings = Crossings(clock, 10)
    first = crossings.admit("set", {"hub-0": 99}, {"hub-0": 100}, [100])
    assert (first.heights, first.crossed, first.wait) == ({}, False, 10.0)
    clock.now += 4
    assert crossings.admit("set", {"hub-0": 99}, {"hub-0": 100}, [100]).wait == 6.0
    clock.now += 6
    last = crossings.admit("set", {"hub-0": 99}, {"hub-0": 100}, [100])
    assert (last.heights, last.crossed, last.wait) == ({"hub-0": 100}, True, 0.0)


def test_a_node_that_fell_silent_at_the_height_is_upgraded_nevertheless() -> None:
    clock = Clock()
    crossings = Crossings(clock, 10)
    crossings.admit("set", {"hub-0": 99}, {"hub-0": 100}, [100])
    clock.now += 11
    assert crossings.admit("set", {"hub-0": 99}, {}, [100]).heights == {"hub-0": 100}


def test_what_is_recorded_is_waited_for_no_more() -> None:
    """The container beside the node, or an earlier pass, has told it."""
    crossings = Crossings(Clock(), 10)
    crossings.admit("set", {"hub-0": 99}, {"hub-0": 100}, [100])
    said = crossings.admit("set", {"hub-0": 100}, {"hub-0": 100}, [100])
    assert (said.crossed, said.wait) == (False, 0.0)
    assert not crossings._seen, "nothing is kept"


def test_a_renewed_disk_begins_anew() -> None:
    clock = Clock()
    crossings = Crossings(clock, 10)
    crossings.admit("set", {"hub-0": 99}, {"hub-0": 100}, [100])
    crossings.forget("set", ["hub-0"])
    clock.now += 11
    assert crossings.admit("set", {}, {}, [100]).heights == {}
