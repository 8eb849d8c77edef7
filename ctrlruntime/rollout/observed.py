"""How much of a deadline was observed: what a wall clock jumps over did not pass."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from ctrlruntime import clock

TOLERANCE: Final = timedelta(seconds=10)
"""A difference between two clocks that is no jump: of clocks that are slewed, and of two readings in a row."""
_MOST: Final = 100
"""Jumps that are kept."""


@dataclass(frozen=True, slots=True)
class ClockJump:
    """A jump of the wall clock by `size`; `latest` is the last time of the clock that may have been before it."""

    latest: datetime
    size: timedelta


@dataclass(slots=True)
class ObservedClock:
    """Compares a wall clock with one that only passes, each time it is read.

    Times on objects are the wall clock's, since a process has no other one that outlives it. A jump while no process
    reads both clocks is not seen.
    """

    wall: Callable[[], datetime] = clock.utc_now
    steady: Callable[[], float] = clock.monotonic
    """Seconds that never go back, and stand still while nothing can be done, as on a suspended machine."""
    _jumps: tuple[ClockJump, ...] = ()
    _last: tuple[datetime, float] = field(init=False)

    @classmethod
    def of(cls, wall: Callable[[], datetime]) -> "ObservedClock":
        """Return the clock beside the process's own one; any other clock has none beside it, and never jumps."""
        return cls() if wall is clock.utc_now else cls(wall, lambda: wall().timestamp())

    def __post_init__(self) -> None:
        """Read both clocks, so that a jump from now on is seen."""
        self._last = self.wall(), self.steady()

    def jumps(self) -> tuple[ClockJump, ...]:
        """Read both clocks and return the jumps seen so far, oldest first."""
        now, steady = self.wall(), self.steady()
        before, steady_before = self._last
        self._last = now, steady
        expected = before + timedelta(seconds=steady - steady_before)
        if abs(now - expected) > TOLERANCE:
            self._jumps = (*self._jumps, ClockJump(expected, now - expected))[-_MOST:]
        return self._jumps


def observed_from(begun: datetime, jumps: tuple[ClockJump, ...]) -> datetime:
    """Return the moment from which a deadline that began then runs, without what the clock jumped over since.

    A time that came twice, as the clock jumped back, is taken as the second: a deadline may be long, never too short.
    """
    since = (each for each in jumps if begun <= each.latest + min(each.size, timedelta()))
    return begun + sum((each.size for each in since), timedelta())
