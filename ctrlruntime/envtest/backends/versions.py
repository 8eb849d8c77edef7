"""Releases of Kubernetes, as servers and their programs name them."""

from __future__ import annotations

import re

from ctrlruntime.envtest.backends.backend import Version


def parse_version(text: str) -> Version:
    """Return (1, 36) for `Kubernetes v1.36.2`. Raises ValueError."""
    found = re.search(r"v(\d+)\.(\d+)", text)
    if found is None:
        raise ValueError(f"no version in {text!r}")
    return int(found.group(1)), int(found.group(2))
