"""The catalogues as data: requirements, scenarios of the systems, hazards."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


class Book(StrEnum):
    """A catalogue: a file of that name, or a folder with a file for each system."""

    REQUIREMENTS = "requirements"
    """Of a controller runtime."""
    SCENARIOS = "scenarios"
    """Of the systems."""
    HAZARDS = "hazards"
    """Of what a bad day may not do."""

    @property
    def files(self) -> tuple[Path, ...]:
        """Return the files of the catalogue, in the order of their names."""
        folder = HERE / self
        return tuple(sorted(folder.glob("*.toml"))) if folder.is_dir() else (HERE / f"{self}.toml",)


CORE = 0
"""The priority of what must be proven at any time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One line. ``decided``: what the design does otherwise than controller-runtime, which then is what
    the test proves. ``left_out``: why there is no test."""

    id: str
    family: str
    priority: int
    text: str
    decided: str = ""
    left_out: str = ""

    @property
    def core(self) -> bool:
        return self.priority == CORE


@dataclass(frozen=True, slots=True)
class Family:
    """Lines about one part of the runtime."""

    prefix: str
    title: str
    requirements: tuple[Requirement, ...]
    joined: bool = False
    """IDs are written without a hyphen: C4."""

    def claims(self, name: str) -> bool:
        """Return whether an ID is written as one of this family, listed or not."""
        if self.joined:
            return name.removeprefix(self.prefix).isdigit() and name.startswith(self.prefix)
        return name.startswith(f"{self.prefix}-")


@cache
def families(book: Book = Book.REQUIREMENTS) -> tuple[Family, ...]:
    """In the order of the files."""
    return tuple(family for file in book.files for family in families_of(file))


@cache
def families_of(file: Path) -> tuple[Family, ...]:
    """Return the families of one file in its order."""
    document = tomllib.loads(file.read_text())
    return tuple(_family(prefix, body) for prefix, body in document.items())


@cache
def catalogue(book: Book = Book.REQUIREMENTS) -> dict[str, Requirement]:
    """Every line of a book by its ID."""
    return {line.id: line for family in families(book) for line in family.requirements}


@cache
def every_line() -> dict[str, Requirement]:
    """The lines of all books by ID."""
    return {name: line for book in Book for name, line in catalogue(book).items()}


def _family(prefix: str, body: dict[str, Any]) -> Family:
    joined = bool(body.get("joined"))
    separator = "" if joined else "-"
    lines = {number: line for number, line in body.items() if isinstance(line, dict)}
    requirements = (
        Requirement(
            id=f"{prefix}{separator}{number}",
            family=prefix,
            priority=int(line["priority"]),
            text=line["text"],
            decided=line.get("decided", ""),
            left_out=line.get("left_out", ""),
        )
        for number, line in lines.items()
    )
    return Family(prefix, body["title"], tuple(requirements), joined)
