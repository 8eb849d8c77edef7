"""How long a rollout still takes, judged by how fast it went so far. Pure: the clock is passed in."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

SAMPLES: Final = 32
"""Steps of a rollout that count: older ones belong to another wave."""
MOST: Final = 500
"""Rollouts that are remembered."""


@dataclass(slots=True)
class _Course:
    target: str
    samples: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    total: int = 0


class Estimates:
    """The course of each rollout as its status showed it. Times in seconds."""

    def __init__(self) -> None:
        self._courses: dict[str, _Course] = {}

    def observe(self, key: str, target: str, updated: int, total: int, now: float) -> None:
        """Record how far a rollout has come. Another target, or a step back, begins anew."""
        course = self._courses.get(key)
        if course is None or course.target != target or updated < course.samples[-1][1]:
            course = self._courses[key] = _Course(target)
            while len(self._courses) > MOST:
                del self._courses[next(iter(self._courses))]
        course.total = total
        if not course.samples or updated != course.samples[-1][1]:
            course.samples.append((now, updated))

    def forget(self, key: str) -> None:
        """Forget a rollout that is gone."""
        self._courses.pop(key, None)

    def remaining(self, key: str, now: float) -> float | None:
        """Return the seconds until all members have changed; None before two steps were seen."""
        course = self._courses.get(key)
        if course is None or len(course.samples) < 2:
            return None
        (began, first), (ended, last) = course.samples[0], course.samples[-1]
        pace = (ended - began) / (last - first)
        left = (course.total - last) * pace
        return max(left - (now - ended), 0.0)


def in_words(seconds: float | None) -> str:
    """Return a duration for people, rounded; "not known yet" for None."""
    if seconds is None:
        return "not known yet"
    if seconds < 90:
        return f"about {max(round(seconds), 1)} s"
    if seconds < 5400:
        return f"about {round(seconds / 60)} min"
    return f"about {round(seconds / 3600)} h"
