"""SG-11: changes go one way. Git is read for a name, and never written to."""

from __future__ import annotations

import ast
import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from internal.cloud.ephemeral import current_branch

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("apis", "ctrlruntime", "internal", "manager")
READS: Final = {"symbolic-ref", "rev-parse", "branch", "--version", "cat-file"}
LIBRARIES: Final = {"git", "pygit2", "dulwich"}

pytestmark = pytest.mark.criterion("SG-11")


def modules() -> list[Path]:
    return [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]


def words_of(node: ast.AST) -> list[str]:
    """The texts of a list or tuple, in order."""
    if not isinstance(node, ast.List | ast.Tuple):
        return []
    return [
        each.value
        for each in node.elts
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]


def test_git_is_called_to_read_alone() -> None:
    calls = []
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            words = words_of(node)
            if words[:1] == ["git"]:
                calls.append(next(word for word in words[1:] if not word.startswith("-C")))
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [getattr(node, "module", None) or "", *(each.name for each in node.names)]
                assert not LIBRARIES & {name.partition(".")[0] for name in names}, path
    assert set(calls) <= READS
    assert calls, "the branch is read somewhere"


def test_reading_the_branch_leaves_the_repository_as_it_was(tmp_path: Path) -> None:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(
        ["git", "init", "--quiet", "--initial-branch", "feature/x", str(tmp_path)],
        check=True,
        env=environment,
    )
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert current_branch(tmp_path) == "feature/x"
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
