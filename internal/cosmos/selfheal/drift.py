"""Which nodes fell behind the others of their set. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from internal.cosmos.cache.observation import Observation


@dataclass(frozen=True, slots=True)
class Laggard:
    """A node that fell behind."""

    node: Observation
    behind: int
    """Blocks behind the highest."""


def laggards(synced: Sequence[Observation], threshold: int) -> list[Laggard]:
    """Those at least `threshold` blocks behind, the furthest first, then by ordinal.

    `synced`: the nodes that say that they have caught up. One that says that it is catching up knows that it
    is behind, and works on it. A node is compared with those asked no later than itself: one that was asked a
    little earlier than the others is not behind for that.
    """
    found: list[Laggard] = []
    for node in synced:
        before = [_height(other) for other in synced if _is_no_later(other, node)]
        behind = max(before, default=0) - _height(node)
        if behind >= threshold:
            found.append(Laggard(node, behind))
    return sorted(found, key=lambda each: (-each.behind, each.node.ordinal, each.node.pod))


def _is_no_later(other: Observation, node: Observation) -> bool:
    return other.at is not None and node.at is not None and other.at <= node.at


def _height(node: Observation) -> int:
    return node.height or 0
