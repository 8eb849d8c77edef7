"""How long tests wait for what takes a busy machine long."""

from __future__ import annotations

from typing import Final

CRD_SECONDS: Final = 300.0
"""For a kube-apiserver to serve a CRD, to publish it, or to remove it with its objects."""
