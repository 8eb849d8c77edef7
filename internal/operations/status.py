"""The status of a ChangeFreeze. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from apis.operations import ChangeFreezePhase, ChangeFreezeStatus, FrozenSystem
from ctrlruntime.api import set_condition
from ctrlruntime.api.conditions import new_condition, shorten
from ctrlruntime.rollout import Freeze

ACTIVE: Final = "Active"
READY: Final = "Ready"


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
