"""Which tests a worker of a parallel run gets at a time, and in which order such units go out. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tests.durations.records import file_of, group_of_id

UNIT_SECONDS = 15.0
"""A file whose tests need longer is divided, so that the last worker does not run for long alone."""


@dataclass(slots=True)
class _Unit:
    name: str
    tests: list[str] = field(default_factory=list)
    seconds: float = 0.0


def units(
    tests: Iterable[str], expected: Callable[[str], float], limit: float = UNIT_SECONDS
) -> Mapping[str, list[str]]:
    """Return the units by name, the longest first.

    `tests`: IDs in the order of collection, which is kept within a unit. `expected`: the seconds that a test
    is likely to need. A group of pytest-xdist is one unit, whatever it takes, because its tests share what
    is costly; else tests of one file stay together, since what a module's fixtures make is made once for each unit.
    """
    found: dict[str, _Unit] = {}
    current: dict[str, _Unit] = {}
    for test in tests:
        group = group_of_id(test)
        seconds = expected(test)
        key = group or file_of(test)
        unit = current.get(key)
        if unit is None or (not group and unit.tests and unit.seconds + seconds > limit):
            unit = _Unit(key if unit is None else f"{key} from {test}")
            current[key] = found[unit.name] = unit
        unit.tests.append(test)
        unit.seconds += seconds
    longest_first = sorted(found.values(), key=lambda unit: -unit.seconds)
    return {unit.name: unit.tests for unit in longest_first}
