"""What a controller needs is exported by ``ctrlruntime`` itself, and importing that costs next to nothing."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import ctrlruntime
from tests.docs.blocks import ROOT, blocks

pytestmark = pytest.mark.criterion("DX-1")

TUTORIALS = (
    "README.md",
    *(
        path.relative_to(ROOT).as_posix()
        for pattern in ("first-controller*", "tutorial*", "coming-from-*", "concepts*")
        for path in sorted((ROOT / "docs").glob(f"{pattern}.md"))
    ),
)
NEEDED = (
    "Manager ManagerOptions Builder Request Result Resource Client Config Control Desired Condition Owner "
    "NotFound Conflict Invalid TerminalError run set_condition merge_patch"
)

COST = """
import sys
before = set(sys.modules)
import ctrlruntime
print(*sorted(set(sys.modules) - before))
"""


def imported_for_checkers() -> dict[str, str]:
    """Exported names and their modules, as a type checker reads them."""
    tree = ast.parse(Path(ctrlruntime.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    return {
        alias.name: str(node.module)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_what_a_controller_needs_is_exported() -> None:
    assert set(NEEDED.split()) <= set(ctrlruntime.__all__)


def test_exports_are_the_same_for_programs_and_for_type_checkers() -> None:
    seen = imported_for_checkers()
    assert sorted(seen) == sorted(ctrlruntime.__all__)
    assert len(set(ctrlruntime.__all__)) == len(ctrlruntime.__all__)
    for name, module in seen.items():
        if name == "predicates":
            assert ctrlruntime.predicates.__name__ == f"{module}.{name}"
        else:
            assert getattr(ctrlruntime, name) is getattr(importlib.import_module(module), name)
            assert ctrlruntime._SOURCE_OF[name] == module, name


def test_importing_the_package_loads_none_of_its_parts() -> None:
    done = subprocess.run([sys.executable, "-c", COST], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"__future__", "ctrlruntime"}


def test_a_name_that_is_not_exported_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'ctrlruntime' has no attribute 'Managr'"):
        ctrlruntime.__getattr__("Managr")
    assert set(ctrlruntime.__all__) <= set(dir(ctrlruntime))


@pytest.mark.parametrize("page", TUTORIALS)
def test_tutorials_import_from_at_most_three_places(page: str) -> None:
    for block in blocks(page):
        if block.language != "python":
            continue
        places = {
            str(node.module)
            for node in ast.walk(_parsed(block.text))
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("ctrlruntime")
        }
        assert len(places) <= 3, f"{block}: {sorted(places)}"


def _parsed(text: str) -> ast.Module:
    """A block of a page: a program, or the body of a coroutine."""
    body = "".join(f"    {line}" for line in text.splitlines(keepends=True))
    return ast.parse(f"async def block():\n{body}")
