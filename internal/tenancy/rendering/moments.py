"""Points in time, read and written by Go's layouts. All are in UTC: there is no other zone here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache

from internal.tenancy.rendering.errors import TemplateError

LONGEST = 256
"""Longest layout, in characters."""

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_CHUNK = re.compile(
    r"January|Jan(?![a-z])|Monday|Mon(?![a-z])|MST|2006|_2006|__2|_2|002|01|02|03|04|05|06|15|1|2|3|4|5"
    r"|PM|pm|[-Z]07:00:00|[-Z]070000|[-Z]07:00|[-Z]0700|[-Z]07|[.,](?:0+|9+)(?!\d)"
)
_READERS = {
    "2006": r"(?P<year>\d{4})", "06": r"(?P<short_year>\d\d)",
    "01": r"(?P<month>\d\d)", "1": r"(?P<month>\d\d?)",
    "02": r"(?P<day>\d\d)", "2": r"(?P<day>\d\d?)", "_2": r" ?(?P<day>\d\d?)",
    "15": r"(?P<hour>\d\d)", "03": r"(?P<hour12>\d\d)", "3": r"(?P<hour12>\d\d?)",
    "04": r"(?P<minute>\d\d)", "4": r"(?P<minute>\d\d?)",
    "05": r"(?P<second>\d\d)(?P<fraction>[.,]\d{1,9})?",
    "5": r"(?P<second>\d\d?)(?P<fraction>[.,]\d{1,9})?",
    "January": f"(?P<month_name>{'|'.join(_MONTHS)})",
    "Jan": f"(?P<month_name>{'|'.join(name[:3] for name in _MONTHS)})",
    "Monday": f"(?:{'|'.join(_DAYS)})", "Mon": f"(?:{'|'.join(name[:3] for name in _DAYS)})",
    "PM": "(?P<half>AM|PM)", "pm": "(?P<half>am|pm)", "MST": "(?:UTC|GMT)",
    "-0700": r"(?P<offset>[+-]\d{4})", "-07:00": r"(?P<offset>[+-]\d\d:\d\d)",
    "Z0700": r"(?P<offset>Z|[+-]\d{4})", "Z07:00": r"(?P<offset>Z|[+-]\d\d:\d\d)",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Moment:
    """One point in time."""

    at: datetime

    def __str__(self) -> str:
        fraction = f".{self.at.microsecond:06}".rstrip("0") if self.at.microsecond else ""
        return f"{written(self, '2006-01-02 15:04:05')}{fraction} +0000 UTC"


def written(moment: Moment, layout: str) -> str:
    """Return the moment in the layout, `2006-01-02` or `Jan 2, 15:04`. Raises TemplateError."""
    return _CHUNK.sub(lambda found: _written(moment.at, found.group()), _checked(layout))


def read(text: str, layout: str) -> Moment:
    """Return the moment that a text in the layout spells; UTC where it names no zone. Raises TemplateError."""
    try:
        spelled = _reader(_checked(layout)).fullmatch(text)
        return Moment(_read(spelled.groupdict() if spelled else {"year": "0"}))
    except (ValueError, OverflowError):
        raise TemplateError("toDate: the value is not a date in this layout") from None


@lru_cache(maxsize=64)
def _reader(layout: str) -> re.Pattern[str]:
    """Return what matches texts in the layout."""
    pattern: list[str] = []
    end = 0
    for found in _CHUNK.finditer(layout):
        if found.group() not in _READERS:
            raise TemplateError(f"toDate: the part {found.group()} of the layout cannot be read")
        pattern += [re.escape(layout[end : found.start()]), _READERS[found.group()]]
        end = found.end()
    pattern.append(re.escape(layout[end:]))
    try:
        return re.compile("".join(pattern), re.ASCII)
    except re.error:
        raise TemplateError("toDate: the layout has a part twice") from None


def moved(moment: Moment, nanoseconds: int) -> Moment:
    """Return the moment so much later, or earlier. Raises TemplateError."""
    try:
        return Moment(moment.at + timedelta(microseconds=nanoseconds // 1000))
    except OverflowError:
        raise TemplateError("dateModify: the date is not within the years 1 to 9999") from None


def of_epoch(seconds: int) -> Moment:
    """Return the moment so many seconds after 1970. Raises TemplateError."""
    return moved(Moment(datetime(1970, 1, 1, tzinfo=UTC)), seconds * 10**9)


def _checked(layout: str) -> str:
    if len(layout) > LONGEST:
        raise TemplateError(f"a date's layout is longer than {LONGEST} characters")
    return layout


def _read(parts: dict[str, str | None]) -> datetime:
    year = int(parts.get("year") or 0)
    if short := parts.get("short_year"):
        year = int(short) + (1900 if int(short) >= 69 else 2000)
    month = int(parts.get("month") or 1)
    if name := parts.get("month_name"):
        month = next(i for i, full in enumerate(_MONTHS, 1) if full.startswith(name))
    hour = int(parts.get("hour") or 0)
    if half := parts.get("half"):
        hour = int(parts.get("hour12") or 12) % 12 + 12 * (half.upper() == "PM")
    elif twelve := parts.get("hour12"):
        hour = int(twelve)
    at = datetime(
        year,
        month,
        int(parts.get("day") or 1),
        hour,
        int(parts.get("minute") or 0),
        int(parts.get("second") or 0),
        int((parts.get("fraction") or ".0")[1:].ljust(6, "0")[:6]),
        tzinfo=_zone(parts.get("offset") or "Z"),
    )
    return at.astimezone(UTC)


def _zone(offset: str) -> timezone:
    if offset == "Z":
        return UTC
    digits = offset[1:].replace(":", "")
    length = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-length if offset[0] == "-" else length)


def _written(at: datetime, chunk: str) -> str:
    if chunk[0] in ".,":
        digits = f"{at.microsecond:06}".ljust(len(chunk) - 1, "0")[: len(chunk) - 1]
        if chunk[1] == "9":
            digits = digits.rstrip("0")
            return chunk[0] + digits if digits else ""
        return chunk[0] + digits
    if chunk[0] == "Z":
        return "Z"
    if chunk[0] == "-":
        return "+" + re.sub(r"\d", "0", chunk[1:])
    twelve = at.hour % 12 or 12
    day = at.timetuple().tm_yday
    return {
        "January": _MONTHS[at.month - 1], "Jan": _MONTHS[at.month - 1][:3],
        "Monday": _DAYS[at.weekday()], "Mon": _DAYS[at.weekday()][:3], "MST": "UTC",
        "2006": f"{at.year:04}", "_2006": f"_{at.year:04}", "06": f"{at.year % 100:02}",
        "__2": f"{day:3}", "002": f"{day:03}", "01": f"{at.month:02}", "1": str(at.month),
        "02": f"{at.day:02}", "2": str(at.day), "_2": f"{at.day:2}", "15": f"{at.hour:02}",
        "03": f"{twelve:02}", "3": str(twelve), "04": f"{at.minute:02}", "4": str(at.minute),
        "05": f"{at.second:02}", "5": str(at.second), "PM": "PM" if at.hour >= 12 else "AM",
        "pm": "pm" if at.hour >= 12 else "am",
    }[chunk]  # fmt: skip
