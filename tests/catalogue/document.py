"""docs/requirements.md, docs/scenarios.md and docs/hazards.md, from the catalogues."""

from __future__ import annotations

import difflib
from pathlib import Path

from tests.catalogue.requirements import Book, Family, Requirement, catalogue, families

DOCS = Path(__file__).parents[2] / "docs"

_REQUIREMENTS = """\
# Requirements

What a controller runtime has to do, line by line, and so what may be relied on. The lines are those that
controller-runtime and client-go keep, put together for acceptance; where ours does otherwise on
purpose, the line says how, and that is what is tested ([why](decisions/requirements.md)). P0 is correctness, P1 parity,
P2 nice to have. Written from `tests/catalogue/requirements.toml` by `python -m tests.catalogue --write`.

Tests carry the ID of the line that they prove (`@pytest.mark.criterion("WQ-01")`). `make requirements` runs them and prints the
outcome of every line; `make test` fails when a line is not proven. `make mutants` puts defects into a copy of the
code, one at a time: the test of the line has to notice.
"""


_SCENARIOS = """\
# Scenarios

What the systems do, line by line, each proven by tests that carry its ID (`@pytest.mark.criterion("SG-20")`): Instances,
their subresources and tasks; sets of nodes with their snapshots and Jobs; data planes and their stacks; Tenants with their registries and templates. `make scenarios` runs them and prints the
outcome of every line; `make test` fails when a line is not proven. Written from `tests/catalogue/scenarios/` by
`python -m tests.catalogue --write`.
"""

_HAZARDS = """\
# Hazards

What a bad day may not do to a tenant, line by line: odd rows, two of everything, edits by hand, lying servers,
half-finished changes. Tests carry the ID of the line that they prove (`@pytest.mark.criterion("H-A1")`). `make hazards` runs them and
prints the outcome of every line; `make test` fails when a line is not proven. Written from
`tests/catalogue/hazards.toml` by `python -m tests.catalogue --write`.
"""

_HEADS = {
    Book.REQUIREMENTS: _REQUIREMENTS,
    Book.SCENARIOS: _SCENARIOS,
    Book.HAZARDS: _HAZARDS,
}


def path(book: Book) -> Path:
    """Where the document of a book is."""
    return DOCS / f"{book}.md"


def text(book: Book) -> str:
    """The whole document."""
    lines = catalogue(book).values()
    core = sum(line.core for line in lines)
    parts = [_HEADS[book], f"There are {len(lines)} lines, {core} of them P0.\n"]
    parts += [_section(family) for family in families(book)]
    return "\n".join(parts)


def drift() -> str:
    """What differs between the files and the catalogues; empty if nothing does."""
    return "".join(_drift(book) for book in Book)


def _drift(book: Book) -> str:
    have = path(book).read_text() if path(book).exists() else ""
    return "\n".join(
        difflib.unified_diff(
            have.splitlines(), text(book).splitlines(), "is", "should be", lineterm=""
        )
    )


def _section(family: Family) -> str:
    rows = [_row(line) for line in family.requirements]
    head = ["| ID | | |", "|---|---|---|"]
    return "\n".join([f"## {family.prefix}: {family.title}", "", *head, *rows, ""])


def _row(line: Requirement) -> str:
    said = line.text
    if line.decided:
        said += f" **Here:** {line.decided}"
    if line.left_out:
        said += f" **Left out:** {line.left_out}"
    return f"| {line.id} | P{line.priority} | {said} |"
