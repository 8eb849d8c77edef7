"""The seeded defects as data: each is one line gone wrong, and where the tests are that must fail with it."""

from __future__ import annotations

import ast
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parent / "defects.toml"
RECORD = Path(__file__).parent / "caught.json"
"""Which test caught each defect when `python -m tests.mutants --record` ran last; it runs first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """`old` is a line of `file`, without its indentation; `new` what it becomes. `function` is where the line is,
    as in `Worker._fail`, if the file has more than one that reads so. `test` names where to look for tests
    marked with `id`: a file, a class, a function, one set of parameters."""

    id: str
    says: str
    file: str
    old: str
    new: str
    test: str
    function: str = ""

    @property
    def key(self) -> str:
        """Unique among the defects."""
        return f"{self.id}: {self.says}"

    def apply(self, text: str) -> str:
        """Return the file with the defect. Raises ValueError if the line is not there exactly once."""
        lines = text.splitlines(keepends=True)
        within = range(len(lines)) if not self.function else lines_of(self.function, text)
        places = [index for index in within if lines[index].strip() == self.old]
        if len(places) != 1:
            where = f"{self.function} in {self.file}" if self.function else self.file
            raise ValueError(f"{where} has {len(places)} lines that read {self.old!r}, not one")
        line = lines[places[0]]
        lines[places[0]] = line.replace(self.old, self.new)
        return "".join(lines)


def lines_of(function: str, text: str) -> range:
    """Return the lines, from 0, of a function or class such as `Worker._fail`; none if there is no such one."""
    body: Sequence[ast.AST] = ast.parse(text).body
    found = range(0)
    for name in function.split("."):
        node = next((each for each in body if getattr(each, "name", "") == name), None)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return range(0)
        body, found = node.body, range(node.lineno - 1, node.end_lineno or node.lineno)
    return found


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
