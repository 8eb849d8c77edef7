"""The name of an ephemeral instance: by default that of the git branch. Pure, but for the reading."""

import re
import subprocess
from pathlib import Path

LONGEST = 30
"""Characters."""


class NoName(ValueError):
    """No name can be made. The message names the remedy."""


def sanitized(branch: str) -> str:
    """Return a name from a branch: lower case letters, digits and dashes, 30 at most, a letter first.

    Raises NoName if nothing is left.
    """
    name = re.sub(r"[^a-z0-9]+", "-", branch.lower()).strip("-")
    name = name.lstrip("-0123456789")[:LONGEST].rstrip("-")
    if not name:
        raise NoName(f"no name can be made of the branch {branch!r}: give one with --name")
    return name


def current_branch(folder: Path) -> str:
    """Return the branch that is checked out. Reads only. Raises NoName."""
    command = ["git", "-C", str(folder), "symbolic-ref", "--quiet", "--short", "HEAD"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        raise NoName("this is no git branch to be named after: give a name with --name") from None
    return told.stdout.strip()
