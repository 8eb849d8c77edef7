"""A test asserts something that can fail, or its docstring says what it waits for and how long at most."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
BASELINE = Path(__file__).parent / "without_assert.json"
CHECKS = re.compile(r"^(assert|check|verify|expect|fail|raises|warns)|^(holds|agree)")
WAITS = re.compile(r"\bWaits? for\b.*\bat most \d+ ?s\b", re.DOTALL)


def without_assert(source: str) -> Iterator[str]:
    """Yield the tests of a file that assert nothing and do not say what they wait for, and asserts that cannot fail."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assert) and _is_always_true(node.test):
            yield f"{ast.unparse(node)[:60]} (line {node.lineno})"
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        waits = WAITS.search(ast.get_docstring(node) or "")
        if node.name.startswith("test_") and not waits and not _asserts(node):
            yield node.name


def _is_always_true(test: ast.expr) -> bool:
    parts = test.values if isinstance(test, ast.BoolOp) else [test]
    return any(isinstance(part, ast.Constant) and bool(part.value) for part in parts)


def _asserts(test: ast.AST) -> bool:
    for node in ast.walk(test):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if CHECKS.match(name):
                return True
    return False


def listed() -> set[str]:
    """Return all tests that assert nothing, by file and name."""
    return {
        f"{path.relative_to(ROOT)}::{name}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for name in without_assert(path.read_text())
    }


def test_every_new_test_asserts_something_or_reports_what_it_waits_for() -> None:
    new = sorted(listed() - set(json.loads(BASELINE.read_text())))
    assert not new, "add an assert, or a docstring: Waits for WHAT, at most N s."


def test_a_test_without_an_assert_is_found() -> None:
    source = (
        "def test_a(): f()\n"
        "async def test_b():\n    await f()\n    assert g()\n"
        'def test_c():\n    """Waits for readiness, at most 60 s."""\n'
        "def test_d():\n    with pytest.raises(ValueError): f()\n"
        "def helper(): f()\n"
        "def test_e(): assert g() == 1 or True\n"
    )
    assert list(without_assert(source)) == ["test_a", "assert g() == 1 or True (line 10)"]
