"""Counts of the last hour, sampled from memory: what the charts draw. Bounded, whatever there is to count."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan, nan
from typing import Final

PERIOD: Final = 30.0
"""Seconds between two samples."""
SAMPLES: Final = 120
"""Samples that are kept: an hour."""
LINES: Final = 1000
"""Lines that are kept, 960 bytes of samples each; further ones are left out until others have ended."""

Chart = tuple[str, ...]
"""What a chart is of, such as ("fleet", "Tenant", "default")."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart: a value for each sample, NaN where there was none."""

    name: str
    values: tuple[float, ...]

    @property
    def last(self) -> float:
        """The latest value."""
        return next((value for value in reversed(self.values) if not isnan(value)), nan)


class History:
    """A ring of samples for each line of each chart."""

    def __init__(self, lines: int = LINES) -> None:
        self._most = lines
        self._rings: dict[tuple[Chart, str], array[float]] = {}
        self._taken = 0

    def __len__(self) -> int:
        return len(self._rings)

    def sample(self, values: Mapping[tuple[Chart, str], float]) -> None:
        """Record the values of all lines at a moment. Lines without any left are forgotten."""
        place = self._taken % SAMPLES
        self._taken += 1
        for key, ring in list(self._rings.items()):
            ring[place] = values.get(key, nan)
            if key not in values and all(map(isnan, ring)):
                del self._rings[key]
        for key, value in values.items():
            if key not in self._rings and len(self._rings) < self._most:
                ring = self._rings[key] = array("d", [nan]) * SAMPLES
                ring[place] = value

    def lines(self, chart: Chart) -> list[Line]:
        """Return the lines of a chart, the oldest sample first, as many as were taken."""
        start = self._taken % SAMPLES
        taken = min(self._taken, SAMPLES)
        return [
            Line(name, (*ring[start:], *ring[:start])[SAMPLES - taken :])
            for (of, name), ring in self._rings.items()
            if of == chart
        ]


def summed(charts: list[list[Line]]) -> list[Line]:
    """Return charts with lines of the same names as one, whose values are the sums."""
    found: dict[str, list[float]] = {}
    for lines in charts:
        for line in lines:
            sums = found.setdefault(line.name, [nan] * len(line.values))
            for place, value in enumerate(line.values):
                if not isnan(value):
                    sums[place] = value + (0.0 if isnan(sums[place]) else sums[place])
    return [Line(name, tuple(values)) for name, values in found.items()]
