"""How fast runs of one type start, and how long they take. Pure."""

from bisect import insort
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

MINUTE: Final = timedelta(seconds=60)
REMEMBERED: Final = 50
"""Durations that estimates rest on."""


@dataclass(slots=True)
class Tempo:
    """Starts of the last minute and durations of the last runs."""

    _starts: list[datetime] = field(default_factory=list)
    _durations: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def started(self, at: datetime) -> None:
        """Count a run that started."""
        insort(self._starts, at)
        self.recent(self._starts[-1])

    def retract(self, at: datetime) -> None:
        """Take back a run that was recorded as started then and did not."""
        if at in self._starts:
            self._starts.remove(at)

    def recent(self, now: datetime) -> int:
        """Return the number of starts in the last 60 seconds."""
        while self._starts and now - self._starts[0] >= MINUTE:
            del self._starts[0]
        return len(self._starts)

    def free_in(self, now: datetime, rate: int, behind: int) -> float:
        """Seconds until another start fits, with `behind` others to come first."""
        self.recent(now)
        starts = list(self._starts)
        free = now
        for _ in range(behind + 1):
            free = max(now, starts[-rate] + MINUTE) if len(starts) >= rate else now
            starts.append(free)
        return max(0.0, (free - now).total_seconds())

    def took(self, seconds: float) -> None:
        """Record a run that ended after so many seconds."""
        self._durations.append(max(0.0, seconds))

    @property
    def usual(self) -> float | None:
        """Seconds that a run takes, judged by the last ones; None if nothing is known."""
        return sum(self._durations) / len(self._durations) if self._durations else None
