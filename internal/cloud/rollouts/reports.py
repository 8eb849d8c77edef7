"""What is reported of a FleetRollout: its status, events and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from apis.cloud import FleetRollout, FleetRolloutSpec, FleetRolloutStatus, RolloutAction
from ctrlruntime.api.conditions import shorten
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.events import EventRecorder
from ctrlruntime.queue import Request
from internal.cloud.rollouts.metrics import RolloutMetrics
from internal.cloud.rollouts.status import WARNINGS

ACTION: Final = "RollOut"


@dataclass(frozen=True, slots=True)
class RolloutReports:
    """Writes the status of rollouts, their events and metrics."""

    patcher: ObjectPatcher
    recorder: EventRecorder
    metrics: RolloutMetrics

    async def record(
        self,
        entry: Entry,
        change: tuple[FleetRolloutStatus, FleetRolloutStatus],
        spec: FleetRolloutSpec | None = None,
    ) -> None:
        """Write the status if it differs, and record an event for another phase or version.

        `change`: the status before and after. `spec`: None if it cannot be used.
        """
        before, after = change
        requested = spec is not None and spec.action is not RolloutAction.ROLL_OUT
        request = Request(entry.name, namespace=entry.namespace)
        self.metrics.record(request, after, requested=requested)
        if not await self.patcher.write_status(FleetRollout.mapping(), entry, before, after):
            return
        known = (before.phase, before.target_version)
        if known != (after.phase, after.target_version):
            counts = f"{after.updated} of {after.total} instances have {after.target_version}"
            note = shorten(f"{counts}. {after.message}".strip())
            warns = after.phase in WARNINGS and not requested
            self.recorder.event(
                entry, "Warning" if warns else "Normal", after.phase.value, ACTION, note
            )
