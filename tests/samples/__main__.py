"""`python -m tests.samples`: checks what changed since the commit before by the tests that are nearest to it.

Style and types of the changed files, the files of tests that are nearest by imports and fit into the budget, on the
embedded server, and the seeded defects of the changed files.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import click
import grimp

from tests.durations.records import file_of, kept
from tests.mutants.defects import defects
from tests.samples.commit import CHANGED_SINCE, commit_of
from tests.samples.nearest import Imports, Near, nearest

ROOT = Path(__file__).parents[2]
PACKAGES = ("ctrlruntime", "apis", "internal", "manager")
WORKERS = 4


@click.command(help=__doc__)
@click.option(
    "--since",
    help="Compare with this commit (default: the last one, or with nothing changed the one before).",
)
@click.option("--seconds", default=40.0, show_default=True, help="Of tests, on two cores.")
@click.option("--list", "only_list", is_flag=True, help="Print the files of tests, run nothing.")
def main(since: str | None, seconds: float, only_list: bool) -> None:
    changed = _changed(since)
    if not changed:
        sys.exit("nothing changed")
    chosen, others = nearest(_distances(changed), _seconds, seconds * 2)
    for near in chosen:
        click.echo(f"{near.distance}  {near.seconds:6.1f} s  {near.file}")
    click.echo(_rest(others))
    if only_list:
        return
    sys.exit(1 if _failures(changed, chosen) else 0)


def _changed(since: str | None) -> frozenset[str]:
    """Return the paths of what changed: of the work tree, or of the last commit where that is clean."""
    if since is None:
        os.environ[CHANGED_SINCE] = "HEAD"
        found = commit_of(ROOT).changed
        if found:
            return found
        since = "HEAD~1"
    os.environ[CHANGED_SINCE] = since
    return commit_of(ROOT).changed


def _distances(changed: frozenset[str]) -> dict[str, int]:
    graph = grimp.build_graph(*PACKAGES, cache_dir=str(ROOT / ".run" / "grimp"))
    tests = {
        str(path.relative_to(ROOT)): _imported(path)
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
    }
    modules = {_module(path) for path in changed if path.endswith(".py")}

    def importers(module: str) -> set[str]:
        known = module in graph.modules
        return graph.find_modules_that_directly_import(module) if known else set()

    found = Imports(importers, tests).distances(modules)
    itself = {path for path in changed if path in tests}
    catching = {file_of(each.test) for each in defects() if each.file in changed}
    found |= dict.fromkeys((path for path in itself | catching if path in tests), 0)
    return found


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imported(path: Path) -> frozenset[str]:
    """Return the modules that a file of tests imports, names from packages included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return frozenset(found)


def _seconds(file: str) -> float:
    return kept().seconds_of(file)


def _rest(others: Iterable[Near]) -> str:
    counted = Counter(near.distance for near in others)
    farther = ", ".join(f"{count} at distance {far}" for far, count in sorted(counted.items()))
    return f"files of tests that do not fit: {farther or 'none'}; a sample of everything: make test"


def _failures(changed: frozenset[str], chosen: list[Near]) -> list[str]:
    sources = sorted(path for path in changed if path.endswith(".py") and (ROOT / path).exists())
    tests = [near.file for near in chosen]
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ctrlruntime" / "mypy"
    python = partial(_run, sys.executable, "-m")
    done = {
        "style": not sources
        or (python("ruff", "check", *sources) and python("ruff", "format", "--check", *sources)),
        "types": not sources or python("mypy", "--cache-dir", str(cache), *sources),
        "tests": not tests
        or python(
            "pytest", "-n", str(WORKERS), "--dist", "loadgroup", "-k", "not kube-apiserver", *tests
        ),
        "defects": python("tests.mutants", "--changed"),
    }
    failed = [name for name, passed in done.items() if not passed]
    click.echo(f"not right: {', '.join(failed)}" if failed else "what is nearest is right")
    return failed


def _run(*command: str) -> bool:
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


if __name__ == "__main__":
    main()
