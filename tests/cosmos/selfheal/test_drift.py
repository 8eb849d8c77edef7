"""Which nodes fell behind the others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest

from internal.cosmos.cache.observation import Observation
from internal.cosmos.selfheal.drift import laggards

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def node(ordinal: int, height: int, *, seconds: float = 0) -> Observation:
    at = NOW + timedelta(seconds=seconds)
    return Observation(f"hub-{ordinal}", f"uid-{ordinal}", ordinal, at, height, False)


def found(nodes: list[Observation], threshold: int) -> list[tuple[str, int]]:
    return [(each.node.pod, each.behind) for each in laggards(nodes, threshold)]


@pytest.mark.parametrize(
    ("height", "is_behind"), [(91, False), (90, True), (0, True), (101, False)]
)
def test_the_threshold_itself_is_behind(height: int, is_behind: bool) -> None:
    names = [name for name, _ in found([node(0, 100), node(1, height)], 10)]
    assert names == (["hub-1"] if is_behind else [])


def test_the_furthest_behind_goes_first_then_the_lowest_number() -> None:
    nodes = [node(0, 100), node(1, 80), node(2, 50), node(3, 80)]
    for order in permutations(nodes):
        assert found(list(order), 10) == [("hub-2", 50), ("hub-1", 20), ("hub-3", 20)]


@pytest.mark.parametrize("nodes", [[], [node(0, 1)], [node(0, 5), node(1, 5)]], ids=[0, 1, 2])
def test_who_has_nobody_ahead_is_not_behind(nodes: list[Observation]) -> None:
    assert found(nodes, 1) == []


def test_who_was_asked_earlier_is_not_behind_for_that() -> None:
    # A block a second: each says the newest there was when it was asked.
    nodes = [node(0, 100), node(1, 104, seconds=4), node(2, 92, seconds=2)]
    assert found(nodes, 4) == [("hub-2", 8)]
