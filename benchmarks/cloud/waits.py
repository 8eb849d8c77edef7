"""How many runs there were at once, and how fairly they were started: what the objects say. Pure.

Whoever is not started at once enters the waiting line of its type. Those who enter one line within
the same second, as long as a run takes, came at the same time for all purposes: they are a cohort,
and an order that is fair makes them wait about equally long. Windows are not longer than that, since
of a thousand who come at once and are served at a steady pace the last waits twice the median by
arithmetic alone. Waits shorter than a run count as one run: that long it takes until a place becomes
free, whatever the order.
"""

import itertools
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from apis.cloud import TaskState, TaskStatus

WINDOW = 1.0
"""Seconds; those of one run of the bench."""


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A time with a beginning and an end."""

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


def spans_of(status: TaskStatus) -> list[Span]:
    """From intent to recorded end of every run that ended: as long it holds a place of its type."""
    steps = [(step.type, step.last_transition_time) for step in reversed(status.task_conditions)]
    begun = [at for state, at in steps if state is TaskState.CREATING]
    ended = [at for state, at in steps if state is TaskState.DONE]
    return [Span(*span) for span in zip(begun, ended, strict=False)]


def most_at_once(spans: Iterable[Span]) -> int:
    """The most of them that overlap. One that begins as another ends follows it."""
    changes = sorted(change for span in spans for change in ((span.since, 1), (span.until, -1)))
    return max(itertools.accumulate(step for _, step in changes), default=0)


def wait_of(status: TaskStatus) -> Span | None:
    """The wait for the first run; None if there was none, or it was started at once."""
    steps = {step.type: step.last_transition_time for step in status.task_conditions}
    since, until = steps.get(TaskState.PENDING), steps.get(TaskState.CREATING)
    if since is None or until is None or until <= since:
        return None
    return Span(since, until)


def fairness(waits: Iterable[Span]) -> Fairness:
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


def _cohorts(line: Sequence[Span]) -> list[list[Span]]:
    found: dict[int, list[Span]] = defaultdict(list)
    for wait in line:
        found[int((wait.since - line[0].since).total_seconds() / WINDOW)].append(wait)
    return list(found.values())


def _unevenness(cohort: Sequence[Span]) -> float:
    seconds = [max(wait.seconds, WINDOW) for wait in cohort]
    return max(seconds) / statistics.median(seconds)
