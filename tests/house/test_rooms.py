"""The rooms of tenancy and of the manager: no module stands outside, and imports between rooms stay few."""

from __future__ import annotations

from pathlib import Path

import grimp
import networkx as nx
import pytest

ROOT = Path(__file__).parents[2]
MOST = 45
"""Pairs of rooms of which one imports the other."""


def rooms(*modules: tuple[str, str]) -> nx.DiGraph[str]:
    """Return which rooms import which, from pairs of modules."""
    found: nx.DiGraph[str] = nx.DiGraph()
    for importer, imported in modules:
        one, other = importer.split(".")[2], imported.split(".")[2]
        if one != other:
            found.add_edge(one, other)
    return found


def of_tenancy() -> nx.DiGraph[str]:
    """Return the rooms of tenancy as they are."""
    graph = grimp.build_graph("internal", cache_dir=None)
    inside = [module for module in graph.modules if module.startswith("internal.tenancy.")]
    return rooms(
        *(
            (module, other)
            for module in inside
            for other in graph.find_modules_directly_imported_by(module)
            if other.startswith("internal.tenancy.")
        )
    )


@pytest.mark.criterion("L-30")
def test_rooms_of_tenancy_import_few_others_and_never_in_a_circle() -> None:
    found = of_tenancy()
    assert found.number_of_edges() <= MOST
    assert nx.is_directed_acyclic_graph(found)


@pytest.mark.criterion("L-30")
@pytest.mark.parametrize(
    ("folder", "besides"),
    [
        ("internal/tenancy", set[str]()),
        (
            "manager",
            {"__main__", "cli", "kinds", "options", "own_image", "program"}
            | {"systems", "test_environment"},
        ),
    ],
)
def test_every_module_is_in_a_room(folder: str, besides: set[str]) -> None:
    flat = {path.stem for path in (ROOT / folder).glob("*.py")} - {"__init__"}
    assert flat <= besides, "put it into the room of what it is about"


def test_a_circle_of_rooms_would_be_seen() -> None:
    found = rooms(
        ("internal.tenancy.a.x", "internal.tenancy.b.y"),
        ("internal.tenancy.b", "internal.tenancy.a"),
    )
    assert not nx.is_directed_acyclic_graph(found)
