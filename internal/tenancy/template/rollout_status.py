"""Where the rollout of a template stands: status, condition and events. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from apis.tenancy import RolloutPhase, RolloutStatus, TenantTemplateStatus
from ctrlruntime.api.conditions import Condition, find_condition, set_condition, shorten
from ctrlruntime.rollout import Decision, Reason
from ctrlruntime.rollout.health import NO_RESULT, Assessment
from ctrlruntime.rollout.health_checks import HealthCheckState

ROLLOUT_HALTED: Final = "RolloutHalted"
"""Condition of a template with a rollout: True while it is halted."""

_PHASES: Final = {
    Reason.PAUSED: RolloutPhase.PAUSED,
    Reason.WINDOW: RolloutPhase.WAITING_FOR_WINDOW,
}
_HALT_REASONS: Final = {
    RolloutPhase.ROLLING_BACK: "RollingBack",
    RolloutPhase.ROLLED_BACK: "RolledBack",
}


@dataclass(frozen=True, slots=True)
class RolloutEvent:
    """An event of a template."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


def report_rollout(
    status: TenantTemplateStatus,
    decision: Decision | None,
    health: Assessment | None = None,
    *,
    staged: bool,
    revision: str,
    generation: int,
    now: datetime,
) -> None:
    """Update the status by the registry's last decision; without one for this revision it stays.

    `health` is what the health checks meant for the decision; None if there are none. `staged` is whether the template has a rollout at all.
    """
    if not staged:
        status.rollout = None
        if find_condition(status.conditions, ROLLOUT_HALTED) is not None:
            condition = _condition(False, "NoRollout", "The template has no rollout.", generation)
            set_condition(status.conditions, condition, now)
        return
    if decision is None or decision.target != revision:
        return
    status.rollout = rollout_status(decision)
    if health is not None:
        status.rollout.health_checks = [item.model_copy() for item in health.status]
    halted = bool(decision.halted)
    message = f"The rollout is halted: {decision.halted}." if halted else "No halt."
    failing = health is not None and bool(health.halt)
    others = "HealthCheckFailed" if failing else "TooManyFailures"
    reason = _HALT_REASONS.get(status.rollout.phase, others)
    if decision.kept:
        reason = "RollbackHeld"
    if not halted:
        reason = "NotHalted"
    set_condition(status.conditions, _condition(halted, reason, message, generation), now)


def rollout_status(decision: Decision) -> RolloutStatus:
    """Return a decision as a status."""
    blocked = decision.frozen or decision.blocked_by
    return RolloutStatus(
        phase=_phase(decision),
        target_revision=decision.target,
        total=decision.total,
        updated=decision.updated,
        changing=decision.changing,
        failed=len(decision.failed),
        waiting=len(decision.waiting),
        waiting_reason="" if blocked is None else blocked.reason.value,
        rolled_back=decision.returned,
        kept=len(decision.kept),
        message=shorten(_message(decision)),
        waiting_until=None if blocked is None else blocked.until,
    )


def rollout_event(before: RolloutStatus | None, after: RolloutStatus | None) -> RolloutEvent | None:
    """Return the event for a change of the phase, or of the revision; None for neither."""
    if after is None:
        return None
    known = None if before is None else (before.phase, before.target_revision)
    if known == (after.phase, after.target_revision):
        return None
    text = f"revision {after.target_revision}: {after.updated} of {after.total} tenants have it"
    match after.phase:
        case RolloutPhase.HALTED:
            return RolloutEvent("Warning", "RolloutHalted", f"{text}; {after.message}")
        case RolloutPhase.ROLLING_BACK:
            return RolloutEvent("Warning", "RolloutRollingBack", f"{text}; {after.message}")
        case RolloutPhase.ROLLED_BACK:
            return RolloutEvent("Warning", "RolloutRolledBack", f"{text}; {after.message}")
        case RolloutPhase.COMPLETE:
            return None if before is None else RolloutEvent("Normal", "RolloutComplete", text)
        case RolloutPhase.PROGRESSING:
            return RolloutEvent("Normal", "RolloutProgressing", text)
    return RolloutEvent("Normal", "RolloutWaiting", f"{text}; {after.message}")


def health_events(before: RolloutStatus | None, after: RolloutStatus | None) -> list[RolloutEvent]:
    """Return the events for checks whose state changed; not for one that had no result before and is healthy."""
    states = {} if before is None else {item.name: item.state for item in before.health_checks}
    found: list[RolloutEvent] = []
    for item in () if after is None else after.health_checks:
        known = states.get(item.name)
        if item.state is known or item.message == NO_RESULT:
            continue
        text = f"health check {item.name!r}: {item.message}"
        if item.state is HealthCheckState.FAILING:
            found.append(RolloutEvent("Warning", "HealthCheckFailing", text))
        elif item.state is HealthCheckState.UNKNOWN:
            found.append(RolloutEvent("Warning", "HealthCheckUnknown", text))
        elif known is HealthCheckState.FAILING:
            found.append(RolloutEvent("Normal", "HealthCheckHealthy", text))
    return found


def _phase(decision: Decision) -> RolloutPhase:
    if decision.frozen is not None:
        return RolloutPhase.FROZEN
    if decision.halted:
        if decision.returning:
            return RolloutPhase.ROLLING_BACK
        return RolloutPhase.ROLLED_BACK if decision.returned else RolloutPhase.HALTED
    if decision.is_complete:
        return RolloutPhase.COMPLETE
    blocked = decision.blocked_by
    if blocked is None:
        return RolloutPhase.PROGRESSING
    return _PHASES.get(blocked.reason, RolloutPhase.PROGRESSING)


def _message(decision: Decision) -> str:
    """Why the rollout is halted, or what most tenants wait for."""
    if decision.frozen is not None:
        halted = f"; the rollout is halted, {decision.halted}" if decision.halted else ""
        return f"{decision.frozen.message}{halted}"
    if decision.halted:
        return f"the rollout is halted, {decision.halted}"
    return "" if decision.blocked_by is None else decision.blocked_by.message


def _condition(holds: bool, reason: str, message: str, generation: int) -> Condition:
    return Condition.model_validate(
        {
            "type": ROLLOUT_HALTED,
            "status": "True" if holds else "False",
            "reason": reason,
            "message": shorten(message),
            "observedGeneration": generation,
        }
    )
