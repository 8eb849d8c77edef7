"""Maintenance windows: a cron expression in a time zone, and a duration. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ctrlruntime.rollout.waiting import Reason, Waiting
from ctrlruntime.schedule import BadSchedule, Schedule, parse

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


class BadWindow(ValueError):
    """A window that cannot be used; the message names the field and a value to write."""


@dataclass(frozen=True, slots=True)
class Window:
    """Openings by a schedule, each `duration` long as a clock without time zones measures it."""

    schedule: Schedule
    duration: timedelta

    def closes(self, now: datetime) -> datetime | None:
        """Return when the window that is open now closes; None if it is closed. Touching openings are apart."""
        opened = self.schedule.latest(now - self.duration, now, _BEGINNING)
        return None if opened is None else opened + self.duration

    def opens(self, now: datetime) -> datetime | None:
        """Return the first opening after `now`; None if none comes within fifty years."""
        return self.schedule.next(now, _BEGINNING)


def parse_window(schedule: str, duration: timedelta, zone: str | None = None) -> Window:
    """Return the window of a cron expression. Raises BadWindow."""
    try:
        parsed = parse(schedule, zone)
    except BadSchedule as error:
        raise BadWindow(str(error).replace("spec.", "", 1)) from None
    if parsed.every is not None:
        raise BadWindow(f"schedule {schedule!r}: write a cron expression, @every has no beginning")
    if duration <= timedelta(0):
        raise BadWindow("duration: write one that is longer than zero, for example 2h")
    return Window(parsed, duration)


def is_open(windows: Sequence[Window], now: datetime) -> bool:
    """Return whether changes may be made now: a window is open, or there are no windows."""
    return not windows or closing(windows, now) is not None


def closing(windows: Sequence[Window], now: datetime) -> datetime | None:
    """Return when the last of the windows that are open now closes; None if all are closed."""
    return max(filter(None, (window.closes(now) for window in windows)), default=None)


def next_opening(windows: Sequence[Window], now: datetime) -> datetime | None:
    """Return when the first window opens after `now`; None if none ever does."""
    return min(filter(None, (window.opens(now) for window in windows)), default=None)


def closed_window(windows: Sequence[Window], now: datetime) -> Waiting | None:
    """Return why changes wait while all of the windows are closed; None if they need not."""
    if is_open(windows, now):
        return None
    opens = next_opening(windows, now)
    when = "never opens" if opens is None else f"opens at {opens.isoformat()}"
    return Waiting(Reason.WINDOW, f"the maintenance window {when}", opens)
