"""Charts as SVG: where their lines are drawn, and what is written beside them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Final

from manager.console.history import PERIOD, SAMPLES, Line

WIDTH: Final = 600
HEIGHT: Final = 120
MOST: Final = 8
"""Lines of a chart: as many as differ in colour and dashes."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """One line: its name, its last value, and the points of its parts."""

    name: str
    last: str
    style: str
    """Class of its colour and its dashes."""
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with its scale."""

    title: str
    lines: tuple[Drawn, ...]
    low: str
    high: str
    since: str
    """How far back it reaches, in words."""

    @property
    def label(self) -> str:
        """What it shows, for who does not see it."""
        return f"{self.title}: " + ", ".join(f"{line.name} {line.last}" for line in self.lines)


def chart_of(
    title: str, lines: Sequence[Line], styles: Sequence[str] = (), *, from_zero: bool = True
) -> Chart | None:
    """Return a chart of the lines that have values; None if there is none, or one sample alone.

    `styles`: a class by line; default: by place. `from_zero`: whether the scale begins at 0.
    """
    shown = [line for line in lines if not isnan(line.last)][:MOST]
    values = [value for line in shown for value in line.values if not isnan(value)]
    taken = max((len(line.values) for line in shown), default=0)
    if taken < 2 or not values:
        return None
    low, high = 0.0 if from_zero else min(values), max(values)
    span = high - low or 1.0
    drawn = tuple(
        Drawn(
            name=line.name,
            last=_number(line.last),
            style=styles[place] if place < len(styles) else f"line-{place}",
            parts=tuple(_parts(line, low, span)),
        )
        for place, line in enumerate(shown)
    )
    minutes = max(round(taken * PERIOD / 60), 1)
    return Chart(title, drawn, _number(low), _number(high), f"{minutes} min")


def _parts(line: Line, low: float, span: float) -> Iterator[str]:
    """Yield the points of each part without a gap; only the first and last of equal values in a row."""
    before = SAMPLES - len(line.values)
    points: list[str] = []
    for place, value in enumerate(line.values):
        if isnan(value):
            if points:
                yield " ".join(points)
            points = []
            continue
        around = line.values[max(place - 1, 0) : place + 2]
        if 0 < place < len(line.values) - 1 and all(each == value for each in around):
            continue
        x = (place + before) * WIDTH / (SAMPLES - 1)
        y = HEIGHT - 2 - (value - low) * (HEIGHT - 4) / span
        points.append(f"{x:.0f},{y:.1f}")
    if points:
        yield " ".join(points)


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"
