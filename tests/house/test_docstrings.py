"""A docstring says what its function does in the imperative, or names what the function returns."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.house.words import PACKAGES, ROOT

THIRD_PERSON = re.compile(
    r"\s*(Accepts|Adds|Answers|Applies|Asks|Begins|Binds|Breaks|Bounds|Cancels|Carries|Charges|Checks|Closes"
    r"|Comes|Compiles|Creates|Deletes|Delivers|Descends|Does|Drops|Ends|Enters|Fails|Finds|Follows|Forgets|Gets"
    r"|Gives|Goes|Handles|Has|Holds|Injects|Installs|Is|Keeps|Leaves|Lets|Listens|Loads|Makes|Marks|Merges"
    r"|Moves|Opens|Parses|Passes|Polls|Prepares|Prints|Puts|Queues|Raises|Reads|Records|Refuses|Removes"
    r"|Renders|Replaces|Restores|Returns|Sends|Serves|Shows|Starts|Stops|Stores|Takes|Tells|Tries|Trusts"
    r"|Updates|Uses|Waits|Wakes|Yields)\b"
)
"""Words that are no plural of what a function returns, as `Names of …` and `Seconds until …` are."""
_MAY_BE = re.compile(f'"""{THIRD_PERSON.pattern}')


def in_the_third_person(source: str) -> Iterator[str]:
    """Yield the first lines of such docstrings, and where they are. Few files are worth a parse."""
    if not _MAY_BE.search(source):
        return
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if any("property" in ast.unparse(item) for item in node.decorator_list):
            continue
        text = ast.get_docstring(node)
        if text and THIRD_PERSON.match(text):
            yield f"{node.lineno}: {text.splitlines()[0]}"


def test_no_docstring_speaks_of_its_function_in_the_third_person() -> None:
    paths = [
        path
        for package in (*PACKAGES, "benchmarks", "tests")
        for path in sorted((ROOT / package).rglob("*.py"))
    ]
    assert len(paths) > 1000
    found = [
        f"{path.relative_to(ROOT)}:{each}"
        for path in paths
        for each in in_the_third_person(path.read_text())
    ]
    assert found == []


def test_one_in_the_third_person_is_found() -> None:
    source = 'def a():\n    """Returns it."""\ndef b():\n    """Return it."""\n'
    assert list(in_the_third_person(source)) == ["1: Returns it."]
