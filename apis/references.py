"""How objects of every group name other objects."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ctrlruntime.api import ApiModel

__all__ = ["Name", "SecretKeyRef"]

Name = Annotated[str, Field(min_length=1, max_length=253)]
"""The name of an object."""


class SecretKeyRef(ApiModel):
    """One key of a Secret in the same namespace."""

    name: Name
    """Name of the Secret."""
    key: Annotated[str, Field(min_length=1, max_length=253)]
    """Key within the Secret's data."""
