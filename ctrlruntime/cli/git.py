"""What git has of a file that it could not merge."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

__all__ = ["sides"]

_STAGES: Final = (2, 3)
"""Of the index: the branch that is merged into, and the one that is merged."""


def sides(root: Path, path: str) -> list[bytes]:
    """Return the file as both branches have it; an empty list where no merge is open, or there is no git.

    The sides cannot be taken from the text between the marks: git merges by lines, and puts a changed line of one
    kind into another that is like it.
    """
    found = []
    for stage in _STAGES:
        command = ["git", "cat-file", "blob", f":{stage}:./{path}"]
        try:
            done = subprocess.run(command, cwd=root, capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return []
        found.append(done.stdout)
    return found
