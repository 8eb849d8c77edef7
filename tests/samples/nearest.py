"""Which tests are nearest to what changed, by imports. No I/O, no pytest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Near(NamedTuple):
    """A file of tests. `distance`: 0 for one that changed itself or has to catch a seeded defect of a changed
    file, else how many imports away it is from a changed module."""

    distance: int
    seconds: float
    file: str


@dataclass(frozen=True, slots=True)
class Imports:
    """`importers`: of each module those that import it. `tests`: of each file of tests what it imports itself;
    what a harness brings along is far from what the tests are about."""

    importers: Callable[[str], Collection[str]]
    tests: Mapping[str, Collection[str]]

    def distances(self, changed: Iterable[str]) -> dict[str, int]:
        """Return files of tests by their distance from the changed modules."""
        reached: dict[str, int] = {}
        found: dict[str, int] = {}
        wave = set(changed)
        distance = 1
        while wave:
            reached |= dict.fromkeys(wave, distance)
            for file, imported in self.tests.items():
                if file not in found and not wave.isdisjoint(imported):
                    found[file] = distance
            wave = {up for module in wave for up in self.importers(module)} - reached.keys()
            distance += 1
        return found


def nearest(
    distances: Mapping[str, int], seconds: Callable[[str], float], budget: float
) -> tuple[list[Near], list[Near]]:
    """Return the files of tests that fit into a budget of seconds, nearest and quickest first, and the others."""
    ranked = sorted(Near(distance, seconds(file), file) for file, distance in distances.items())
    chosen: list[Near] = []
    others: list[Near] = []
    left = budget
    for near in ranked:
        fits = near.seconds <= left
        (chosen if fits else others).append(near)
        left -= near.seconds if fits else 0.0
    return chosen, others
