"""Where kubectl binaries are found: hack/kubectl.sh provides them."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import Final

from ctrlruntime.envtest.assets import cache_folder

CURRENT: Final = "1.32"
"""The kubectl that all suites run with."""
NEWEST: Final = "newest"
"""Debian unstable's, of whatever release, which one smoke test runs with."""
_SCRIPT: Final = Path(__file__).parents[3] / "hack" / "kubectl.sh"


@cache
def provisioned(version: str = CURRENT) -> Path:
    """Return the path of that kubectl. Raises RuntimeError where it cannot be had."""
    path = cache_folder() / "kubectl" / version / "kubectl"
    if not path.exists():
        done = subprocess.run(["bash", str(_SCRIPT), version], capture_output=True, text=True)
        if done.returncode:
            end = done.stderr.strip()[-200:]
            raise RuntimeError(f"no kubectl {version} (hack/kubectl.sh {version}): {end}")
    return path
