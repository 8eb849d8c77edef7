"""The table of causes and parents: `python -m tests.gate.causes --write` puts it into docs/removal-gate.md."""

from __future__ import annotations

import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from ctrlruntime.gate import Cause

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "removal-gate.md"
BEGIN, END = "<!-- causes and parents: begin -->", "<!-- causes and parents: end -->"


@dataclass(frozen=True, slots=True)
class Cell:
    """What a cause does to a parent, and the test that shows it."""

    parent: str
    cause: Cause
    goes: str
    answer: str
    test: str

    @property
    def file(self) -> Path:
        """The file of the test."""
        return ROOT / self.test.partition("::")[0]

    @property
    def function(self) -> str:
        """The name of the test's function."""
        return self.test.partition("::")[2]


def cells() -> list[Cell]:
    """Read causes.toml. Raises ValueError for a cause that there is not, TypeError for a key."""
    found = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["cell"]
    return [Cell(**{**each, "cause": Cause(each["cause"])}) for each in found]


def page_with_table() -> str:
    """Return docs/removal-gate.md with the present table."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    lines = ["| parent | cause | what would go | answer |", "|---|---|---|---|"]
    lines += [
        f"| {each.parent} | `{each.cause}` | {each.goes} | {each.answer} |" for each in cells()
    ]
    return before + "\n".join((BEGIN, *lines, END)) + after


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        raise SystemExit("python -m tests.gate.causes --write")
    PAGE.write_text(page_with_table())
