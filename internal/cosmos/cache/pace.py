"""When a node is asked again. Pure."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ctrlruntime.clock import draw_between

PER_SECOND: Final = 250
"""Questions a second on the average, of all nodes; they take about a fifth of a core. With more nodes each waits longer."""
SLOWEST: Final = 30.0
"""Seconds: a node that does not answer in time is asked less and less often, but once in this time."""
JITTER: Final = 0.1
"""By how much of itself an interval is longer or shorter, at random: nodes are not asked all at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Intervals between two questions to one node, in seconds."""

    interval: float
    """Where nothing speaks against it."""
    draw: Callable[[float, float], float] = field(default=draw_between)
    """A number between two, at random."""

    def pause(self, nodes: int, overdue: int = 0) -> float:
        """How long to wait when there are so many `nodes`, and the last `overdue` questions to this one took all the time they were given."""
        usual = max(self.interval, nodes / PER_SECOND)
        slowed = usual * 2.0 ** min(overdue, 10)
        return min(slowed, max(SLOWEST, usual)) * self.draw(1 - JITTER, 1 + JITTER)
