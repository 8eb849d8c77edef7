"""Which heights that nodes report are believed. Pure.

A height decides on the version that a node runs, and is kept. So one wrong answer must not raise it for good. Where
two other nodes answer, they are the witnesses: no height counts that is beyond them by more than a small step. Where
there are fewer, a greater step needs a second answer, and the lower of the two counts.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

STEP: Final = 1_000
"""Blocks that a height may be beyond the witnesses or, without them, beyond what is recorded: about an hour."""
SPAN: Final = 1_000_000
"""Blocks that lie at most between two answers in a row of a node without witnesses: it may be replaying blocks."""
QUORUM: Final = 2
"""Other nodes whose heights decide: the witnesses."""


@dataclass(frozen=True, slots=True)
class Believed:
    """The heights to go by, by node."""

    heights: dict[str, int] = field(default_factory=dict)
    """Those that are believed."""
    lowered: dict[str, int] = field(default_factory=dict)
    """Those that are recorded too high: by two others, and by the node itself."""
    rejected: frozenset[str] = frozenset()
    """Nodes whose answer is not believed."""
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
        counts = plausible_height(height, known, others, earlier.get(node))
        if _is_too_high(known, height, others):
            lowered[node] = made[node] = height
        elif counts is not None:
            made[node] = counts
        else:
            unconfirmed |= len(others) < QUORUM
    return Believed(made, lowered, frozenset(polled.keys() - made.keys()), unconfirmed)


def plausible_height(
    height: int, known: int, others: Collection[int], earlier: int | None
) -> int | None:
    """Return the height that may be recorded for a reported one; None if none may be.

    `known`: the recorded one, 0 if there is none. `earlier`: that of the answer before, if there was one.
    """
    if height <= known:
        return height
    # Before the step from what is recorded: one that lies again and again would climb by it.
    if len(others) >= QUORUM:
        return height if height <= sorted(others)[-QUORUM] + STEP else None
    if height <= known + STEP:
        return height
    return None if earlier is None or abs(height - earlier) > SPAN else min(height, earlier)


def _is_too_high(known: int, height: int, others: Collection[int]) -> bool:
    """Whether a recorded height is beyond what the node and two others report; among three, all have to."""
    return len(others) >= QUORUM and known > max(height, sorted(others)[QUORUM - 1] + STEP)
