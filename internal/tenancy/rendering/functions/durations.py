"""Functions on lengths of time. There is none that reads a clock."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from internal.tenancy.rendering.limits import check_integer
from internal.tenancy.rendering.values import to_text

_SECOND = 10**9
_UNITS = {
    "ns": 1, "us": 1000, "µs": 1000, "ms": 10**6, "s": _SECOND, "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}  # fmt: skip
_DURATION = re.compile(r"([+-]?)((?:\d{1,20}(?:\.\d{0,20})?(?:ns|us|µs|ms|s|m|h))+)", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d*)?)(ns|us|µs|ms|s|m|h)", re.ASCII)
_COARSE = (
    ("y", 365 * 86400), ("mo", 30 * 86400), ("d", 86400), ("h", 3600), ("m", 60), ("s", 1),
)  # fmt: skip


def duration(seconds: object) -> str:
    """Return a number of seconds as Go writes it: `1m35s`; what is no number is `0s`."""
    text = to_text(seconds)
    total = int(text) if re.fullmatch(r"[+-]?\d{1,10}", text, re.ASCII) else 0
    hours, rest = divmod(abs(total), 3600)
    minutes, left = divmod(rest, 60)
    sign = "-" if total < 0 else ""
    if hours:
        return f"{sign}{hours}h{minutes}m{left}s"
    return f"{sign}{minutes}m{left}s" if minutes else f"{sign}{left}s"


def duration_round(value: object) -> str:
    """Return a duration in its largest unit: `2400h10m5s` is `3mo`. A number is one of nanoseconds."""
    spent = abs(value if isinstance(value, int) else nanoseconds(to_text(value)) or 0)
    for unit, seconds in _COARSE:
        if spent > seconds * _SECOND:
            return f"{spent // (seconds * _SECOND)}{unit}"
    return "0s"


def nanoseconds(text: str) -> int | None:
    """Return the length of a duration as Go writes it; None if it is none."""
    found = _DURATION.fullmatch(text) if len(text) <= 64 else None
    if found is None:
        return None
    parts = _PART.findall(found[2])
    length = check_integer(int(sum(Fraction(number) * _UNITS[unit] for number, unit in parts)))
    return -length if found[1] == "-" else length


DURATIONS: dict[str, Callable[..., Any]] = {"duration": duration, "durationRound": duration_round}
