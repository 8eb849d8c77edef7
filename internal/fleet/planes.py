"""Data planes that have a stack: a cluster each, in which the Lease of its controllers is watched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from apis.fleet.labels import LEASE, PLANE_NAMESPACE
from ctrlruntime.cache.events import DeleteEvent, Event
from ctrlruntime.client.config import Config
from ctrlruntime.clock import monotonic
from ctrlruntime.cluster import ClusterOptions, Engager
from ctrlruntime.controller.predicates import entry_of
from internal.fleet.plane_check import IDENTITY, LEASES, NAMESPACE, renewal_of

Changed = Callable[[str, str], None]
"""Receives the namespace and a reason when a data plane's state has changed."""
UNRENEWED: Final = 60.0
"""Seconds without a renewal after which the controllers on a data plane count as gone."""


@dataclass(slots=True)
class Plane:
    """What the watches of one data plane show. Times by the clock of `Planes`."""

    digest: str
    """Of the kubeconfig."""
    engaged_at: float
    is_listed: Callable[[], bool]
    """Whether the Lease was listed: if none was seen by then, there is none."""
    renewed_at: float | None = None
    """When the last renewal of the Lease was seen."""
    renewal: str = ""
    identity: str = ""
    """The data plane's id as the watch shows it; empty before that."""
    was_stale: bool = False
    """Whether a look at it found the Lease stale: the next renewal is news."""
    timer: asyncio.TimerHandle | None = None
    """Ends when the Lease would count as given up; None: it does."""

    def stale_in(self, now: float, unrenewed: float) -> float:
        """Return the seconds until the Lease counts as given up; 0 or less: it does."""
        since = self.renewed_at if self.renewed_at is not None else self.engaged_at
        return since + unrenewed - now

    def stop(self) -> None:
        """Stop the timer."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


@dataclass(slots=True)
class Planes:
    """Engages a cluster for each data plane, and notes renewals of its Lease. No request but the watches is made.

    A change is reported, never a renewal in time: a healthy data plane costs its namespace no reconciliation.
    """

    engager: Engager
    changed: Changed
    options: ClusterOptions = field(default_factory=ClusterOptions)
    unrenewed: float = UNRENEWED
    clock: Callable[[], float] = monotonic
    _planes: dict[str, Plane] = field(default_factory=dict)

    def find(self, name: str) -> Plane | None:
        """Return the data plane of a namespace, if its cluster is engaged."""
        return self._planes.get(name)

    @property
    def names(self) -> frozenset[str]:
        """The namespaces whose data planes are engaged."""
        return frozenset(self._planes)

    async def engage(self, name: str, digest: str, config: Config) -> Plane:
        """Engage the cluster of a namespace; again if the kubeconfig is another one."""
        plane = self._planes.get(name)
        if plane is not None and plane.digest == digest:
            return plane
        await self.disengage(name)
        cluster = self.engager.new_cluster(name, config, self.options)
        leases = cluster.cache.declare(
            LEASES, namespaces=[PLANE_NAMESPACE], fields=f"metadata.name={LEASE}"
        ).informer
        plane = Plane(digest, self.clock(), lambda: leases.synced)
        leases.add_handler(lambda event: self._lease(name, plane, event))
        identity = cluster.cache.declare(
            NAMESPACE, fields=f"metadata.name={IDENTITY}", metadata_only=True
        ).informer
        identity.add_handler(lambda event: self._identity(name, plane, event))
        await self.engager.engage(cluster)
        self._planes[name] = plane
        self._follow_age(name, plane)
        return plane

    async def disengage(self, name: str) -> None:
        """Disengage the cluster of a namespace, if it has one."""
        plane = self._planes.pop(name, None)
        if plane is not None:
            plane.stop()
            await self.engager.disengage(name)

    def close(self) -> None:
        """Report no more Leases that are given up. The clusters end with their manager."""
        for plane in self._planes.values():
            plane.stop()

    def is_stale(self, plane: Plane) -> bool:
        """Return whether the Lease has not been renewed for too long."""
        plane.was_stale = plane.stale_in(self.clock(), self.unrenewed) <= 0
        return plane.was_stale

    def _lease(self, name: str, plane: Plane, event: Event) -> None:
        entry = entry_of(event)
        if entry is None:
            return
        if isinstance(event, DeleteEvent):
            plane.renewal = ""
            return
        renewal = renewal_of(entry.field("spec") or {})
        if not renewal or renewal == plane.renewal:
            return
        first, plane.renewal = plane.renewed_at is None, renewal
        plane.renewed_at = self.clock()
        if plane.timer is None and self._planes.get(name) is plane:
            self._follow_age(name, plane)
        if first or plane.was_stale:
            plane.was_stale = False
            self.changed(name, "its controllers hold the Lease")

    def _follow_age(self, name: str, plane: Plane) -> None:
        """Report the Lease once it counts as given up. Renewals do not move the timer: it is started again when it ends."""
        left = plane.stale_in(self.clock(), self.unrenewed)
        if left > 0:
            loop = asyncio.get_running_loop()
            plane.timer = loop.call_later(left, self._follow_age, name, plane)
        else:
            plane.timer = None
            self.changed(name, "its Lease is not renewed")

    def _identity(self, name: str, plane: Plane, event: Event) -> None:
        entry = entry_of(event)
        if entry is None or isinstance(event, DeleteEvent) or entry.uid == plane.identity:
            return
        first, plane.identity = not plane.identity, entry.uid
        if not first:
            self.changed(name, "another data plane answers")
