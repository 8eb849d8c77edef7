"""A docstring says what its function does in the imperative, or names what the function returns."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.house.words import PACKAGES, ROOT

THIRD_PERSON = re.compile(
    r"(Accepts|Adds|Answers|Applies|Asks|Begins|Binds|Breaks|Bounds|Cancels|Carries|Charges|Checks|Closes"
    r"|Comes|Compiles|Creates|Deletes|Delivers|Descends|Does|Drops|Ends|Enters|Fails|Finds|Follows|Forgets|Gets"
    r"|Gives|Goes|Handles|Has|Holds|Injects|Installs|Is|Keeps|Leaves|Lets|Listens|Loads|Makes|Marks|Merges"
    r"|Moves|Opens|Parses|Passes|Polls|Prepares|Prints|Puts|Queues|Raises|Reads|Records|Refuses|Removes"
    r"|Renders|Replaces|Restores|Returns|Sends|Serves|Shows|Starts|Stops|Stores|Takes|Tells|Tries|Trusts"
    r"|Updates|Uses|Waits|Wakes|Yields)\b"
)
"""Words that are no plural of what a function returns, as `Names of …` and `Seconds until …` are."""


def _functions() -> Iterator[tuple[str, str]]:
    for package in (*PACKAGES, "benchmarks", "tests"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    continue
                if any("property" in ast.unparse(item) for item in node.decorator_list):
                    continue
                if text := ast.get_docstring(node):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", text


def test_no_docstring_speaks_of_its_function_in_the_third_person() -> None:
    found = [f"{where}: {text.splitlines()[0]}" for where, text in _functions()]
    assert len(found) > 3000
    assert [line for line in found if THIRD_PERSON.match(line.split(": ", 1)[1])] == []
