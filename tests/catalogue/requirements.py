"""The catalogues as data: requirements, scenarios of the cloud system, hazards."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any


class Book(StrEnum):
    """A catalogue, which is a file of that name."""

    REQUIREMENTS = "requirements"
    """Of a controller runtime."""
    SCENARIOS = "scenarios"
    """Of the cloud system."""
    HAZARDS = "hazards"
    """Of what a bad day may not do."""


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


@cache
def families(book: Book = Book.REQUIREMENTS) -> tuple[Family, ...]:
    """In the order of the file."""
    document = tomllib.loads((Path(__file__).parent / f"{book}.toml").read_text())
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
    lines = {number: line for number, line in body.items() if number != "title"}
    requirements = (
        Requirement(
            id=f"{prefix}-{number}",
            family=prefix,
            priority=int(line["priority"]),
            text=line["text"],
            decided=line.get("decided", ""),
            left_out=line.get("left_out", ""),
        )
        for number, line in lines.items()
    )
    return Family(prefix, body["title"], tuple(requirements))
