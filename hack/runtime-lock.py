#!/usr/bin/env python3
"""Prints the part of a lock file that a program needs to run: all but what only `dev` asks for.

    hack/runtime-lock.py requirements.lock > runtime.lock

Every entry of the lock says in its comment `via` who asks for it; hashes are kept. Standard library
alone, so that it can be used before anything is installed.
"""

import re
import sys
from pathlib import Path

_ENTRY = re.compile(r"^([A-Za-z0-9._-]+)==", re.MULTILINE)
_VIA = re.compile(r"^    # via (.+)$|^    #   (.+)$", re.MULTILINE)


def entries(lock: str) -> dict[str, str]:
    """The text of each entry by name."""
    starts = [(match.start(), match[1]) for match in _ENTRY.finditer(lock)]
    ends = [start for start, _ in starts[1:]] + [len(lock)]
    return {name: lock[start:end] for (start, name), end in zip(starts, ends, strict=True)}


def needed(lock: str, left_out: str) -> list[str]:
    """The entries that something else than the group `left_out` asks for, directly or not."""
    asked = {
        name: [first or second for first, second in _VIA.findall(text)]
        for name, text in entries(lock).items()
    }
    found = {
        name
        for name, by in asked.items()
        if any("(pyproject.toml" in who and f":{left_out})" not in who for who in by)
    }
    while more := {name for name, by in asked.items() if found & set(by)} - found:
        found |= more
    return sorted(found)


def main() -> None:
    lock = Path(sys.argv[1]).read_text("utf-8")
    texts = entries(lock)
    sys.stdout.write("".join(texts[name] for name in needed(lock, "dev")))


if __name__ == "__main__":
    main()
