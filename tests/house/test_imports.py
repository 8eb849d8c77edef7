"""The import graph has no circles but those of a list that shrinks."""

from __future__ import annotations

from pathlib import Path

import grimp
import networkx as nx
import pytest

PRODUCT = ("ctrlruntime", "apis", "internal", "manager")
AT_RUN_TIME = [frozenset({"ctrlruntime.api.resource", "ctrlruntime.generate.crd"})]
"""Circles that are allowed until they are opened."""
WITH_TYPES = [
    *AT_RUN_TIME,
    frozenset({"ctrlruntime.cache.cache", "ctrlruntime.cache.cached"}),
]
"""The same, imports under TYPE_CHECKING included."""


def circles(*packages: str, types: bool) -> list[frozenset[str]]:
    """Return the groups of modules that import each other. `types`: count TYPE_CHECKING imports."""
    graph = grimp.build_graph(*packages, exclude_type_checking_imports=not types, cache_dir=None)
    imports: nx.DiGraph[str] = nx.DiGraph(
        (module, other)
        for module in graph.modules
        for other in graph.find_modules_directly_imported_by(module)
    )
    found = (frozenset(each) for each in nx.strongly_connected_components(imports))
    return sorted((each for each in found if len(each) > 1), key=sorted)


@pytest.mark.parametrize(("types", "allowed"), [(False, AT_RUN_TIME), (True, WITH_TYPES)])
def test_modules_import_each_other_in_known_circles_only(
    types: bool, allowed: list[frozenset[str]]
) -> None:
    found = circles(*PRODUCT, types=types)
    new = [sorted(circle) for circle in found if not any(circle <= each for each in allowed)]
    assert not new, "pass in what the lower module needs, or move it"


@pytest.mark.parametrize(("types", "allowed"), [(False, AT_RUN_TIME), (True, WITH_TYPES)])
def test_a_circle_that_was_opened_leaves_the_list(
    types: bool, allowed: list[frozenset[str]]
) -> None:
    found = circles(*PRODUCT, types=types)
    opened = [sorted(each) for each in allowed if not any(circle <= each for circle in found)]
    assert not opened, "take these off the list"


def test_a_circle_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "example_with_a_circle"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "a.py").write_text("def f():\n    from example_with_a_circle import b\n")
    (package / "b.py").write_text(
        "from typing import TYPE_CHECKING\nfrom example_with_a_circle import c\n"
        "if TYPE_CHECKING:\n    from example_with_a_circle import d\n"
    )
    (package / "c.py").write_text("from example_with_a_circle import a\n")
    (package / "d.py").write_text("from example_with_a_circle import b\n")
    monkeypatch.syspath_prepend(tmp_path)
    name = package.name
    abc = {f"{name}.{module}" for module in "abc"}
    assert circles(name, types=False) == [frozenset(abc)]
    assert circles(name, types=True) == [frozenset({*abc, f"{name}.d"})]
