"""What git knows of the checkout: its commit, and the files that changed since an earlier one."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

CHANGED_SINCE = "CHANGED_SINCE"
"""Environment variable: the commit whose differences are what changed (default: the commit before)."""
FIFTHS = 5


@dataclass(frozen=True, slots=True)
class Commit:
    """`id`: in hexadecimal digits, "" where there is no repository. `changed`: paths from the root, those of
    the work tree that are not committed included. `since`: what they are compared with."""

    id: str = ""
    changed: frozenset[str] = frozenset()
    since: str = ""

    @property
    def systems(self) -> frozenset[str]:
        """Return the names of the systems whose code changed: the folders of `internal` and `apis`."""
        parts = (path.split("/") for path in self.changed)
        return frozenset(part[1] for part in parts if part[0] in ("internal", "apis") and part[2:])

    @property
    def fifth(self) -> int:
        """Return which fifth of the heavy proofs is its turn: as good as random from one commit to the next."""
        return int(self.id or "0", 16) % FIFTHS


def commit_of(root: Path) -> Commit:
    """Return the commit of a checkout.

    Without a repository, or without the commit before (a shallow clone), nothing counts as changed.
    """
    head = _git(root, "rev-parse", "HEAD")
    if head is None:
        return Commit()
    since = os.environ.get(CHANGED_SINCE, "HEAD~1")
    committed = _git(root, "diff", "--name-only", since, "HEAD")
    uncommitted = _git(root, "diff", "--name-only", "HEAD") or ""
    new = _git(root, "ls-files", "--others", "--exclude-standard") or ""
    paths = [*(committed or "").split("\n"), *uncommitted.split("\n"), *new.split("\n")]
    return Commit(
        head.strip(), frozenset(filter(None, paths)), since if committed is not None else ""
    )


def text_before(root: Path, commit: Commit, path: str) -> str | None:
    """Return a file as it was in the commit that changes are compared with; None if it was not there."""
    return _git(root, "show", f"{commit.since or 'HEAD'}:{path}")


def _git(root: Path, *arguments: str) -> str | None:
    """Return what git prints, None where it fails or is missing."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None
