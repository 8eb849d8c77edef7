"""A wait of a test ends by what it waits for: its limit is none that a busy machine exceeds."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
LEAST = 60
"""Seconds. Only a test that fails waits so long."""
LOOK = 1
"""Seconds up to which a limit is that of a look at what has not happened."""
WORDS = re.compile(r"timeout\(\d|timeout=\d|wait_for\(|(time|monotonic|perf_counter)\(\) - ")
"""What a file has that has such a wait: few are worth a parse."""
PLACES = {"timeout": 0, "wait_for": 1}
"""Which argument of `asyncio.timeout` and the like is the limit."""


def hasty(source: str) -> Iterator[str]:
    """Yield the waits of a file, and the assertions on how long something took, with a number of seconds for a limit that is too short.

    Those on virtual time may have any, and those that a test expects to end in an error.
    """
    if WORDS.search(source):
        yield from _hasty(ast.parse(source))


def _hasty(node: ast.AST) -> Iterator[str]:
    if _of_virtual_time(node) or _expects_an_error(node):
        return
    if isinstance(node, ast.Call | ast.Assert) and _is_hasty(node):
        yield f"{ast.unparse(node)[:80]} (line {node.lineno})"
    for child in ast.iter_child_nodes(node):
        yield from _hasty(child)


def _of_virtual_time(node: ast.AST) -> bool:
    marks: list[ast.expr] = []
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        marks = node.decorator_list
    elif isinstance(node, ast.Module):
        marks = [each.value for each in node.body if isinstance(each, ast.Assign)]
    return any("mark.looptime" in ast.unparse(each) for each in marks)


def _expects_an_error(node: ast.AST) -> bool:
    if not isinstance(node, ast.With | ast.AsyncWith):
        return False
    blocks = [ast.unparse(each.context_expr) for each in node.items]
    return any(each.startswith(("pytest.raises(", "contextlib.suppress(")) for each in blocks)


def _is_hasty(node: ast.Call | ast.Assert) -> bool:
    """Return whether a call waits, or an assertion allows, so few seconds. Those of the processor do not count."""
    match node:
        case ast.Call():
            return LOOK < _limit(node) < LEAST
        case ast.Assert(
            test=ast.Compare(
                left=ast.BinOp(left=ast.Call(func=clock), op=ast.Sub()),
                ops=[ast.Lt() | ast.LtE()],
                comparators=[ast.Constant(value=int() | float() as most)],
            )
        ):
            return "process_time" not in ast.unparse(clock) and most < LEAST
    return False


def _limit(call: ast.Call) -> float:
    """Return the seconds after which a call gives up; `LEAST` where it is none, or no number."""
    called = call.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    given = [each.value for each in call.keywords if each.arg == "timeout"]
    if name in PLACES:
        given += call.args[PLACES[name] :][:1]
    elif not name.startswith("eventually") and name != "wait":
        return LEAST
    numbers = (each.value for each in given if isinstance(each, ast.Constant))
    return next((each for each in numbers if isinstance(each, int | float)), LEAST)


def test_no_wait_has_a_limit_that_a_busy_machine_exceeds() -> None:
    found = [
        f"{path.relative_to(TESTS)}: {each}"
        for path in sorted(TESTS.rglob("*.py"))
        for each in hasty(path.read_text())
    ]
    assert not found, "leave the limit to the helper, or wait for a minute at least"


def test_a_short_wait_is_found() -> None:
    source = (
        "await eventually(look, timeout=5)\n"
        "async with asyncio.timeout(10): pass\n"
        "await asyncio.wait_for(task, timeout=30)\n"
        "await asyncio.wait_for(task, 30)\n"
        "await asyncio.wait_for(task, LONG)\n"
        "await eventually(look, timeout=0.3)\n"
        "with pytest.raises(AssertionError):\n    await eventually(look, timeout=2)\n"
        "@pytest.mark.looptime\nasync def test_a(): await asyncio.wait_for(task, 3)\n"
        "await client.get(timeout=5)\n"
        "assert time.process_time() - began < 5\n"
        "assert time.monotonic() - began < 60\n"
        "assert time.monotonic() - began < 5\n"
    )
    lines = [each.rsplit(" ", 1)[1] for each in hasty(source)]
    assert lines == ["1)", "2)", "3)", "4)", "14)"]
