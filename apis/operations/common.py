"""Group, version, and the annotation that requests an exemption."""

from __future__ import annotations

from typing import Final

__all__ = ["EXEMPT", "GROUP", "VERSION"]

GROUP: Final = "operations.ctrlruntime.dev"
VERSION: Final = "v1"
EXEMPT: Final = f"{GROUP}/exempt-from-freeze"
"""Annotation of a TenantRegistry, Instance, FleetRollout or CosmosFullNode: the name of a ChangeFreeze that its author
requests an exemption from. It grants nothing: `spec.exempt` of the ChangeFreeze does."""
