"""The tables of names and options in docs/packages, and of what accounts can do, made from the code.

    python -m tests.docs.reference            writes them into the pages
    python -m tests.docs.reference --check    fails with the difference

A page says where: `<!-- names ctrlruntime.queue -->` for what a package exports, `<!-- options
ctrlruntime.manager.ManagerOptions -->` for the fields of a class, `<!-- table MODULE -->` for the rows of the
module's `table()`; the table that follows is replaced.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import itertools
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, Field, fields
from enum import Enum
from types import ModuleType
from typing import Any

from tests.docs.blocks import ROOT

PAGES = ROOT / "docs" / "packages"
MADE = (*sorted(PAGES.glob("*.md")), ROOT / "docs" / "operations" / "manager-token.md")
_PLACE = re.compile(r"<!-- (names|options|table) ([\w.]+) -->\n\n?(?:\|[^\n]*\n)*")


class Undocumented(Exception):
    """A public name that says nothing of itself."""


def filled(page: str) -> str:
    """The text of a page with its tables made anew. Raises Undocumented."""
    return _PLACE.sub(_table, page)


def _table(place: re.Match[str]) -> str:
    what, path = place.groups()
    head, rows = _rows(what, path)
    lines = [_row(head), "|" + "---|" * len(head), *map(_row, rows)]
    return f"<!-- {what} {path} -->\n\n" + "\n".join(lines) + "\n"


def _rows(what: str, path: str) -> tuple[tuple[str, ...], Iterable[tuple[str, ...]]]:
    """The head of a table and its rows."""
    if what == "options":
        return ("option", "default", ""), options(_found(path))
    module = importlib.import_module(path)
    if what == "names":
        return ("name", ""), names(module)
    head, *rows = module.table()
    return head, rows


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def names(package: ModuleType) -> Iterator[tuple[str, str]]:
    """What a package exports, each with the first sentence of its docstring."""
    for name in sorted(package.__all__, key=lambda n: (not n[0].isupper(), n.lower())):
        yield f"`{name}`", _summary(package, name)


def options(cls: type) -> Iterator[tuple[str, str, str]]:
    """The fields of a dataclass with their defaults and what stands below them."""
    told = _below(ast.parse(inspect.getsource(cls).lstrip()).body[0])
    for field in fields(cls):
        yield f"`{field.name}`", _default(field), told.get(field.name, "")


def _default(field: Field[Any]) -> str:
    value = field.default if field.default is not MISSING else None
    if field.default_factory is not MISSING:
        value = field.default_factory()
        shown = f"{type(value).__name__}()" if hasattr(value, "__dataclass_fields__") else None
        return f"`{shown}`" if shown else _shown(value)
    return "required" if field.default is MISSING else _shown(value)


def _shown(value: object) -> str:
    if value in (None, "", (), {}, []):
        return ""
    if isinstance(value, Enum):
        value = value.value
    return f"`{getattr(value, '__name__', value)}`"


def _found(path: str) -> type:
    module, _, name = path.rpartition(".")
    found: type = getattr(importlib.import_module(module), name)
    return found


def _summary(package: ModuleType, name: str) -> str:
    value = getattr(package, name)
    if inspect.isclass(value) or inspect.isfunction(value) or inspect.ismodule(value):
        text = inspect.getdoc(value) or ""
        if text.startswith(f"{name}("):  # what dataclasses write by themselves
            text = ""
        if (
            value.__name__ != name and package.__spec__ is not None
        ):  # another name of it, with words of its own
            text = _assigned(package, name) or text
    else:
        text = _assigned(package, name)
    if not text:
        raise Undocumented(f"{package.__name__}.{name} has no docstring")
    return _plain(text)


def _assigned(package: ModuleType, name: str) -> str:
    """What stands below an assignment, in the package or where it imports the name from."""
    tree = ast.parse(inspect.getsource(package))
    if text := _below(tree).get(name):
        return text
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            origin = "." * node.level + (node.module or "")
            module = importlib.import_module(origin, package.__name__)
            return _below(ast.parse(inspect.getsource(module))).get(name, "")
    return ""


def _below(node: ast.AST) -> dict[str, str]:
    """String literals that follow an assignment, by the name assigned."""
    found: dict[str, str] = {}
    body: list[ast.stmt] = getattr(node, "body", [])
    for statement, after in itertools.pairwise(body):
        target = _target(statement)
        if target and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            found[target] = _plain(str(after.value.value), whole=True)
    return found


def _target(statement: ast.stmt) -> str:
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            return name
    return ""


def _plain(text: str, *, whole: bool = False) -> str:
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    paragraph = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", paragraph).replace("``", "`")
    if whole:
        return paragraph
    sentence = re.match(r".+?[.!?:](?=\s+[A-Z`(]|$)", paragraph)
    return (sentence.group(0) if sentence else paragraph).rstrip(":")


def main(arguments: list[str]) -> int:
    """Write the tables, or with --check tell what differs."""
    failed = 0
    for page in MADE:
        text = page.read_text()
        made = filled(text)
        if "--check" not in arguments:
            page.write_text(made)
        elif made != text:
            failed = 1
            where = page.relative_to(ROOT).as_posix()
            sys.stdout.writelines(
                difflib.unified_diff(text.splitlines(True), made.splitlines(True), where, "code")
            )
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
