"""Where kubectl binaries are found: those that hack/kubectl.sh provides, and those on PATH."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from ctrlruntime.envtest.assets import cache_folder
from tests.backends import missing

_SCRIPT = Path(__file__).parents[3] / "hack" / "kubectl.sh"


@cache
def provisioned(version: str) -> Path:
    """kubectl of that version. Raises RuntimeError where it cannot be had, see `missing`."""
    path = cache_folder() / "kubectl" / version / "kubectl"
    if not path.exists():
        done = subprocess.run(["bash", str(_SCRIPT), version], capture_output=True, text=True)
        if done.returncode:
            said = done.stderr.strip()[-200:]
            missing(RuntimeError(f"no kubectl {version} (hack/kubectl.sh {version}): {said}"))
    return path


def others() -> dict[str, Path]:
    """Every other kubectl: the one on PATH, and `kubectl.1.NN` beside it."""
    found = shutil.which("kubectl")
    if found is None:
        return {}
    real = Path(found).resolve()
    versions = {
        path.name.removeprefix("kubectl."): path
        for path in sorted(real.parent.glob("kubectl.1.*"))
        if re.fullmatch(r"kubectl\.1\.\d+", path.name)
    }
    return {"PATH": real, **versions}
