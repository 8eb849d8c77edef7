"""Functions on dates of rows: all in UTC, and none that reads a clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from internal.tenancy.rendering.errors import TemplateError
from internal.tenancy.rendering.functions.durations import nanoseconds
from internal.tenancy.rendering.moments import Moment, moved, of_epoch, read, written
from internal.tenancy.rendering.values import to_text

_UTC = frozenset({"", "UTC", "Local"})
_HTML = "2006-01-02"


def to_date(layout: object, text: object) -> Moment:
    """Return the date that a text spells in a layout."""
    return read(to_text(text), to_text(layout))


def date(layout: object, value: object) -> str:
    """Return a date, or a number of seconds since 1970, in a layout."""
    return written(_moment("date", value), to_text(layout))


def date_in_zone(layout: object, value: object, zone: object) -> str:
    """Like `date`; the zone is UTC."""
    if to_text(zone) not in _UTC:
        raise TemplateError("dateInZone: templates know UTC only; have the source convert the date")
    return date(layout, value)


def date_modify(duration: object, value: object) -> Moment:
    """Return the date a duration such as `-1.5h` later."""
    length = nanoseconds(to_text(duration))
    if length is None:
        raise TemplateError("dateModify: the first argument is not a duration such as -1.5h")
    return moved(_moment("dateModify", value), length)


def unix_epoch(value: object) -> str:
    """Return the seconds of a date since 1970."""
    return str(int(_moment("unixEpoch", value).at.timestamp() // 1))


def _moment(name: str, value: object) -> Moment:
    if isinstance(value, Moment):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return of_epoch(value)
    raise TemplateError(
        f"{name}: the value is not a date; make one with toDate, or seconds with int"
    )


DATES: dict[str, Callable[..., Any]] = {
    "toDate": to_date,
    "date": date,
    "dateInZone": date_in_zone,
    "htmlDate": lambda value: date(_HTML, value),
    "htmlDateInZone": lambda value, zone: date_in_zone(_HTML, value, zone),
    "dateModify": date_modify,
    "unixEpoch": unix_epoch,
}
