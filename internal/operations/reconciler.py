"""Reconciles one ChangeFreeze: its status shows whether it is active, and how much it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from apis.operations import (
    ChangeFreeze,
    ChangeFreezePhase,
    ChangeFreezeStatus,
    Exemption,
    FrozenSystem,
)
from ctrlruntime.api import set_condition
from ctrlruntime.api.conditions import new_condition, shorten
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.lifecycle import Lifecycle, ObjectPass
from ctrlruntime.rollout import Freeze
from internal.operations.exemptions import exemption_events, exemption_statuses
from internal.operations.freezes import SystemFreezes
from internal.operations.metrics import FreezeMetrics

ACTION: Final = "Freeze"
UNREADABLE: Final = "All changes are held, because this cannot be read"
ACTIVE: Final = "Active"
READY: Final = "Ready"


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


def freeze_status(
    before: ChangeFreezeStatus,
    freeze: Freeze,
    held: dict[FrozenSystem, int],
    generation: int,
    now: datetime,
    *,
    problem: str = "",
) -> ChangeFreezeStatus:
    """Return the status of a freeze; `held` are the counts of the systems that this manager runs.

    `problem`: why the spec cannot be read; empty if it can.
    """
    status = before.model_copy(deep=True)
    status.observed_generation = generation
    status.phase = _phase(freeze, now, invalid=bool(problem))
    status.message = shorten(problem or _message(freeze, status.phase))
    active = freeze.is_active(now)
    for system, count in held.items():
        covered = not freeze.systems or system.value in freeze.systems
        setattr(status.held, system.value.lower(), count if covered and active else 0)
    reason = "InvalidSpec" if problem else status.phase.value
    valid = "Valid" if not problem else reason
    text = problem or "The spec can be used."
    for condition in (
        new_condition(ACTIVE, active, reason, status.message, generation=generation),
        new_condition(READY, not problem, valid, text, generation=generation),
    ):
        set_condition(status.conditions, condition, now)
    return status


def held_count(status: ChangeFreezeStatus, system: FrozenSystem) -> int:
    """Return how many changes of a system a status shows."""
    found: int | None = getattr(status.held, system.value.lower())
    return found or 0


def _phase(freeze: Freeze, now: datetime, *, invalid: bool) -> ChangeFreezePhase:
    if invalid:
        return ChangeFreezePhase.INVALID
    if freeze.is_active(now):
        return ChangeFreezePhase.ACTIVE
    if freeze.until is not None and now >= freeze.until:
        return ChangeFreezePhase.ENDED
    return ChangeFreezePhase.SCHEDULED


def _message(freeze: Freeze, phase: ChangeFreezePhase) -> str:
    what = "of " + ", ".join(sorted(freeze.systems)) if freeze.systems else "of all systems"
    where = f" in {', '.join(sorted(freeze.namespaces))}" if freeze.namespaces else ""
    match phase:
        case ChangeFreezePhase.SCHEDULED:
            begin = "" if freeze.starts_at is None else f" from {freeze.starts_at.isoformat()} on"
            return f"Changes {what}{where} are held{begin}."
        case ChangeFreezePhase.ENDED:
            return "It is over and holds nothing."
    end = "this is deleted" if freeze.until is None else freeze.until.isoformat()
    return f"Changes {what}{where} are held until {end}."
