"""The options of each example are ones with which a manager starts."""

from __future__ import annotations

import ast
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_examples_that_elect_a_leader_name_the_lease() -> None:
    """A manager refuses election without the name of its Lease: the tests of the examples call `setup` alone."""
    calls = [
        (path.name, {keyword.arg for keyword in node.keywords})
        for path in sorted(EXAMPLES.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "ManagerOptions"
    ]
    assert len(calls) > 3
    assert not [
        name
        for name, given in calls
        if "leader_election" in given and "leader_election_id" not in given
    ]
