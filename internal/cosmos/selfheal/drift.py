"""Which nodes fell behind the others of their set. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ctrlruntime.api.scalars import time_or_none
from ctrlruntime.cache.entry import Entry
from internal.cosmos.cache.observation import Observation

WITNESSES: Final = 2
"""Other nodes that have to be ahead of a node that is behind: one alone may report a wrong height."""


@dataclass(frozen=True, slots=True)
class Laggard:
    """A node that fell behind."""

    node: Observation
    behind: int
    """Blocks behind the second highest of the others."""


def laggards(synced: Sequence[Observation], threshold: int) -> list[Laggard]:
    """Those at least `threshold` blocks behind two others, the furthest first, then by ordinal.

    `synced`: the nodes that report that they have caught up. One that reports that it is catching up works on it
    already. A node is compared with what others answered no later than itself: one that was asked a little
    earlier than the others is not behind for that. With fewer than two others nothing can be decided.
    """
    found: list[Laggard] = []
    for node in synced:
        heights = sorted(_heights_before(node, synced), reverse=True)
        if len(heights) < WITNESSES:
            continue
        behind = heights[WITNESSES - 1] - (node.height or 0)
        if behind >= threshold:
            found.append(Laggard(node, behind))
    return sorted(found, key=lambda each: (-each.behind, each.node.ordinal, each.node.pod))


def is_cooling(pod: Entry, seconds: float, now: datetime) -> bool:
    """Whether a Pod is younger than `seconds`: its node is not restarted again yet."""
    created = time_or_none(pod.creation_timestamp)
    return created is not None and (now - created).total_seconds() < seconds


def _heights_before(node: Observation, synced: Sequence[Observation]) -> list[int]:
    """Return the last heights of the others that were answered no later than that of the node."""
    if node.at is None:
        return []
    found = []
    for other in synced:
        if other.uid == node.uid:
            continue
        answers = ((other.at, other.height), (other.earlier_at, other.earlier_height))
        known = [height for at, height in answers if at is not None and at <= node.at]
        if known and known[0] is not None:
            found.append(known[0])
    return found
