"""The dependency graph: problems are all named, levels and order are deterministic."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from internal.tenancy.objects.graph import MOST_RESOURCES, Graph, GraphError, ancestors, digraph

Resources = list[tuple[str, list[str]]]


@st.composite
def acyclic(draw: st.DrawFn) -> Resources:
    count = draw(st.integers(0, 12))
    names = draw(st.permutations([f"r{number}" for number in range(count)]))
    found: Resources = []
    for place, name in enumerate(names):
        others = draw(st.lists(st.sampled_from(names[:place]), max_size=4)) if place else []
        found.append((name, others))
    shuffled: Resources = draw(st.permutations(found))
    return list(shuffled)


@pytest.mark.criterion("GRAPH-ORDER")
@given(acyclic())
def test_everything_comes_after_what_it_depends_on(resources: Resources) -> None:
    graph = Graph.build(resources)
    place = {name: i for i, name in enumerate(graph.order)}
    assert sorted(graph.order) == sorted(name for name, _ in resources)
    assert all(place[other] < place[name] for name, others in resources for other in others)
    assert graph.reverse == tuple(reversed(graph.order))


@pytest.mark.criterion("GRAPH-LEVELS")
@given(acyclic())
def test_a_level_is_one_more_than_the_deepest_dependency(resources: Resources) -> None:
    depth = Graph.build(resources).level_of()
    for name, others in resources:
        assert depth[name] == max((depth[other] + 1 for other in others), default=0)


@pytest.mark.criterion("GRAPH-ORDER")
@given(acyclic())
@pytest.mark.criterion("FAULT-B30")
def test_order_within_a_level_is_that_of_the_template(resources: Resources) -> None:
    place = {name: i for i, (name, _) in enumerate(resources)}
    for level in Graph.build(resources).levels:
        assert [place[name] for name in level] == sorted(place[name] for name in level)


@pytest.mark.criterion("GRAPH-CYCLE")
@given(acyclic(), st.data())
def test_an_edge_backwards_makes_a_cycle_that_is_named(
    resources: Resources, data: st.DataObject
) -> None:
    edges = [(name, other) for name, others in resources for other in others]
    if not edges:
        return
    name, other = data.draw(st.sampled_from(edges))
    looped = [(n, [*others, name] if n == other else others) for n, others in resources]
    with pytest.raises(GraphError) as caught:
        Graph.build(looped)
    assert caught.value.cyclic
    message = next(text for text in caught.value.problems if "circular" in text)
    path = message.removeprefix("circular dependency detected: ").split(" -> ")
    wanted = {n: set(others) for n, others in looped}
    assert path[0] == path[-1]
    assert all(after in wanted[before] for before, after in pairwise(path))


@pytest.mark.criterion("GRAPH-CYCLE")
@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ([("a", ["b"]), ("b", ["a"])], "circular dependency detected: a -> b -> a"),
        ([("a", ["a"])], "circular dependency detected: a -> a"),
        ([("x", []), ("a", ["b"]), ("b", ["c"]), ("c", ["a"])], "a -> b -> c -> a"),
    ],
)
def test_cycles_are_written_as_a_path(resources: Resources, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        Graph.build(resources)


@pytest.mark.criterion("GRAPH-PROBLEMS")
def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(GraphError) as caught:
        Graph.build([("a", ["nope", "gone"]), ("a", []), ("", []), ("b", ["b"])])
    assert caught.value.problems == (
        "a resource has no id",
        "duplicate resource IDs found: a",
        "resource 'a' depends on 'nope', 'gone', which the template does not have",
        "circular dependency detected: b -> b",
    )


@pytest.mark.criterion("GRAPH-DIAMOND")
def test_a_diamond_has_three_levels() -> None:
    graph = Graph.build([("d", ["b", "c"]), ("c", ["a"]), ("b", ["a"]), ("a", [])])
    assert graph.levels == (("a",), ("c", "b"), ("d",))
    assert graph.reverse == ("d", "b", "c", "a")


@pytest.mark.criterion("GRAPH-SIZE")
def test_too_many_resources_are_refused() -> None:
    with pytest.raises(GraphError, match="more than the"):
        Graph.build([(f"r{number}", []) for number in range(MOST_RESOURCES + 1)])


@pytest.mark.criterion("GRAPH-CYCLE", "DX-10")
def test_every_component_with_a_cycle_is_reported_with_its_shortest_path() -> None:
    resources: Resources = [
        ("free", []),
        ("a", ["x", "c", "b"]),
        ("b", ["a"]),
        ("c", ["b"]),
        ("x", ["y"]),
        ("y", ["x", "y"]),
    ]
    with pytest.raises(GraphError) as caught:
        Graph.build(resources)
    assert caught.value.problems == (
        "circular dependency detected: a -> b -> a",
        "circular dependency detected: x -> y -> x",
    )


@pytest.mark.criterion("DX-10")
@given(acyclic(), st.data())
def test_ancestors_are_what_a_resource_depends_on_directly_or_not(
    resources: Resources, data: st.DataObject
) -> None:
    names = data.draw(st.sets(st.sampled_from([name for name, _ in resources] or ["none"])))
    wanted: dict[str, set[str]] = {}
    graph = Graph.build(resources)
    direct = dict(resources)
    for name in graph.order:
        others = direct[name]
        wanted[name] = set(others).union(*(wanted[other] for other in others))
        assert list(graph.dependencies(name)) == list(dict.fromkeys(others))
    found = ancestors(digraph(resources), names)
    assert found == set().union(*(wanted.get(name, set()) for name in names))


@pytest.mark.criterion("DX-10")
def test_the_members_of_a_cycle_are_not_ancestors_of_each_other() -> None:
    edges = digraph([("a", ["b"]), ("b", ["a", "base"]), ("base", []), ("after", ["a"])])
    assert ancestors(edges, ["a"]) == {"base"}
    assert ancestors(edges, ["after"]) == {"a", "b", "base"}


@pytest.mark.criterion("DX-10")
def test_paths_lead_through_skipped_resources_to_what_failed() -> None:
    graph = Graph.build(
        [
            ("db", []),
            ("dns", []),
            ("migrate", ["db"]),
            ("kept", ["db"]),
            ("web", ["kept", "migrate", "dns"]),
        ]
    )
    assert graph.paths_to("web", {"db", "dns"}, through={"migrate"}) == [
        ("web", "dns"),
        ("web", "migrate", "db"),
    ]
    assert graph.paths_to("web", {"db"}, through=()) == []
    assert graph.paths_to("db", {"db"}, through={"migrate"}) == []


IMPORTS = """
import asyncio, sys, threading
where = []
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "networkx":
            where.append(threading.current_thread() is threading.main_thread())
sys.meta_path.insert(0, Finder())
import manager.cli, manager.commands.run
from manager.options import SYSTEMS
from manager.systems import load_systems
load_systems(SYSTEMS)
assert not where, "the manager imports networkx at its start"
from internal.tenancy.objects.graph import Graph, load
async def two():
    await asyncio.gather(load(), load())
asyncio.run(two())
assert where, "it is not imported"
assert not any(where), "networkx is imported on the event loop's thread"
"""


@pytest.mark.criterion("DX-10")
def test_networkx_is_imported_on_a_thread_and_not_before_the_first_graph() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
