#!/usr/bin/env python3
"""Print the part of a lock file that the manager needs to run: without tools and the test environment.

    hack/runtime-lock.py requirements.lock pyproject.toml > runtime.lock

It starts from what pyproject.toml names (`dependencies`, the extra `otel` and the group `manager`)
and follows the comments `via` of the lock; hashes are kept. Standard library alone, so that it
can be used before anything is installed.
"""

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

EXTRAS = ("otel",)
GROUPS = ("manager",)
_ENTRY = re.compile(r"^([A-Za-z0-9._-]+)==", re.MULTILINE)
_VIA = re.compile(r"^    # via (.+)$|^    #   (.+)$", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def entries(lock: str) -> dict[str, str]:
    """Return the text of each entry by name."""
    starts = [(match.start(), match[1]) for match in _ENTRY.finditer(lock)]
    ends = [start for start, _ in starts[1:]] + [len(lock)]
    return {name: lock[start:end] for (start, name), end in zip(starts, ends, strict=True)}


def named(project: dict[str, Any]) -> set[str]:
    """Return the packages that pyproject.toml names for the manager, spelled as a lock spells them."""
    requirements = [
        *project["project"]["dependencies"],
        *(item for extra in EXTRAS for item in project["project"]["optional-dependencies"][extra]),
        *(item for group in GROUPS for item in project["dependency-groups"][group]),
    ]
    names = (_NAME.match(item) for item in requirements)
    return {re.sub(r"[-_.]+", "-", name[0]).lower() for name in names if name}


def needed(lock: str, roots: set[str]) -> list[str]:
    """Return the entries that `roots` are or need, directly or not. Raises SystemExit for one without an entry."""
    required_by = {
        name: {first or second for first, second in _VIA.findall(text)}
        for name, text in entries(lock).items()
    }
    if missing := roots - set(required_by):
        raise SystemExit(f"the lock has no entry for {', '.join(sorted(missing))}; lock again")
    found = set(roots)
    while more := {name for name, by in required_by.items() if found & by} - found:
        found |= more
    return sorted(found)


def main() -> None:
    """Print the entries for the two files that the command line names."""
    lock = Path(sys.argv[1]).read_text("utf-8")
    roots = named(tomllib.loads(Path(sys.argv[2]).read_text("utf-8")))
    texts = entries(lock)
    sys.stdout.write("".join(texts[name] for name in needed(lock, roots)))


if __name__ == "__main__":
    main()
