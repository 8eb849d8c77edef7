"""What is reported of a FleetRollout: its status, events and metrics."""

from __future__ import annotations

from typing import Final

from apis.cloud import FleetRollout, FleetRolloutSpec, FleetRolloutStatus, RolloutAction
from ctrlruntime.api.conditions import shorten
from ctrlruntime.lifecycle import ObjectPass
from internal.cloud.rollouts.metrics import RolloutMetrics
from internal.cloud.rollouts.status import WARNINGS

ACTION: Final = "RollOut"


def report(
    metrics: RolloutMetrics,
    rollout: FleetRollout,
    this: ObjectPass,
    after: FleetRolloutStatus,
    spec: FleetRolloutSpec | None = None,
) -> None:
    """Have a status written, with an event for another phase or version. `spec`: None if it cannot be used."""
    before, requested = (
        rollout.status,
        spec is not None and spec.action is not RolloutAction.ROLL_OUT,
    )
    rollout.status = after
    metrics.record(this.request, after, requested=requested)
    if (before.phase, before.target_version) != (after.phase, after.target_version):
        counts = f"{after.updated} of {after.total} instances have {after.target_version}"
        note = shorten(f"{counts}. {after.message}".strip())
        warns = after.phase in WARNINGS and not requested
        this.event("Warning" if warns else "Normal", after.phase.value, ACTION, note)
