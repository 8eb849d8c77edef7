"""What the kinds of the group share."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ctrlruntime.api import ApiModel, Int32

__all__ = ["GROUP", "VERSION", "Count", "Height", "Metadata", "NonEmpty"]

GROUP = "cosmos.ctrlruntime.dev"
VERSION = "v1"


class Metadata(ApiModel):
    """Labels and annotations to put on an object. They win over the manager's, but for those it is found by."""

    labels: dict[str, str] = Field(default_factory=dict)
    """Labels."""
    annotations: dict[str, str] = Field(default_factory=dict)
    """Annotations."""


NonEmpty = Annotated[str, Field(min_length=1)]
"""A text that is not blank."""

Count = Annotated[Int32, Field(ge=0)]
"""A number of things."""
Height = Annotated[int, Field(ge=0)]
"""Height of a block."""
