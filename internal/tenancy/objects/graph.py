"""The dependency graph of one template, carried by networkx: problems, levels, ancestors.

networkx takes 0.2 s to import, so no module imports it on its own import; `load` does so on a thread.
An edge leads from a dependency to its dependent: the direction of applying.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from itertools import chain
from types import ModuleType
from typing import TYPE_CHECKING

from apis.tenancy import TResource
from apis.tenancy.common import MOST_OF_A_LIST
from internal.tenancy.shared.similar_names import similar_name

if TYPE_CHECKING:
    from networkx import DiGraph

MOST_RESOURCES = MOST_OF_A_LIST
"""Most resources of one template: what keeps a tenant's status and request sizes within limits."""
MOST_DEPENDENCIES = 5000
"""Most ids in the dependIds of one template."""
MOST_SUGGESTIONS = 5
"""Ids for which the most similar one is looked for, at up to 5 ms each."""

Dependencies = Iterable[tuple[str, Sequence[str]]]
"""`(id, ids it depends on)` of each resource."""


async def load() -> None:
    """Import networkx without blocking the event loop; call it before the first graph."""
    if not _networkx.cache_info().currsize:
        await asyncio.to_thread(_networkx)


@cache
def _networkx() -> ModuleType:
    return import_module("networkx")


@dataclass(frozen=True, slots=True)
class GraphProblem:
    """One sentence, the id of the resource where it can be fixed (empty: the template), and how."""

    text: str
    id: str = ""
    fix: str = ""


class GraphError(Exception):
    """The resources of a template do not form a graph that can be carried out.

    `found` has the problems, `problems` one sentence each; `cyclic`: whether a cycle is among them.
    """

    def __init__(self, found: Sequence[GraphProblem], *, cyclic: bool = False) -> None:
        self.found = tuple(found)
        self.problems = tuple(problem.text for problem in found)
        super().__init__("; ".join(self.problems))
        self.cyclic = cyclic


@dataclass(frozen=True, slots=True)
class Graph:
    """Resources by level. Everything a resource depends on is in an earlier level than its own.

    Within a level, ids keep the order of the template, so equal input gives equal order.
    """

    levels: tuple[tuple[str, ...], ...]
    _edges: DiGraph[str] = field(repr=False)

    @property
    def order(self) -> tuple[str, ...]:
        """All ids, dependencies before their dependents: the order of applying."""
        return tuple(chain.from_iterable(self.levels))

    @property
    def reverse(self) -> tuple[str, ...]:
        """All ids, dependents before their dependencies: the order of deleting."""
        return self.order[::-1]

    def level_of(self) -> dict[str, int]:
        """Return the level of every id, from 0."""
        return {name: depth for depth, names in enumerate(self.levels) for name in names}

    def dependencies(self, name: str) -> Iterator[str]:
        """Return the ids that a resource names in its dependIds, each once, in their order."""
        return iter(self._edges.pred[name])

    def paths_to(
        self, name: str, failed: Collection[str], *, through: Collection[str]
    ) -> list[tuple[str, ...]]:
        """Return the shortest path along dependIds from a resource to each failed ancestor, both included.

        `through` are the ids that may stand between them. Ordered by length, then by the order of applying.
        """
        import networkx as nx

        allowed = {name, *failed, *through}
        edges = nx.subgraph_view(self._edges, filter_node=allowed.__contains__)
        found = ancestors(edges, [name]).intersection(failed)
        paths = [
            tuple(reversed(nx.shortest_path(edges, each, name)))
            for each in self.order
            if each in found
        ]
        return sorted(paths, key=len)

    @classmethod
    def of(cls, resources: Iterable[TResource]) -> Graph:
        """Return the graph of a template's resources. Raises GraphError with every problem at once."""
        return cls.build(dependencies_of(resources))

    @classmethod
    def build(cls, resources: Sequence[tuple[str, Sequence[str]]]) -> Graph:
        """Return the graph of the resources. Raises GraphError with every problem at once."""
        edges = digraph(resources)
        found = cycles(edges)
        problems = [*_problems(resources), *map(_circular, found)]
        if problems:
            raise GraphError(problems, cyclic=bool(found))
        return cls(levels(edges), edges)


