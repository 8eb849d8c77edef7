"""What of an object's members may be deleted, as the kinds of all groups have it in their spec and status."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from ctrlruntime.api import ApiModel
from ctrlruntime.gate import Budget

__all__ = ["Deletions", "Removals"]


class Deletions(ApiModel):
    """How much may be deleted without an approval."""

    max_percent: Annotated[int, Field(ge=0, le=100)] = 20
    """Percentage of the members that may lose something within 24 hours; one may always."""
    max_with_state: Annotated[int, Field(ge=0, le=100_000)] = 1
    """How many objects that hold state, such as disks, may go within an hour."""

    @property
    def budget(self) -> Budget:
        """The gate's budget."""
        return Budget(
            max_percent=self.max_percent,
            window=timedelta(hours=24),
            max_with_state=self.max_with_state,
        )


class Removals(ApiModel):
    """What was permitted to go lately, in seconds since 1970. It counts against ``spec.deletions``."""

    members: dict[str, int] = Field(default_factory=dict)
    """When each member last lost something."""
    state: dict[str, int] = Field(default_factory=dict)
    """When each object that holds state was permitted to go, by UID."""
    used: dict[str, int] = Field(default_factory=dict)
    """When each approval was used, by digest."""
    approved: dict[str, int] = Field(default_factory=dict)
    """When each object of an approved set was approved, by UID; within an hour its removal goes on."""
    saved: int = 0
    """When this was stored last. Where another field manager wrote it, an older status was put back."""
