"""The model of the first page: the fleet by kind, version, phase and template, and what fails. Pure."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apis.health import Health
from manager.commands.summaries import urgency
from manager.console.index import Group
from manager.console.rows import Row

MOST_GROUPS: Final = 20
"""Versions, or templates, that are listed; the rest is one line."""
SHOWN: Final = 10
"""Failures on the first page."""
OTHERS: Final = "all others"

States = Counter[tuple[str, Health]]
"""How many objects are in which state."""


@dataclass(frozen=True, slots=True)
class Part:
    """So many objects in one state."""

    state: str
    health: Health
    count: int


@dataclass(frozen=True, slots=True)
class Line:
    """A group, and how many of it are in which state."""

    name: str
    total: int
    parts: tuple[Part, ...]
    is_rest: bool = False

    @property
    def good(self) -> int:
        """How many need nothing."""
        return sum(part.count for part in self.parts if part.health is Health.GOOD)


@dataclass(frozen=True, slots=True)
class KindCounts:
    """The counts of one kind."""

    kind: str
    plural: str
    counts: Mapping[Group, int]


def kind_lines(kinds: Sequence[KindCounts], namespace: str) -> list[tuple[str, Line]]:
    """Return the plural and the line of each kind, those without objects last."""
    lines = []
    for each in kinds:
        states: States = Counter()
        for (place, _, _, state, health), count in each.counts.items():
            if namespace in {"", place}:
                states[state, health] += count
        lines.append((each.plural, line(each.kind, states)))
    return sorted(lines, key=lambda item: not item[1].total)


def grouped(counts: Mapping[Group, int], namespace: str, *, by_version: bool) -> list[Line]:
    """Return lines by version, or by group, the largest first; small ones are one line at the end."""
    found: dict[str, States] = {}
    for (place, group, version, state, health), count in counts.items():
        if namespace in {"", place}:
            found.setdefault(version if by_version else group, Counter())[state, health] += count
    lines = sorted(
        (line(name, states) for name, states in found.items()),
        key=lambda each: (-each.total, each.name),
    )
    if len(lines) <= MOST_GROUPS:
        return lines
    rest: States = Counter()
    for each in lines[MOST_GROUPS:]:
        rest.update({(part.state, part.health): part.count for part in each.parts})
    return [*lines[:MOST_GROUPS], line(OTHERS, rest, is_rest=True)]


def line(name: str, states: States, *, is_rest: bool = False) -> Line:
    """Return a line, the worst first."""
    parts = tuple(
        Part(state, health, states[state, health])
        for state, health in sorted(states, key=lambda key: (key[1].rank, -states[key], key[0]))
    )
    return Line(name, sum(states.values()), parts, is_rest)


def worst(rows: Iterable[Row]) -> list[Row]:
    """Return what is most urgent."""
    return heapq.nsmallest(SHOWN, rows, key=lambda row: urgency(row.summary))


def has_words(row: Row, words: Iterable[str]) -> bool:
    """Return whether a list shows each of the words of an object; words are in small letters."""
    found = row.summary
    place = f"{found.namespace}/{found.name}"
    text = f"{found.kind} {place} {found.state} {found.version} {row.group} {found.message}".lower()
    return all(word in text for word in words)


def waves_in_progress(rollouts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rollouts that are not over, with the wave in progress."""
    return [
        each
        for each in rollouts
        if each["health"] is not Health.GOOD and each["phase"] != "RolledBack"
    ]
