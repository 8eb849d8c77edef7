"""The Lease by which the controllers of a stack show that they run on a data plane. Pure but for the time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from ctrlruntime.api import Manifest
from ctrlruntime.api.scalars import time_or_none
from internal.fleet.planes import UNRENEWED


@dataclass(frozen=True, slots=True)
class StackLease:
    """Who holds the Lease of a data plane, and since when it was not renewed."""

    holder: str = ""
    """As StackName begins it: hub, target namespace, candidate. Empty: nothing holds it."""
    renewed: datetime | None = None

    @classmethod
    def of(cls, lease: Manifest) -> Self:
        """Return what a Lease has; one whose time cannot be read was never renewed."""
        spec = lease.get("spec") or {}
        return cls(str(spec.get("holderIdentity") or ""), time_or_none(spec.get("renewTime")))

    @property
    def namespace(self) -> str:
        """The target namespace whose stack holds it; empty for another form of holder."""
        parts = self.holder.split("/")
        return parts[1] if len(parts) > 2 else ""

    def is_renewed(self, now: datetime) -> bool:
        """Return whether it is held, and was renewed within a minute by this clock."""
        if not self.holder or self.renewed is None:
            return False
        return abs(now - self.renewed) <= timedelta(seconds=UNRENEWED)
