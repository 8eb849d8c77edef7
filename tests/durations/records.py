"""How long tests and fixtures took: what a run records, and the file of it that the repository keeps.

All times are seconds of a wall clock. A run writes `FOLDER/durations.json`::

    {"tests": {"tests/queue/test_core.py::test_a": [setup, call, teardown]},
     "fixtures": {"server": {"times": 12, "setup": 1.5, "teardown": 0.2}}}

The kept file (`KEPT`) is smaller: by file of tests how many there are and the mean of the short ones, and tests that
take long by ID.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
KEPT = Path(__file__).parent / "kept.json"
LATEST = ROOT / ".run" / "durations.json"
"""What the last run wrote, unless `--durations-file` names another place."""
LONG = 1.0
"""Seconds from which on a test has a line of its own in the kept file."""
UNKNOWN = 0.2
"""Seconds that a test without a record is taken to need."""


@dataclass(slots=True)
class FixtureTimes:
    """How often a fixture was made, and the seconds of that without those of the fixtures it uses."""

    times: int = 0
    setup: float = 0.0
    teardown: float = 0.0

    @property
    def seconds(self) -> float:
        return self.setup + self.teardown


@dataclass(slots=True)
class Records:
    """The seconds of one run. `tests`: of setup, call and teardown."""

    tests: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    fixtures: dict[str, FixtureTimes] = field(default_factory=dict)

    def add(self, other: Records) -> None:
        """Add what another process recorded."""
        self.tests |= other.tests
        for name, times in other.fixtures.items():
            mine = self.fixtures.setdefault(name, FixtureTimes())
            mine.times += times.times
            mine.setup += times.setup
            mine.teardown += times.teardown

    def slowest_tests(self, count: int) -> list[tuple[str, float]]:
        """Return tests with their seconds, the slowest first."""
        sums = ((name, sum(phases)) for name, phases in self.tests.items())
        return sorted(sums, key=lambda each: -each[1])[:count]

    def costliest_fixtures(self, count: int) -> list[tuple[str, FixtureTimes]]:
        """Return fixtures by the seconds that all their set-ups and teardowns took, the most first."""
        return sorted(self.fixtures.items(), key=lambda each: -each[1].seconds)[:count]

    def dumps(self) -> str:
        """Return the records as JSON."""
        tests = {name: [round(s, 3) for s in phases] for name, phases in self.tests.items()}
        fixtures = {name: asdict(times) for name, times in self.fixtures.items()}
        return json.dumps({"tests": tests, "fixtures": fixtures})

    @classmethod
    def loads(cls, text: str) -> Records:
        """Return the records of a JSON text. Raises ValueError if it is none of ours."""
        try:
            raw = json.loads(text)
            tests = {name: (a, b, c) for name, (a, b, c) in raw["tests"].items()}
            fixtures = {name: FixtureTimes(**times) for name, times in raw["fixtures"].items()}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"not a file of durations: {error}") from error
        return cls(tests, fixtures)


def file_of(test: str) -> str:
    """Return the path in a test's ID."""
    return test.partition("::")[0]


def group_of_id(test: str) -> str:
    """Return the group that pytest-xdist appended to a test's ID, "" where it has none."""
    return test.rpartition("@")[2] if test.rfind("@") > test.rfind("]") else ""


def bare(test: str) -> str:
    """Return a test's ID without its group."""
    group = group_of_id(test)
    return test.removesuffix(f"@{group}") if group else test


@dataclass(frozen=True, slots=True)
class Kept:
    """What is known from earlier runs. `files`: of a file its short tests, as count and mean of their seconds.
    `long`: the seconds of long tests by ID."""

    files: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    long: Mapping[str, float] = field(default_factory=dict)

    def expected(self, test: str) -> float:
        """Return the seconds that a test is likely to need."""
        name = bare(test)
        found = self.long.get(name)
        return self.files.get(file_of(name), (0, UNKNOWN))[1] if found is None else found

    def seconds_of(self, file: str) -> float:
        """Return the seconds of all tests of a file."""
        count, mean = self.files.get(file, (0, 0.0))
        return count * mean + sum(s for name, s in self.long.items() if file_of(name) == file)


@cache
def kept() -> Kept:
    """Return the repository's file of durations; an empty one where it is missing."""
    if not KEPT.exists():
        return Kept()
    raw = json.loads(KEPT.read_text())
    return Kept({name: (count, mean) for name, (count, mean) in raw["files"].items()}, raw["long"])


def merged(known: Kept, records: Records) -> Kept:
    """Return what is known after another run, which may have run a part of the tests only.

    The mean of a file leaves its long tests out. Files and tests that are gone are dropped.
    """
    shorts: dict[str, list[float]] = defaultdict(list)
    long = {
        name: seconds
        for name, seconds in known.long.items()
        if name not in records.tests and (ROOT / file_of(name)).exists()
    }
    for name, phases in records.tests.items():
        seconds = round(sum(phases), 1 if sum(phases) >= LONG else 3)
        if seconds >= LONG:
            long[name] = seconds
        else:
            shorts[file_of(name)].append(seconds)
    files = {path: mean for path, mean in known.files.items() if (ROOT / path).exists()}
    for path, found in shorts.items():
        # A run of a part does not make the file any smaller.
        count = max(len(found), files.get(path, (0, 0.0))[0])
        files[path] = count, round(sum(found) / len(found), 3)
    return Kept(files, long)


def write(known: Kept, place: Path = KEPT) -> None:
    """Write the file of durations, sorted, a line for each entry."""
    files = [f"{json.dumps(name)}: {json.dumps(known.files[name])}" for name in sorted(known.files)]
    long = [f"{json.dumps(name)}: {known.long[name]}" for name in sorted(known.long)]
    parts = f'"files": {{\n{_joined(files)}}},\n"long": {{\n{_joined(long)}}}'
    place.write_text(f"{{\n{parts}\n}}\n")


def _joined(lines: list[str]) -> str:
    return ",\n".join(lines) + "\n" if lines else ""
