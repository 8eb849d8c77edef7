"""Which nodes fell behind the others."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlruntime.api.scalars import format_time
from ctrlruntime.cache.entry import EntryDecoder
from internal.cosmos.cache.observation import Observation
from internal.cosmos.selfheal.drift import is_cooling, laggards
from tests.cosmos.selfheal.harness import POD

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
    names = [name for name, _ in found([node(0, 100), node(1, height), node(2, 100)], 10)]
    assert names == (["hub-1"] if is_behind else [])


def test_the_furthest_behind_goes_first_then_the_lowest_number() -> None:
    nodes = [node(0, 100), node(1, 80), node(2, 50), node(3, 80), node(4, 100)]
    for order in permutations(nodes):
        assert found(list(order), 10) == [("hub-2", 50), ("hub-1", 20), ("hub-3", 20)]


@pytest.mark.parametrize("nodes", [[], [node(0, 1)], [node(0, 5), node(1, 5)]], ids=[0, 1, 2])
def test_who_has_no_one_ahead_is_not_behind(nodes: list[Observation]) -> None:
    assert found(nodes, 1) == []


def test_who_was_asked_earlier_is_not_behind_for_that() -> None:
    # A block a second: each says the newest there was when it was asked.
    nodes = [node(0, 100), node(1, 104, seconds=4), node(2, 92, seconds=2), node(3, 101, seconds=1)]
    assert found(nodes, 4) == [("hub-2", 8)]
    # Of the one that was asked later, the answer before that counts.
    later = replace(nodes[1], earlier_at=NOW - timedelta(seconds=1), earlier_height=99)
    assert found([nodes[0], later, nodes[2]], 4) == [("hub-2", 7)]


@pytest.mark.criterion("H-C5", "COSMOS-A5-9")
@given(
    honest=st.lists(st.integers(100, 109), min_size=2, max_size=6),
    liar=st.integers(0, 2**63),
    place=st.integers(0, 6),
)
def test_h_c5_one_liar_has_no_healthy_node_restarted(
    honest: list[int], liar: int, place: int
) -> None:
    heights = [*honest[:place], liar, *honest[place:]]
    wrong = min(place, len(honest))
    nodes = [node(ordinal, height) for ordinal, height in enumerate(heights)]
    names = [name for name, _ in found(nodes, 10)]
    assert set(names) <= {f"hub-{wrong}"}


@pytest.mark.criterion("H-C5")
@pytest.mark.parametrize(("age", "expected"), [(0, True), (299, True), (300, False)])
def test_h_c5_a_young_pod_is_left_alone(age: int, expected: bool) -> None:
    created = format_time(NOW - timedelta(seconds=age))
    pod = EntryDecoder(POD.gvk).decode_manifest(
        {"metadata": {"name": "hub-0", "uid": "1", "creationTimestamp": created}}
    )
    assert is_cooling(pod, 300, NOW) is expected


@pytest.mark.criterion("H-C5")
@given(heights=st.tuples(st.integers(0, 2**63), st.integers(0, 2**63)))
def test_h_c5_of_two_nodes_none_is_restarted_for_what_the_other_reports(
    heights: tuple[int, int],
) -> None:
    """One of them reports a wrong height, and nothing shows which: see docs/decisions/cosmos-heights.md."""
    nodes = [node(ordinal, height) for ordinal, height in enumerate(heights)]
    assert found(nodes, 1) == []
