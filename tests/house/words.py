"""`python -m tests.house.words`: counts the words that docs, docstrings and messages avoid; `--write` lowers the baseline."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
BASELINE = Path(__file__).parent / "words.json"
PACKAGES = ("ctrlruntime", "apis", "internal", "manager")
PAGES = ("README.md", "CONTRIBUTING.md")
AVOIDED = re.compile(
    r"\b(somebody|nobody|told|says|asks|knows|hands|ours|(?:your|its|a) word|brought about|at rest"
    r"|due|mended|held up|passed by|in earnest)\b",
    re.IGNORECASE,
)


def texts(source: str) -> Iterator[str]:
    """Yield the docstrings and messages of a Python file: every string in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def count(path: Path) -> int:
    """Return how many avoided words a file has."""
    source = path.read_text()
    if not AVOIDED.search(source):
        return 0
    parts = texts(source) if path.suffix == ".py" else [source]
    return sum(len(AVOIDED.findall(part)) for part in parts)


def files(root: Path = ROOT) -> Iterator[Path]:
    """Yield every file whose words count."""
    for package in PACKAGES:
        yield from sorted((root / package).rglob("*.py"))
    yield from sorted((root / "docs").rglob("*.md"))
    yield from (root / page for page in PAGES if (root / page).exists())


def counts(root: Path = ROOT) -> dict[str, int]:
    """Return the count of each file that has any, by its path."""
    found = {str(path.relative_to(root)): count(path) for path in files(root)}
    return {path: number for path, number in found.items() if number}


def risen(now: Mapping[str, int], allowed: Mapping[str, int]) -> list[str]:
    """Return a line for each file with more avoided words than the baseline allows."""
    return [
        f"{path}: {number} avoided words, {allowed.get(path, 0)} allowed"
        for path, number in now.items()
        if number > allowed.get(path, 0)
    ]


def lowered(now: Mapping[str, int], allowed: Mapping[str, int]) -> dict[str, int]:
    """Return the next baseline: what is left of the present one."""
    return {
        path: min(number, allowed.get(path, 0)) for path, number in now.items() if path in allowed
    }


def baseline() -> dict[str, int]:
    """Return how many each file may have."""
    found: dict[str, int] = json.loads(BASELINE.read_text())
    return found


def main() -> int:
    """Print what has risen, or write the baseline."""
    if "--write" in sys.argv[1:]:
        BASELINE.write_text(
            json.dumps(lowered(counts(), baseline()), indent=0, sort_keys=True) + "\n"
        )
        return 0
    lines = risen(counts(), baseline())
    print("\n".join(lines) or f"{sum(counts().values())} avoided words, none above the baseline")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
