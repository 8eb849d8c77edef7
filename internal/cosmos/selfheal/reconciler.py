"""Mends sets of nodes: disks that fill up, nodes that fall behind or hang."""

from dataclasses import dataclass
from typing import Protocol

from apis.cosmos import SelfHeal
from ctrlruntime.cache.entry import Entry
from ctrlruntime.controller import Result, UnrecoverableError
from ctrlruntime.controller.annotations import is_paused
from ctrlruntime.queue import Request
from internal.cosmos.fullnode.reading import read
from internal.cosmos.selfheal.disks import DiskHealing
from internal.cosmos.selfheal.events import Notes
from internal.cosmos.selfheal.hangs import HangHealing
from internal.cosmos.selfheal.heights import HeightHealing


class NodeSets(Protocol):
    """The sets as the informer has them."""

    def get(self, name: str, *, namespace: str) -> Entry | None:
        """One of them, if it exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfHealReconciler:
    """Looks at one set, from memory alone. Failures are reported by events, and retried at the next check."""

    node_sets: NodeSets
    disks: DiskHealing
    heights: HeightHealing
    hangs: HangHealing
    notes: Notes
    interval: float
    """Seconds between two looks at a set where nothing happens."""

    async def reconcile(self, request: Request) -> Result | None:
        """One set."""
        entry = self.node_sets.get(request.name, namespace=request.namespace)
        if entry is None:
            self.forget(request)
            return None
        if entry.deletion_timestamp is not None or is_paused(entry.annotations):
            return None
        try:
            node_set = read(entry)
        except UnrecoverableError:
            return None  # its own controller says so in its status
        heal = node_set.spec.self_heal or SelfHeal()
        if heal.pvc_auto_scale is not None:
            requests = node_set.status.self_healing.pvc_auto_scaler
            await self.disks.heal(entry, heal.pvc_auto_scale, requests)
        else:
            self.disks.forget(entry.key)
        if heal.height_drift_mitigation is not None:
            await self.heights.heal(entry, node_set, heal.height_drift_mitigation)
        await self.hangs.heal(entry, node_set, heal.unresponsive)
        return Result(requeue_after=self.interval)

    def forget(self, request: Request) -> None:
        """Forget a set that is gone, or another process's now."""
        self.notes.forget(request.namespace, request.name)
        self.disks.forget((request.namespace, request.name))
