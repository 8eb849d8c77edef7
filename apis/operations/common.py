"""Group, version, and the annotation of exempt objects."""

from __future__ import annotations

from typing import Final

__all__ = ["EXEMPT", "GROUP", "VERSION"]

GROUP: Final = "operations.ctrlruntime.dev"
VERSION: Final = "v1"
EXEMPT: Final = f"{GROUP}/exempt-from-freeze"
"""Annotation of a TenantRegistry, Instance, FleetRollout or CosmosFullNode: the name of a ChangeFreeze that does not
hold its changes."""
