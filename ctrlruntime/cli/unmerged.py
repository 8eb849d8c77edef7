"""What git has of a file that it could not merge."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

__all__ = ["sides"]

_BASE: Final = 1
_SIDES: Final = (2, 3)
"""Stages of the index: the branch that is merged into, and the one that is merged."""
_PLACES: Final = ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE")
"""Variables of a hook that lead to another repository than the project's."""


def sides(root: Path, path: str) -> list[bytes]:
    """Return the file as both branches have it, and as their base has it, if that has it.

    An empty list where no merge is open, or there is no git.

    The sides cannot be taken from the text between the marks: git merges by lines, and puts a changed line of one
    kind into another that is like it.
    """
    both = [_blob(root, path, stage) for stage in _SIDES]
    found = [each for each in (*both, _blob(root, path, _BASE)) if each is not None]
    return [] if None in both else found


def _blob(root: Path, path: str, stage: int) -> bytes | None:
    environment = {name: value for name, value in os.environ.items() if name not in _PLACES}
    command = ["git", "cat-file", "blob", f":{stage}:./{path}"]
    try:
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout
