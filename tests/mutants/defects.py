"""The seeded defects as data: each is one line gone wrong, and where the tests are that must fail with it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parent / "defects.toml"
RECORD = Path(__file__).parent / "caught.json"
"""Which test caught each defect when `python -m tests.mutants --record` ran last; it runs first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """`old` is a line of `file`, without its indentation; `new` what it becomes. `test` names where to
    look for tests marked with `id`: a file, a class, a function, one set of parameters."""

    id: str
    says: str
    file: str
    old: str
    new: str
    test: str

    @property
    def key(self) -> str:
        """Unique among the defects."""
        return f"{self.id}: {self.says}"

    def apply(self, text: str) -> str:
        """Return the file with the defect. Raises ValueError if the line is not there exactly once."""
        lines = text.splitlines(keepends=True)
        places = [index for index, line in enumerate(lines) if line.strip() == self.old]
        if len(places) != 1:
            raise ValueError(f"{self.file} has {len(places)} lines that read {self.old!r}, not one")
        line = lines[places[0]]
        lines[places[0]] = line.replace(self.old, self.new)
        return "".join(lines)


def is_named(node: str, test: str) -> bool:
    """Return whether a test is among those that `test` names, on an embedded server if it runs on several."""
    named = node == test or node.startswith(tuple(f"{test}{end}" for end in ("/", "::", "[")))
    return named and "kube-apiserver" not in node


def parse(text: str) -> tuple[Defect, ...]:
    """Return the defects of a file. Raises TypeError for one with other fields."""
    return tuple(Defect(**entry) for entry in tomllib.loads(text)["defect"])


@cache
def defects() -> tuple[Defect, ...]:
    """Return all defects, in the order of their file."""
    return parse(SOURCE.read_text())


def named(names: Iterable[str]) -> list[Defect]:
    """Return the defects of some IDs or families; all of them if there are no names."""
    wanted = set(names)
    return [d for d in defects() if not wanted or wanted & {d.id, d.id.partition("-")[0]}]


@cache
def recorded() -> Mapping[str, str]:
    """Return the test that caught a defect last, by the defect's key."""
    return read_record(RECORD)


def read_record(path: Path) -> dict[str, str]:
    """Return a record; an empty one if the file is missing."""
    record: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    return record


def write_record(path: Path, caught: Mapping[str, str]) -> None:
    """Write which test caught each defect. Keep what the file has of other defects that still exist."""
    record = {**read_record(path), **caught}
    kept = {defect.key: record[defect.key] for defect in defects() if defect.key in record}
    path.write_text(json.dumps(kept, indent=2) + "\n")
