"""How fairly runs were started: what the objects say of their waiting lines. Pure.

Whoever is not started at once enters the waiting line of its type. Those who enter one line within
the same second, as long as a run takes, came at the same time for all purposes: they are a cohort,
and an order that is fair makes them wait about equally long. Windows are not longer than that, since
of a thousand who come at once and are served at a steady pace the last waits twice the median by
arithmetic alone. Waits shorter than a run count as one run: that long it takes until a place becomes
free, whatever the order.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from apis.cloud import TaskState, TaskStatus

WINDOW = 1.0
"""Seconds; those of one run of the bench."""


@dataclass(frozen=True, slots=True, order=True)
class Wait:
    """One stay in a waiting line."""

    since: datetime
    until: datetime

    @property
    def seconds(self) -> float:
        return (self.until - self.since).total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fairness:
    """One waiting line, as it was."""

    queued: int = 0
    """Who entered it."""
    median: float = 0.0
    longest: float = 0.0
    """Seconds, of all who entered it."""
    longest_to_median: float = 0.0
    """Of the cohort where that is most; 0 if nobody waited."""
    overtakers: int = 0
    """Most who came later and were started earlier than somebody."""


def wait_of(status: TaskStatus) -> Wait | None:
    """The wait for the first run; None if there was none, or it was started at once."""
    steps = {step.type: step.last_transition_time for step in status.task_conditions}
    since, until = steps.get(TaskState.PENDING), steps.get(TaskState.CREATING)
    if since is None or until is None or until <= since:
        return None
    return Wait(since, until)


def fairness(waits: Iterable[Wait]) -> Fairness:
    """What became of those who entered one line."""
    line = sorted(waits)
    if not line:
        return Fairness()
    seconds = [wait.seconds for wait in line]
    return Fairness(
        queued=len(line),
        median=statistics.median(seconds),
        longest=max(seconds),
        longest_to_median=max(map(_unevenness, _cohorts(line))),
        overtakers=max(
            sum(other.until < wait.until for other in line[place:])
            for place, wait in enumerate(line)
        ),
    )


def _cohorts(line: Sequence[Wait]) -> list[list[Wait]]:
    found: dict[int, list[Wait]] = defaultdict(list)
    for wait in line:
        found[int((wait.since - line[0].since).total_seconds() / WINDOW)].append(wait)
    return list(found.values())


def _unevenness(cohort: Sequence[Wait]) -> float:
    seconds = [max(wait.seconds, WINDOW) for wait in cohort]
    return max(seconds) / statistics.median(seconds)
