"""Which claims grow, and how far."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from internal.cloud.subresources.pvc import looks_apart
from internal.cloud.tasks.resize import Claim, Policy, Verdict, decide, written

NOW = datetime(2026, 1, 2, tzinfo=UTC)
GI = 1 << 30
POLICY = Policy(threshold=80, increase=20, ceiling=100 * GI)
CLAIM = Claim(name="data", requested=10 * GI, capacity=10 * GI, used=9 * GI, expandable=True)


def verdict(claim: Claim, policy: Policy = POLICY) -> Verdict:
    return decide(claim, policy, NOW).verdict


def test_a_full_claim_grows_by_its_share() -> None:
    decision = decide(CLAIM, POLICY, NOW)
    assert (decision.verdict, written(decision.size)) == (Verdict.GROWS, "12Gi")


@pytest.mark.parametrize(
    ("used", "expected"), [(8 * GI, Verdict.FINE), (8 * GI + 1, Verdict.GROWS)]
)
def test_the_threshold_itself_is_fine(used: int, expected: Verdict) -> None:
    assert verdict(replace(CLAIM, used=used)) is expected


def test_growth_ends_at_the_ceiling_after_capping() -> None:
    claim = replace(CLAIM, requested=95 * GI, capacity=95 * GI, used=94 * GI)
    decision = decide(claim, POLICY, NOW)
    assert (decision.verdict, decision.size) == (Verdict.GROWS, 100 * GI)
    at = replace(claim, requested=100 * GI, capacity=100 * GI, used=99 * GI)
    assert verdict(at) is Verdict.CEILING
    beyond = replace(claim, requested=120 * GI, capacity=120 * GI, used=119 * GI)
    assert verdict(beyond) is Verdict.CEILING


def test_a_claim_that_is_growing_is_left_alone() -> None:
    assert verdict(replace(CLAIM, requested=12 * GI)) is Verdict.RESIZING


def test_a_step_has_its_cooldown() -> None:
    just = replace(CLAIM, resized_at=NOW - timedelta(hours=6) + timedelta(seconds=1))
    assert verdict(just) is Verdict.COOLING
    assert verdict(replace(CLAIM, resized_at=NOW - timedelta(hours=6))) is Verdict.GROWS
    short = replace(POLICY, cooldown=timedelta(minutes=1))
    assert verdict(just, short) is Verdict.GROWS


def test_a_class_that_cannot_expand_is_reported() -> None:
    assert verdict(replace(CLAIM, expandable=False)) is Verdict.CANNOT_EXPAND
    assert verdict(replace(CLAIM, expandable=False, used=GI)) is Verdict.FINE


def test_without_figures_nothing_is_done() -> None:
    assert verdict(replace(CLAIM, used=None)) is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("size", "expected"), [(GI, "1Gi"), (GI + (1 << 20), "1025Mi"), (GI + 1, "1073741825")]
)
def test_sizes_are_written_exactly(size: int, expected: str) -> None:
    assert written(size) == expected


@given(
    requested=st.integers(1, 1 << 50),
    used=st.integers(0, 1 << 51),
    increase=st.integers(1, 500),
    ceiling=st.integers(1, 1 << 50),
)
def test_no_claim_shrinks_or_passes_the_ceiling(
    requested: int, used: int, increase: int, ceiling: int
) -> None:
    claim = replace(CLAIM, requested=requested, capacity=requested, used=used)
    decision = decide(claim, replace(POLICY, increase=increase, ceiling=ceiling), NOW)
    if decision.verdict is Verdict.GROWS:
        assert requested < decision.size <= ceiling


@pytest.mark.parametrize(
    ("outputs", "hours"),
    [
        ({}, 1 / 6),
        ({"fullest": "soon"}, 1 / 6),
        ({"fullest": "99"}, 1 / 6),
        ({"fullest": "71"}, 1 / 6),
        ({"fullest": "70"}, 1),
        ({"fullest": "51"}, 1),
        ({"fullest": "50"}, 6),
        ({"fullest": "0"}, 6),
    ],
)
def test_claims_with_room_are_looked_at_seldom(outputs: dict[str, str], hours: float) -> None:
    assert looks_apart(outputs, 80) == hours * 3600
