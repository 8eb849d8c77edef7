"""The public surface of the library as one file of signatures, in which a change of it shows.

    python -m hack.signatures            writes docs/signatures.txt
    python -m hack.signatures --check    fails with the difference

A line is a name that a package exports, a field or a method of one: `ctrlruntime.queue WorkQueue.get(self) ->
Request`. What is inherited stands at the base. A name that two packages export stands at the one that has it, and
as `NAME = PACKAGE.NAME` at the other.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FILE: Final = ROOT / "docs" / "signatures.txt"
LIBRARY: Final = "ctrlruntime"
LEFT_OUT: Final = frozenset({"kinds"})
"""Made from Kubernetes' own description, by `make kinds`."""
LONG: Final = 100
"""Characters of a value from which its type alone is shown."""
_CALLED: Final = frozenset(
    {"__init__", "__call__", "__await__", "__enter__", "__aenter__", "__iter__"}
)
"""Methods that are public although they are underscored."""
_FACTORY: Final = re.compile(r"field\(default_factory=(\w+)\)")


def signatures() -> list[str]:
    """Return the lines of the file, sorted within each package."""
    home: dict[str, str] = {}
    lines: list[str] = []
    for package in (*(f"{LIBRARY}.{name}" for name in packages()), LIBRARY):
        module = importlib.import_module(package)
        for name in sorted(module.__all__):
            origin = f"{_module_of(module, name)}:{name}"
            known = home.setdefault(origin, package)
            if known != package:
                lines.append(f"{package} {name} = {known}.{name}")
            else:
                lines.extend(f"{package} {line}" for line in _described(module, name))
    return lines


def packages() -> list[str]:
    """Return the names of the packages that users import, sorted."""
    found = (path.parent.name for path in (ROOT / LIBRARY).glob("*/__init__.py"))
    return sorted(name for name in found if name not in LEFT_OUT)


def options() -> Iterator[tuple[str, str, list[tuple[str, str, str, str]]]]:
    """Yield package, name and fields of every options class that describes its fields.

    Of each field: its name, type, default (empty where it has none) and text.
    """
    for package in packages():
        module = importlib.import_module(f"{LIBRARY}.{package}")
        for name in sorted(each for each in module.__all__ if each.endswith("Options")):
            origin = importlib.import_module(_module_of(module, name))
            (node,) = [node for node in _tree(origin).body if _named(node) == name]
            found = list(_fields(node)) if isinstance(node, ast.ClassDef) else []
            if any(text for *_, text in found):
                yield package, name, found


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, str, str, str]]:
    for statement, after in zip(node.body, [*node.body[1:], None], strict=True):
        match statement, after:
            case ast.AnnAssign(target=ast.Name(id=name)), _ if not name.startswith("_"):
                text = ""
                match after:
                    case ast.Expr(value=ast.Constant(value=str() as text)):
                        text = " ".join(text.split())
                default = ast.unparse(statement.value) if statement.value else ""
                default = default.replace("field(default_factory=dict)", "{}")
                default = _FACTORY.sub(r"\1()", default)
                if "init=False" not in default:
                    yield name, ast.unparse(statement.annotation), default, text


def _module_of(package: ModuleType, name: str) -> str:
    """Return the module whose source has the name, by the imports of the package."""
    value = getattr(package, name)
    if inspect.ismodule(value) and hasattr(value, "__all__"):
        return value.__name__
    if inspect.isclass(value) or inspect.isfunction(value):
        return value.__module__
    for node in ast.walk(_tree(package)):
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            origin = importlib.import_module(
                "." * node.level + (node.module or ""), package.__package__
            )
            return _module_of(origin, name)
    return package.__name__


@cache
def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))


def _described(package: ModuleType, name: str) -> Iterator[str]:
    """Yield the lines of one name, from the source that has it; of a module those of what it exports."""
    value = getattr(package, name)
    if inspect.ismodule(value) and hasattr(value, "__all__"):
        for each in sorted(value.__all__):
            yield from (f"{name}.{line}" for line in _described(value, each))
        return
    origin = importlib.import_module(_module_of(package, name))
    if not origin.__name__.startswith(LIBRARY):
        yield f"{name} = {origin.__name__}.{name}"
        return
    found = [node for node in ast.walk(_tree(origin)) if _named(node) == name]
    for node in found:
        if isinstance(node, ast.ClassDef):
            yield from _class(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield _function(node, name)
        elif isinstance(node, ast.AnnAssign):
            yield f"{name}: {ast.unparse(node.annotation)}"
        elif isinstance(node, ast.Assign):
            value = ast.unparse(node.value)
            yield f"{name} = {value if len(value) < LONG else type(getattr(origin, name)).__name__}"
    if not found:
        yield f"{name}: {type(getattr(package, name)).__name__}"


def _named(node: ast.AST) -> str:
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return node.name if node.col_offset == 0 else ""
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            return name if node.col_offset == 0 else ""
    return ""


def _class(node: ast.ClassDef) -> Iterator[str]:
    bases = ", ".join(map(ast.unparse, [*node.bases, *(word.value for word in node.keywords)]))
    yield f"class {node.name}({bases})" if bases else f"class {node.name}"
    members: list[str] = []
    for statement in node.body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if not name.startswith("_") or name in _CALLED:
                    members.append(_function(statement, f"{node.name}.{name}"))
            case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
                default = f" = {ast.unparse(statement.value)}" if statement.value else ""
                members.append(f"{node.name}.{name}: {ast.unparse(statement.annotation)}{default}")
            case ast.Assign(targets=[ast.Name(id=name)]) if not name.startswith("_"):
                members.append(f"{node.name}.{name} = {ast.unparse(statement.value)}")
    yield from sorted(members)


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> str:
    how = [ast.unparse(each) for each in node.decorator_list]
    marks = "".join(f"@{each} " for each in how if each.split(".")[-1] in _KINDS)
    begin = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{marks}{begin}{name}({ast.unparse(node.args)}){result}"


_KINDS: Final = frozenset({"property", "classmethod", "staticmethod", "overload", "setter"})


def main(arguments: list[str]) -> int:
    """Write the file; with --check show what differs, and return 1 if anything does."""
    made = "".join(f"{line}\n" for line in signatures())
    if "--check" not in arguments:
        FILE.write_text(made)
        return 0
    kept = FILE.read_text()
    if made == kept:
        return 0
    sys.stdout.writelines(
        difflib.unified_diff(
            kept.splitlines(True), made.splitlines(True), "docs/signatures.txt", "code"
        )
    )
    sys.stdout.write("run `make generate`, and say in CHANGELOG.md what users see of the change\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
