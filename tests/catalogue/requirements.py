"""The requirement catalogue as data: what a controller runtime has to do, in families of lines."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parent / "requirements.toml"

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
def families() -> tuple[Family, ...]:
    """In the order of the file."""
    document = tomllib.loads(SOURCE.read_text())
    return tuple(_family(prefix, body) for prefix, body in document.items())


@cache
def catalogue() -> dict[str, Requirement]:
    """Every line by its ID."""
    return {line.id: line for family in families() for line in family.requirements}


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
