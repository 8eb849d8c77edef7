"""Heights and usages of disks that a status is too early for are written when they are due, also where no node has news any more."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from apis.cosmos import CosmosFullNodeStatus
from internal.cosmos.fullnode.status import Facts, until_complete
from tests.cosmos.fullnode.test_status import NOON, facts, node, told


def _facts(height: int) -> Facts:
    said = told(CosmosFullNodeStatus(), facts(node(0, height))).sync
    return replace(facts(node(0, height)).facts, sync=said)


@pytest.mark.parametrize(
    ("seconds", "height", "expected"),
    [(10, 100, None), (10, 101, 45.0), (54, 101, 1.0), (70, 101, None)],
)
def test_a_height_left_out_is_due_later(
    seconds: float, height: int, expected: float | None
) -> None:
    first = told(CosmosFullNodeStatus(), facts(node(0, 100)))
    then = told(first, facts(node(0, height)), seconds)
    found = until_complete(then, _facts(height), NOON + timedelta(seconds=seconds))
    assert found == expected
    assert (then.height == {"hub-0": height + 1}) is (expected is None)


def test_a_usage_left_out_is_written_later() -> None:
    """The disk answers after the node did, and nothing happens any more: a chain that stands still."""
    before = told(CosmosFullNodeStatus(), facts(node(0, 100)))
    (info,) = before.sync.values()
    used = {"hub-0": info.model_copy(update={"disk_used_percentage": 40})}
    known = replace(_facts(100), sync=used)
    assert until_complete(before, known, NOON + timedelta(seconds=10)) is not None


def test_a_clock_that_was_ahead_delays_no_height() -> None:
    ahead = told(CosmosFullNodeStatus(), facts(node(0, 100)), 7200)
    assert told(ahead, facts(node(0, 101)), 10).height == {"hub-0": 102}
