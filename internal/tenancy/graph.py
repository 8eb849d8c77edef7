"""The dependency graph of one template: its problems, its levels, and the order of deletion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter

from apis.tenancy import TResource

MOST_RESOURCES = 500
"""Most resources of one template: what keeps a tenant's status and request sizes within limits."""


class GraphError(Exception):
    """The resources of a template do not form a graph that can be carried out.

    `problems` has one sentence each; `cyclic` says whether a cycle is among them.
    """

    def __init__(self, problems: Sequence[str], *, cyclic: bool = False) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)
        self.cyclic = cyclic


@dataclass(frozen=True, slots=True)
class Graph:
    """Resources by level. Everything a resource depends on is in an earlier level than its own.

    Within a level, ids keep the order of the template, so equal input gives equal order.
    """

    levels: tuple[tuple[str, ...], ...]
    dependencies: Mapping[str, tuple[str, ...]]

    @property
    def order(self) -> tuple[str, ...]:
        """All ids, dependencies before their dependents: the order of applying."""
        return tuple(name for level in self.levels for name in level)

    @property
    def reverse(self) -> tuple[str, ...]:
        """All ids, dependents before their dependencies: the order of deleting."""
        return self.order[::-1]

    def level_of(self) -> dict[str, int]:
        """The level of every id, from 0."""
        return {name: depth for depth, level in enumerate(self.levels) for name in level}

    @classmethod
    def of(cls, resources: Iterable[TResource]) -> Graph:
        """The graph of a template's resources. Raises GraphError with every problem at once."""
        return cls.build([(item.id, item.depend_ids) for item in resources])

    @classmethod
    def build(cls, resources: Sequence[tuple[str, Sequence[str]]]) -> Graph:
        """The graph of `(id, ids it depends on)`. Raises GraphError with every problem at once."""
        problems = _problems(resources)
        cycle = _cycle(resources)
        if cycle:
            problems.append(f"circular dependency detected: {' -> '.join(cycle)}")
        if problems:
            raise GraphError(problems, cyclic=bool(cycle))
        dependencies = {name: tuple(dict.fromkeys(others)) for name, others in resources}
        return cls(_levels(dependencies), dependencies)


def _problems(resources: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    counts = Counter(name for name, _ in resources)
    problems: list[str] = []
    if len(resources) > MOST_RESOURCES:
        problems.append(f"{len(resources)} resources are more than the {MOST_RESOURCES} allowed")
    if "" in counts:
        problems.append("a resource has no id")
    duplicates = [name for name, count in counts.items() if count > 1 and name]
    if duplicates:
        problems.append(f"duplicate resource IDs found: {', '.join(duplicates)}")
    for name, others in resources:
        missing = [other for other in dict.fromkeys(others) if other not in counts]
        if missing:
            names = ", ".join(repr(other) for other in missing)
            problems.append(
                f"resource {name!r} depends on {names}, which the template does not have"
            )
    return problems


def _cycle(resources: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """One cycle, `a -> b -> a`, the same for equal input: the first met from the first resource on."""
    edges: dict[str, list[str]] = {}
    for name, others in resources:
        edges.setdefault(name, []).extend(others)
    done: set[str] = set()
    for start in edges:
        path: dict[str, Iterator[str]] = {} if start in done else {start: iter(edges[start])}
        while path:
            here = next(reversed(path))
            for other in path[here]:
                if other in path:
                    names = list(path)
                    return [*names[names.index(other) :], other]
                if other in edges and other not in done:
                    path[other] = iter(edges[other])
                    break
            else:
                done.add(here)
                del path[here]
    return []


def _levels(dependencies: Mapping[str, Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for name, others in dependencies.items():
        sorter.add(name, *others)
    sorter.prepare()
    place = {name: i for i, name in enumerate(dependencies)}
    levels: list[tuple[str, ...]] = []
    while sorter.is_active():
        ready = sorter.get_ready()
        levels.append(tuple(sorted(ready, key=place.__getitem__)))
        sorter.done(*ready)
    return tuple(levels)
