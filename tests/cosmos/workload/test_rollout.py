"""How many instances may be taken down for a change."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from internal.cosmos.workload.rollout import MaxUnavailable, compute_rollout, tolerated

VECTORS = [
    (1, 1, 1, 1),
    (5, 10, 10, 5),
    (5, 10, 0, 0),
    ("50%", 3, 3, 1),
    (3, 9, 5, 0),
    (3, 9, 7, 1),
    (3, 9, 8, 2),
    ("35%", 9, 8, 2),
    ("33%", 9, 8, 1),
    (20, 10, 0, 10),
    ("200%", 10, 0, 10),
    (0, 100, 100, 1),
    (0, 100, 99, 0),
    ("0%", 100, 99, 0),
    (10, 0, 0, 0),
    (10, 0, 10, 0),
    (None, 4, 4, 1),
    (None, 4, 3, 0),
    (None, 100, 100, 25),
    (None, 10, 9, 1),
]
LIMITS = st.none() | st.integers(-5, 300) | st.integers(0, 300).map("{}%".format)


@pytest.mark.criterion("A2.7-rollout", "COSMOS-A2-17")
@pytest.mark.parametrize(("max_unavailable", "desired", "ready", "expected"), VECTORS)
def test_the_vectors_of_the_reference(
    max_unavailable: MaxUnavailable, desired: int, ready: int, expected: int
) -> None:
    assert compute_rollout(max_unavailable, desired, ready) == expected


@pytest.mark.criterion("A2.7-rollout", "COSMOS-A2-17")
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(LIMITS, st.integers(0, 500), st.integers(0, 500))
def test_the_budget_is_never_overdrawn_and_never_forgotten(
    max_unavailable: MaxUnavailable, desired: int, ready: int
) -> None:
    allowed = tolerated(max_unavailable, desired)
    budget = compute_rollout(max_unavailable, desired, ready)
    assert 0 <= budget <= desired
    if budget:
        assert desired - ready + budget <= allowed
    if 0 < desired <= ready:
        assert budget >= 1, "all are well, and yet nothing could ever be changed"
    if ready < 500:
        assert budget <= compute_rollout(max_unavailable, desired, ready + 1)


@pytest.mark.criterion("A2.7-rollout")
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(LIMITS, st.integers(1, 60), st.integers(1, 60))
def test_a_rollout_by_the_budget_ends_and_keeps_enough_up(
    max_unavailable: MaxUnavailable, desired: int, slowness: int
) -> None:
    """Each step takes as many as it may; those taken come back when nothing else can be done."""
    outdated, down, steps = desired, 0, 0
    while outdated:
        taken = min(compute_rollout(max_unavailable, desired, desired - down), outdated)
        down, outdated = down + taken, outdated - taken
        assert down <= tolerated(max_unavailable, desired)
        steps += 1
        assert steps <= 2 * desired, "it never ends"
        if not taken or steps % slowness == 0:
            down = 0


@pytest.mark.parametrize(("desired", "ready"), [(-1, 0), (0, -1)])
def test_numbers_below_nothing_are_refused(desired: int, ready: int) -> None:
    with pytest.raises(ValueError, match="there cannot be"):
        compute_rollout(1, desired, ready)


@pytest.mark.parametrize("given_limit", ["", "few", "1.5%", "-5%", "25"])
def test_what_is_neither_number_nor_percentage_is_refused(given_limit: str) -> None:
    with pytest.raises(ValueError, match="a percentage such as 25%"):
        tolerated(given_limit, 4)
