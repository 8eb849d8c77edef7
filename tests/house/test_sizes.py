"""Functions fit on a screen, modules are named for one idea, reconcilers take a handful of collaborators."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.house.words import PACKAGES, ROOT

LONGEST_FUNCTION = 59
LONGEST_MODULE = 600
MOST_COLLABORATORS = 7


MADE = ROOT / "ctrlruntime" / "kinds"
"""The models below it are made by a command, one module for each group and version."""


def sources() -> Iterator[tuple[str, str]]:
    """Yield the path and text of every module that is written, but those of tests."""
    for package in (*PACKAGES, "benchmarks"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if MADE in path.parent.parents:
                continue
            yield str(path.relative_to(ROOT)), path.read_text()


def functions(source: str) -> Iterator[tuple[str, int]]:
    """Yield each function with its lines; one within a function is part of it, and a function of its own."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def reconcilers(source: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each reconciler with the collaborators that its constructor takes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef) and node.name.endswith("Reconciler"):
            methods = {
                item.name: item
                for item in node.body
                if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
            }
            if "reconcile" in methods:
                yield node.name, collaborators(node, methods.get("__init__"))


def collaborators(
    node: ast.ClassDef, constructor: ast.FunctionDef | ast.AsyncFunctionDef | None
) -> list[str]:
    """Return the parameters of a constructor, or the fields of a dataclass that are some."""
    if constructor is not None:
        given = constructor.args
        return [item.arg for item in (*given.posonlyargs, *given.args, *given.kwonlyargs)][1:]
    return [
        item.target.id
        for item in node.body
        if isinstance(item, ast.AnnAssign)
        and isinstance(item.target, ast.Name)
        and "ClassVar" not in ast.unparse(item.annotation)
        and "init=False" not in ast.unparse(item)
    ]


def test_functions_fit_on_a_screen() -> None:
    found = [(path, name, lines) for path, text in sources() for name, lines in functions(text)]
    assert len(found) > 5000
    assert [
        f"{path}::{name} has {lines} lines: {LONGEST_FUNCTION} at most; move a step of it into a function"
        for path, name, lines in found
        if lines > LONGEST_FUNCTION
    ] == []


def test_modules_are_short_enough_for_one_idea() -> None:
    found = [(path, len(text.splitlines())) for path, text in sources()]
    assert len(found) > 500
    assert [
        f"{path} has {lines} lines: {LONGEST_MODULE} at most; move one of its ideas into a module"
        for path, lines in found
        if lines > LONGEST_MODULE
    ] == []


def test_reconcilers_take_a_handful_of_collaborators() -> None:
    found = [(path, name, given) for path, text in sources() for name, given in reconcilers(text)]
    assert len(found) > 10
    assert [
        f"{path}::{name} takes {len(given)}: {MOST_COLLABORATORS} at most; group what belongs together"
        for path, name, given in found
        if len(given) > MOST_COLLABORATORS
    ] == []


def test_a_long_function_is_found() -> None:
    source = "def short():\n    pass\nclass C:\n    async def long(self):\n" + "        f()\n" * 60
    assert dict(functions(source)) == {"short": 2, "long": 61}


def test_the_collaborators_of_a_reconciler_are_counted() -> None:
    source = (
        "class OneReconciler:\n    a: A\n    b: B = field(default_factory=B)\n"
        "    _c: C = field(init=False)\n    D: ClassVar[int] = 1\n"
        "    async def reconcile(self, request): ...\n"
        "class TwoReconciler:\n    def __init__(self, a, *, b): ...\n"
        "    def reconcile(self, request): ...\n"
        "class NoReconciler:\n    a: A\n"
    )
    assert dict(reconcilers(source)) == {"OneReconciler": ["a", "b"], "TwoReconciler": ["a", "b"]}


def test_the_modules_of_all_packages_are_read() -> None:
    assert {Path(path).parts[0] for path, _ in sources()} == {*PACKAGES, "benchmarks"}
