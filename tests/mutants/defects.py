"""The defects as data: each is one line gone wrong, and a test that has to notice."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parent / "defects.toml"


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

    def apply(self, text: str) -> str:
        """The file with the defect. Raises ValueError if the line is not there exactly once."""
        lines = text.splitlines(keepends=True)
        places = [index for index, line in enumerate(lines) if line.strip() == self.old]
        if len(places) != 1:
            raise ValueError(f"{self.file} has {len(places)} lines that read {self.old!r}, not one")
        line = lines[places[0]]
        lines[places[0]] = line.replace(self.old, self.new)
        return "".join(lines)


def is_chosen(node: str, test: str) -> bool:
    """Whether a test is among those that `test` names, on an embedded server if it runs on several."""
    named = node == test or node.startswith(tuple(f"{test}{end}" for end in ("/", "::", "[")))
    return named and "kube-apiserver" not in node


@cache
def defects() -> tuple[Defect, ...]:
    return tuple(Defect(**entry) for entry in tomllib.loads(SOURCE.read_text())["defect"])


def chosen(names: Iterable[str]) -> list[Defect]:
    """Those of some IDs or families; all of them for none."""
    wanted = set(names)
    return [d for d in defects() if not wanted or wanted & {d.id, d.id.partition("-")[0]}]
