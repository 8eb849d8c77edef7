"""Schedules: cron expressions in a time zone, and fixed intervals. Pure.

Five fields as Debian's cron reads them, and the usual macros. A time that the clock skips
when summer begins runs when the gap ends; one that comes twice when summer ends runs once, unless the
expression runs in every hour or minute anyway. `@every` counts from when the schedule began.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from ctrlruntime.api.scalars import parse_duration

SHORTEST: Final = timedelta(minutes=1)
"""Of an interval: what is made for a time is named by its minute."""

_MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY: Final = "@every"
_EXAMPLES: Final = "write for example '0 */6 * * *', '@daily' or '@every 6h'"


class BadSchedule(ValueError):
    """An expression or time zone that cannot be used; the message names the correct form."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Moments in order, without end or, for expressions that ever fewer days match, with one."""

    expression: str
    zone: str
    every: timedelta | None = None
    """The interval, if it is one."""

    def next(self, after: datetime, start: datetime) -> datetime | None:
        """Return the first moment after `after`, in UTC; None if none comes within fifty years.

        `start` is when the schedule began; nothing runs before or at it.
        """
        return next(self._moments(max(after, start), start), None)

    def latest(self, after: datetime, until: datetime, start: datetime) -> datetime | None:
        """Return the last moment after `after` and not after `until`; of many that were missed only this one."""
        after = max(after, start)
        span = timedelta(minutes=2)
        while after < until:
            first = self._last_of(max(after, until - span), until, start)
            if first is not None or until - span <= after:
                return first
            span = min(span * 4, until - after)
        return None

    def _last_of(self, after: datetime, until: datetime, start: datetime) -> datetime | None:
        found = None
        for moment in self._moments(after, start):
            if moment > until:
                break
            found = moment
        return found

    def _moments(self, after: datetime, start: datetime) -> Iterator[datetime]:
        if self.every is not None:
            count = (after - start) // self.every
            while True:
                count += 1
                yield start + count * self.every
        for moment in CronSim(self.expression, after.astimezone(ZoneInfo(self.zone))):
            found = moment.astimezone(UTC)
            if found > after:  # of an hour that comes twice, the simulation tells the first
                yield found


@lru_cache(maxsize=4096)
def parse(expression: str, zone: str | None = None) -> Schedule:
    """Return the schedule that an expression means. Raises BadSchedule."""
    name = (zone or "UTC").strip()
    _check_zone(name)
    text = expression.strip()
    word, _, rest = text.partition(" ")
    if word.lower() == _EVERY:
        return Schedule(text, name, _interval(rest))
    if text.startswith("@"):
        if text.lower() not in _MACROS:
            known = ", ".join([*_MACROS, f"{_EVERY} <duration>"])
            raise BadSchedule(f"spec.schedule {expression!r} is none of {known}")
        text = _MACROS[text.lower()]
    return Schedule(_checked(text, expression), name)


def _checked(text: str, expression: str) -> str:
    fields = text.split()
    if len(fields) != 5:
        raise BadSchedule(
            f"spec.schedule {expression!r} has {len(fields)} fields, not five (minute, hour, day of the "
            f"month, month, day of the week): {_EXAMPLES}; the time zone has a field of its own"
        )
    try:
        first = CronSim(text, datetime(2024, 1, 1, tzinfo=UTC))
    except (CronSimError, ValueError, OverflowError) as error:
        problem = str(error).removeprefix("Bad ")
        raise BadSchedule(
            f"spec.schedule {expression!r}: the field for the {problem} cannot be read; {_EXAMPLES}"
        ) from None
    if next(first, None) is None:
        raise BadSchedule(f"spec.schedule {expression!r} names no day that ever comes; {_EXAMPLES}")
    return " ".join(fields)


def _interval(text: str) -> timedelta:
    try:
        length = parse_duration(text.strip())
    except ValueError as error:
        raise BadSchedule(f"spec.schedule '{_EVERY} {text}': {error}") from None
    if length < SHORTEST:
        raise BadSchedule(f"spec.schedule '{_EVERY} {text}': an interval is one minute or longer")
    return timedelta(seconds=length // timedelta(seconds=1))


def _check_zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        raise BadSchedule(
            f"spec.timeZone {name!r} is not known: write it as Europe/Berlin or UTC"
        ) from None
