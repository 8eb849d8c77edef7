"""The IDs that tests carry, read from their source: known without a run of the tests."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.catalogue.requirements import Requirement

MARK = "criterion"


def unproven(lines: Iterable[Requirement], root: Path) -> list[str]:
    """Return the IDs that no test below a folder carries, without those that are left out."""
    carried = set(marked_ids(root))
    return [line.id for line in lines if not line.left_out and line.id not in carried]


def marked_ids(root: Path) -> Iterator[str]:
    """Return the IDs in the marks of all test modules below a folder."""
    for module in sorted(root.rglob("test_*.py")):
        source = module.read_text()
        if MARK in source:
            yield from _ids(ast.parse(source))


def _ids(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=attribute), args=args) if attribute == MARK:
                constants = (arg.value for arg in args if isinstance(arg, ast.Constant))
                yield from (name for name in constants if isinstance(name, str))