def dependencies_of(resources: Iterable[TResource]) -> list[tuple[str, Sequence[str]]]:
    """Return what each resource depends on, by its template."""
    return [(item.id, item.depend_ids) for item in resources]


def digraph(resources: Dependencies) -> DiGraph[str]:
    """Return the edges between resources, in the order of the template; ids that it lacks are left out."""
    import networkx as nx

    known = list(resources)
    edges: DiGraph[str] = nx.DiGraph()
    edges.add_nodes_from(name for name, _ in known)
    edges.add_edges_from(
        (other, name) for name, others in known for other in others if other in edges
    )
    return edges


def levels(edges: DiGraph[str]) -> tuple[tuple[str, ...], ...]:
    """Ids by level, each level in the order of the template. The graph must have no cycle."""
    import networkx as nx

    place = {name: i for i, name in enumerate(edges)}
    generations = nx.topological_generations(edges)
    return tuple(tuple(sorted(names, key=place.__getitem__)) for names in generations)


def ancestors(edges: DiGraph[str], names: Iterable[str]) -> set[str]:
    """Everything that one of the resources depends on, directly or not; never what depends on it too.

    The members of a cycle are not each other's ancestors, so that a removal does not wait for itself.
    """
    import networkx as nx

    found: set[str] = set()
    for name in edges.nodes & set(names):
        before: set[str] = nx.ancestors(edges, name)
        after: set[str] = nx.descendants(edges, name)
        found |= before - after
    return found


def cycles(edges: DiGraph[str]) -> list[tuple[str, ...]]:
    """One cycle of each strongly connected component, as a path along dependIds back to its start.

    A component may have too many cycles to list. Reported is the shortest through its first resource
    in the template, so equal input gives an equal answer.
    """
    import networkx as nx

    place = {name: i for i, name in enumerate(edges)}
    components = [
        each
        for each in nx.strongly_connected_components(edges)
        if len(each) > 1 or any(edges.has_edge(name, name) for name in each)
    ]
    starts = {min(each, key=place.__getitem__): each for each in components}
    return [_cycle(edges, start, starts[start]) for start in sorted(starts, key=place.__getitem__)]


def _cycle(edges: DiGraph[str], start: str, component: Collection[str]) -> tuple[str, ...]:
    """Return the shortest cycle through a resource of a component that has one."""
    import networkx as nx

    found = nx.single_source_shortest_path(edges, start)
    paths = (found[other] for other in edges.pred[start] if other in component)
    return min(((start, *reversed(path)) for path in paths), key=len)


def _circular(path: tuple[str, ...]) -> GraphProblem:
    text = f"circular dependency detected: {' -> '.join(path)}"
    return GraphProblem(text, path[0], "remove one of these ids from dependIds")


def _problems(resources: Sequence[tuple[str, Sequence[str]]]) -> list[GraphProblem]:
    counts = Counter(name for name, _ in resources)
    problems: list[GraphProblem] = []
    if len(resources) > MOST_RESOURCES:
        text = f"{len(resources)} resources are more than the {MOST_RESOURCES} allowed"
        problems.append(GraphProblem(text, fix="split the template in two"))
    if "" in counts:
        problems.append(GraphProblem("a resource has no id", fix="give each one an id"))
    duplicates = [name for name, count in counts.items() if count > 1 and name]
    if duplicates:
        text = f"duplicate resource IDs found: {', '.join(duplicates)}"
        fix = "give each resource of the template, in whichever list, an id of its own"
        problems.append(GraphProblem(text, duplicates[0], fix))
    for name, others in resources:
        missing = [other for other in dict.fromkeys(others) if other not in counts]
        if missing:
            names = ", ".join(repr(other) for other in missing)
            text = f"resource {name!r} depends on {names}, which the template does not have"
            known = counts if len(problems) < MOST_SUGGESTIONS else ()
            problems.append(GraphProblem(text, name, _correction(missing[0], known)))
    return problems


def _correction(missing: str, ids: Iterable[str]) -> str:
    """Return what to write instead of an id that is not there."""
    near = similar_name(missing, ids)
    return f"write {near!r}" if near else "add the resource, or remove the id from dependIds"
