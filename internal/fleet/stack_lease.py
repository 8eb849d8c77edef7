"""The Lease by which the controllers of a stack show that they run on a data plane, and what that records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from apis.fleet.labels import LEASE, MOVED_TO, PLANE_NAMESPACE
from ctrlruntime.api import Manifest
from ctrlruntime.api.scalars import time_or_none
from ctrlruntime.client import Client, NotFound
from internal.fleet.plane_check import LEASES
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


async def moved_to(plane: Client) -> frozenset[str]:
    """Return the ids of the data planes that Tenants were moved to from this one. Raises the client's errors."""
    try:
        lease = await plane.get(LEASES, LEASE, namespace=PLANE_NAMESPACE, metadata_only=True)
    except NotFound:
        return frozenset()
    return _destinations(lease)


async def record_move(plane: Client, target: str) -> None:
    """Record on a data plane that Tenants move from there to another one, by its id.

    The hub may be restored from before the other one was there: then this alone shows that an owner that is gone may
    be there. Raises the client's errors: Conflict if the Lease changed meanwhile.
    """
    try:
        lease = await plane.get(LEASES, LEASE, namespace=PLANE_NAMESPACE, metadata_only=True)
    except NotFound:
        return  # no stack, which the caller looks at before
    known = _destinations(lease)
    if target not in known:
        version = lease["metadata"]["resourceVersion"]
        annotations = {MOVED_TO: ",".join(sorted(known | {target}))}
        patch = {"metadata": {"resourceVersion": version, "annotations": annotations}}
        await plane.patch(LEASES, LEASE, patch, namespace=PLANE_NAMESPACE, metadata_only=True)


def _destinations(lease: Manifest) -> frozenset[str]:
    recorded = (lease["metadata"].get("annotations") or {}).get(MOVED_TO, "")
    return frozenset(filter(None, recorded.split(",")))
