"""Which heights that nodes report are believed. Pure.

A height decides on the version that a node runs, and is kept. So one wrong answer must not raise it for good: a step
is bounded, and what goes beyond needs two other nodes that are about as far, or, where there are none, a second answer.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

STEP: Final = 1_000_000
"""Blocks that a height may be beyond what is known: about a month of a chain with a block in three seconds."""
QUORUM: Final = 2
"""Other nodes whose heights decide."""


@dataclass(frozen=True, slots=True)
class Believed:
    """The heights to go by, by node."""

    heights: dict[str, int] = field(default_factory=dict)
    """Those that are believed."""
    lowered: dict[str, int] = field(default_factory=dict)
    """Those that are recorded too high: by two others, and by the node itself."""
    unconfirmed: bool = False
    """Whether one of them would be believed if the next answer were about the same."""


def believed(
    polled: Mapping[str, int], recorded: Mapping[str, int], earlier: Mapping[str, int]
) -> Believed:
    """Decide on the reported heights of a set. `earlier`: those of the answers before."""
    made, lowered, unconfirmed = dict[str, int](), dict[str, int](), False
    for node, height in polled.items():
        others = [at for other, at in polled.items() if other != node]
        known = recorded.get(node, 0)
        limit = ceiling(others)
        if limit is not None and known > limit >= height:
            lowered[node] = made[node] = height
        elif is_plausible(height, known, others, earlier.get(node)):
            made[node] = height
        else:
            unconfirmed |= limit is None
    return Believed(made, lowered, unconfirmed)


def is_plausible(height: int, known: int, others: Collection[int], earlier: int | None) -> bool:
    """Whether a height may be recorded. `known`: the recorded one, 0 if there is none."""
    if height <= known + STEP:
        return True
    limit = ceiling(others)
    if limit is not None:
        return height <= limit
    return earlier is not None and abs(height - earlier) <= STEP


def ceiling(others: Collection[int]) -> int | None:
    """Return the height that no node is beyond, by the second highest of the others; None if they are too few."""
    return sorted(others)[-QUORUM] + STEP if len(others) >= QUORUM else None
