"""The packages of the lock file, for environments that tests make."""

from __future__ import annotations

import sys
from pathlib import Path

WHEELS = Path(sys.prefix) / "wheels"
"""What hack/setup.sh installed is kept there; an environment made by other means has no such folder."""


def from_wheels(folder: Path = WHEELS) -> dict[str, str]:
    """Variables that have pip take packages from the folder alone; none if it is not there.

    Pip judges every file that an index has of a package, thousands for some, which takes four times as
    long as to install the one that is wanted.
    """
    if not folder.is_dir():
        return {}
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)}
