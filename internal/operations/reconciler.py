"""Reconciles one ChangeFreeze: its status shows whether it is active, and how much it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from apis.operations import ChangeFreeze, Exemption
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.lifecycle import Lifecycle, ObjectPass
from ctrlruntime.rollout import Freeze
from internal.operations.exemptions import exemption_events, exemption_statuses
from internal.operations.freezes import SystemFreezes
from internal.operations.metrics import FreezeMetrics
from internal.operations.status import freeze_status, held_count

ACTION: Final = "Freeze"
UNREADABLE: Final = "All changes are held, because this cannot be read"


@dataclass(slots=True)
class FreezeReconciler:
    """Computes the status of freezes for one system; managers of other systems add their counts."""

    freezes: SystemFreezes
    clock: Callable[[], datetime]
    metrics: FreezeMetrics

    @property
    def lifecycle(self) -> Lifecycle[ChangeFreeze]:
        """Return the life of freezes. One that cannot be read holds all changes, and its status shows why."""
        return Lifecycle(
            ChangeFreeze, reconcile=self.reconcile, unreadable=self.reconcile, memory=[self.metrics]
        )

    async def reconcile(self, found: ChangeFreeze, this: ObjectPass) -> Result | None:
        """Make one pass."""
        before, now, freeze = found.status, this.now, self.freezes.freeze(this.entry)
        granted = [] if this.problem else found.spec.exempt
        problem = f"{UNREADABLE}: {this.problem}" if this.problem else ""
        system, count = self.freezes.system, self.freezes.held_by(freeze)
        incomplete = self.freezes.incomplete_for()
        if incomplete:  # what an earlier manager counted stays for as long
            count = max(count, held_count(before, system))
        held = {system: count}
        after = freeze_status(before, freeze, held, this.entry.generation, now, problem=problem)
        after.exemptions = exemption_statuses(
            before.exemptions, granted, self._requested(freeze, now), system, now
        )
        self.metrics.record(
            freeze.name, system, held_count(after, system), active=freeze.is_active(now)
        )
        for reason, note in exemption_events(before.exemptions, after.exemptions):
            this.event("Normal", reason, ACTION, note)
        found.status = after
        edge = freeze.next_edge(now)
        waits = [edge - self.clock()] if edge is not None else []
        waits += [incomplete] if incomplete else []
        return Result(requeue_after=max(min(waits).total_seconds(), 0.01)) if waits else None

    def _requested(self, freeze: Freeze, now: datetime) -> list[Exemption]:
        """Return the exemptions that are requested of a freeze that is not over."""
        if freeze.until is not None and now >= freeze.until:
            return []
        return self.freezes.requests.of(freeze, self.freezes.system)
