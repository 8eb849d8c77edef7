"""Fenced blocks of a Markdown document, and its tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUNNABLE = frozenset({"sh", "bash", "console", "python", "yaml"})
"""Languages whose blocks are commands, programs or manifests."""
PICTURES = frozenset({"mermaid"})
OUTPUT = frozenset({"text"})
"""What a program printed."""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block; `line` is that of its fence."""

    document: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line} ({self.language or 'no language'})"


def documents() -> list[str]:
    """README.md and every page below docs/, by path from the root."""
    pages = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
    return ["README.md", *pages]


def blocks(document: str) -> list[Block]:
    """All fenced blocks, in order."""
    found: list[Block] = []
    opened: tuple[int, str] | None = None
    lines: list[str] = []
    for number, line in enumerate((ROOT / document).read_text().splitlines(), start=1):
        if not line.startswith("```"):
            lines.append(line)
            continue
        if opened is None:
            opened = number, line.removeprefix("```").strip().partition(" ")[0]
        else:
            found.append(Block(document, *opened, "\n".join(lines) + "\n"))
            opened = None
        lines = []
    assert opened is None, f"{document}:{opened}: the block is never closed"
    return found


def runnable(document: str) -> list[Block]:
    """The blocks that have to be run."""
    return [block for block in blocks(document) if block.language in RUNNABLE]


def table(document: str, header: str) -> list[list[str]]:
    """The rows of the table whose first header cell is `header`, or that follows `<!-- header -->`."""
    lines = (ROOT / document).read_text().splitlines()
    start = _start(lines, header)
    assert start is not None, f"{document} has no table {header!r}"
    rows: list[list[str]] = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().replace("\\|", "|") for cell in _cells(line)])
    return rows


def _start(lines: list[str], header: str) -> int | None:
    for number, line in enumerate(lines):
        if line == f"<!-- {header} -->":
            return next(n for n in range(number, len(lines)) if lines[n].startswith("|"))
        is_header = line.startswith("|") and lines[number + 1].startswith("|-")
        if is_header and _cells(line)[0].strip() == header:
            return number
    return None


def _cells(line: str) -> list[str]:
    return re.split(r"(?<!\\)\|", line.strip().strip("|"))


def words(cell: str) -> list[str]:
    """What stands in backticks in a cell."""
    return re.findall(r"`([^`]+)`", cell)
