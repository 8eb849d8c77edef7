"""The table of lives: `python -m tests.rules.lives --write` puts it into docs/lives.md."""

from __future__ import annotations

import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "lives.md"
BEGIN, END = "<!-- lives: begin -->", "<!-- lives: end -->"
SUBRESOURCE = "Instance's subresource"
KINDS = (
    *("TenantRegistry", "TenantTemplate", "Tenant", "Instance", SUBRESOURCE, "FleetRollout"),
    *("CosmosFullNode", "ScheduledVolumeSnapshot", "StatefulJob", "FleetConfig", "ChangeFreeze"),
)
NONE = "–"


@dataclass(frozen=True, slots=True)
class Cell:
    """What a kind does, and the function of the test that shows it; empty: none does."""

    kind: str
    question: str
    answer: str
    test: str


def cells() -> list[Cell]:
    """Read lives.toml. Raises ValueError for a kind that there is not."""
    found: list[Cell] = []
    for asked in tomllib.loads(Path(__file__).with_suffix(".toml").read_text()).values():
        question, alike = asked.pop("question"), asked.pop("alike", None)
        if unknown := asked.keys() - set(KINDS):
            raise ValueError(f"no kinds: {unknown}")
        answers = {kind: asked.get(kind, alike) for kind in KINDS}
        found += [Cell(kind, question, *(answers[kind] or (NONE, ""))) for kind in KINDS]
    return found


def page_with_table() -> str:
    """Return docs/lives.md with the present table."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    questions = list(dict.fromkeys(each.question for each in cells()))
    lines = [f"| an object that | {' | '.join(questions)} |", "|---" * (len(questions) + 1) + "|"]
    for kind in KINDS:
        row = [each.answer for each in cells() if each.kind == kind]
        lines.append(f"| {kind} | {' | '.join(row)} |")
    return before + "\n".join((BEGIN, *lines, END)) + after


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        raise SystemExit("python -m tests.rules.lives --write")
    PAGE.write_text(page_with_table())
