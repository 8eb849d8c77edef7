"""One exception class has one name."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

TWICE = {
    "APIError", "Conflict", "Forbidden", "Foreign", "Invalid", "LimitExceeded", "Missing",
    "ProjectError", "Unauthorized",
}  # fmt: skip
"""Answers of two servers, and limits of two parts. The set only shrinks."""
PACKAGES = ("ctrlruntime", "apis", "internal", "manager")


@pytest.mark.criterion("L-7")
def test_no_two_exceptions_have_one_name() -> None:
    bases: dict[str, set[str]] = {}
    counts: Counter[str] = Counter()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    counts[node.name] += 1
                    named = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
                    bases.setdefault(node.name, set()).update(named)
    errors = {"Exception", "ValueError", "RuntimeError", "TypeError", "OSError", "LookupError"}
    while more := {name for name, found in bases.items() if found & errors} - errors:
        errors |= more
    assert {name for name in errors if counts[name] > 1} == TWICE
