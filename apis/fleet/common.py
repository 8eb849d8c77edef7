"""Group, version."""

from __future__ import annotations

from typing import Final

__all__ = ["GROUP", "VERSION"]

GROUP: Final = "fleet.ctrlruntime.dev"
VERSION: Final = "v1"
