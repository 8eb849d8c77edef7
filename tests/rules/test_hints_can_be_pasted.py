"""A command in a message works when it is pasted: the program has its name, and nothing that it needs is left out."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from manager.cli import main

ROOT = Path(__file__).parents[2]
HINT = re.compile(r"`(manager [^`]+)`")
PLAIN = re.compile(
    rf"(?<![\w`./-])(manager (?:{'|'.join(sorted(main.list_commands(click.Context(main))))})\b.*?)(?=[,;)\n]|\.?\s*$|\. )"
)
"""A command in the midst of a text, without backticks."""
PASTED = re.compile(
    r"^ *(?:\$ )?(?:python -m |\.venv/bin/|ctrlruntime-)?(manager [a-z-].*)$", re.MULTILINE
)
"""A line of a document that is a command."""
FILLED = "x"
"""What stands for a name that is known only when the message is made."""


def _texts(tree: ast.AST) -> Iterator[str]:
    """Texts of a module that are no docstrings, f-strings with their values filled in."""
    documents = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    joined = (node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr))
    parts_of = {part for node in joined for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (
                each.value if isinstance(each, ast.Constant) else FILLED for each in node.values
            )
            yield "".join(map(str, parts))
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node not in documents | parts_of
        ):
            yield node.value


def hints() -> list[tuple[str, str]]:
    """Commands in messages of the product, each with its file."""
    found: set[tuple[str, str]] = set()
    for package in ("apis", "internal", "manager"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for text in _texts(ast.parse(path.read_text())):
                found |= {(each, str(path.relative_to(ROOT))) for each in hints_in(text)}
    return sorted(found)


def hints_in(text: str) -> list[str]:
    """Return the commands in a text, in backticks and without."""
    return [*HINT.findall(text), *PLAIN.findall(re.sub(r"`[^`]*`", "``", text))]


def fault(command: str) -> str:
    """Why the command line would be refused before it does anything; empty: it would not be."""
    _, *words = shlex.split(command)
    group: click.Command = main
    try:
        while isinstance(group, click.Group) and words and not words[0].startswith(("-", FILLED)):
            with click.Context(group) as context:
                _, chosen, words = group.resolve_command(context, words)
            group = chosen or group
        if not isinstance(group, click.Group):
            group.make_context(group.name, words).close()
        elif not words:
            return "names no command"
    except click.exceptions.Exit:
        return ""  # --help
    except click.ClickException as error:
        why = error.format_message()
        return "" if why.endswith("No such file or directory") else why
    return ""


@pytest.mark.criterion("U-10")
def test_every_hint_can_be_pasted() -> None:
    found = {command: file for command, file in hints() if fault(command)}
    assert not found
    assert len(hints()) > 10


def documented() -> list[tuple[str, str]]:
    """Command lines of the manager in blocks of the documents, fenced or indented, each with its page."""
    found: set[tuple[str, str]] = set()
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        fenced = False
        for line in page.read_text().replace("\\\n", " ").splitlines():
            fenced ^= line.lstrip().startswith("```")
            command = PASTED.match(line)
            if command is not None and (fenced or line.startswith("    ")):
                words = re.split(r" [|>&]|\s#", command[1])[0]
                found.add((words, str(page.relative_to(ROOT))))
    return sorted(found)


@pytest.mark.criterion("U-11")
def test_every_documented_command_line_is_one_of_the_manager() -> None:
    found = {command: page for command, page in documented() if fault(command)}
    assert not found
    assert len(documented()) > 50


@pytest.mark.criterion("U-10")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Wait, or run manager rollout resume x.", ["manager rollout resume x"]),
        ("after it manager fleet adopt x --to y, then kubectl", ["manager fleet adopt x --to y"]),
        ("`manager top` shows what manager uninstall --help says", ["manager top", "manager uninstall --help says"]),
        ("the manager runs; a manager that stops", []),
    ],
)  # fmt: skip
def test_commands_are_found_in_backticks_and_without(text: str, found: list[str]) -> None:
    assert hints_in(text) == found


@pytest.mark.criterion("U-10")
@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("manager rollout resume", "Missing argument"),
        ("manager rollaut resume x", "no command"),
        ("manager rollout resume x --nothing", "No such option"),
    ],
)
def test_a_hint_that_lacks_something_is_found(command: str, why: str) -> None:
    assert why in fault(command)
