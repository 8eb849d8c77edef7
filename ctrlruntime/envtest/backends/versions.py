"""Releases of Kubernetes, as servers and their programs tell them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from ctrlruntime.envtest.backends.backend import Version


def parse_version(text: str) -> Version:
    """(1, 20) of `Kubernetes v1.20.2`. Raises ValueError."""
    found = re.search(r"v(\d+)\.(\d+)", text)
    if found is None:
        raise ValueError(f"no version in {text!r}")
    return int(found.group(1)), int(found.group(2))


def binary_version(binary: Path) -> Version:
    """Return the version that `kube-apiserver --version` prints. Raises RuntimeError if it prints none."""
    said = subprocess.run(  # noqa: S603
        [str(binary), "--version"], capture_output=True, text=True, check=False, timeout=60
    )
    try:
        return parse_version(said.stdout)
    except ValueError:
        raise RuntimeError(
            f"{binary} --version said {said.stdout + said.stderr!r}: is it kube-apiserver?"
        ) from None
