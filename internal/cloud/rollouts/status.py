"""Where a FleetRollout stands: status, conditions and events. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from apis.cloud import (
    FleetRolloutPhase,
    FleetRolloutSpec,
    FleetRolloutStatus,
    FleetWaveStatus,
    RolloutAction,
)
from ctrlruntime.api import set_condition
from ctrlruntime.api.conditions import Condition, new_condition, shorten
from ctrlruntime.rollout import Decision, Member, Reason, Strategy
from internal.cloud.rollouts.members import Fleet
from internal.cloud.rollouts.strategy import approval_digest

READY: Final = "Ready"
COMPLETE: Final = "Complete"
HALTED: Final = "RolloutHalted"

_PHASES: Final = {
    Reason.PAUSED: FleetRolloutPhase.PAUSED,
    Reason.WINDOW: FleetRolloutPhase.WAITING_FOR_WINDOW,
    Reason.APPROVAL: FleetRolloutPhase.WAITING_FOR_APPROVAL,
}
WARNINGS: Final = frozenset(
    {
        FleetRolloutPhase.HALTED,
        FleetRolloutPhase.ROLLING_BACK,
        FleetRolloutPhase.ROLLED_BACK,
        FleetRolloutPhase.INVALID,
    }
)


def invalid(
    before: FleetRolloutStatus, problem: str, generation: int, now: datetime
) -> FleetRolloutStatus:
    """Return the status of a rollout that cannot be used; what is known of its instances stays."""
    status = before.model_copy(deep=True)
    status.observed_generation = generation
    status.phase, status.message = FleetRolloutPhase.INVALID, shorten(problem)
    found = new_condition(READY, False, "InvalidSpec", problem, generation=generation)
    set_condition(status.conditions, found, now)
    return status


def superseded(
    before: FleetRolloutStatus, spec: FleetRolloutSpec, message: str, generation: int, now: datetime
) -> FleetRolloutStatus:
    """Return the status of a rollout whose instances all belong to newer ones."""
    status = before.model_copy(deep=True)
    status.observed_generation, status.target_version = generation, spec.target_version
    status.phase, status.message = FleetRolloutPhase.SUPERSEDED, shorten(message)
    status.waiting, status.waiting_reason, status.waiting_until, status.wave = 0, "", None, ""
    for condition in _conditions(status, None, generation):
        set_condition(status.conditions, condition, now)
    return status


def summarize(
    before: FleetRolloutStatus,
    spec: FleetRolloutSpec,
    decision: Decision,
    fleet: Fleet,
    strategy: Strategy,
    generation: int,
    now: datetime,
    *,
    place: str,
) -> FleetRolloutStatus:
    """Return the status after a decision. `place`: the rollout as commands take it, `web -n production`."""
    blocked = decision.frozen or decision.blocked_by
    failures = shorten(_failures(decision, fleet)) or (
        before.failed_message if decision.halted else ""
    )
    status = FleetRolloutStatus(
        observed_generation=generation,
        phase=_phase(spec, decision),
        message=shorten(
            " ".join(filter(None, (_message(spec, decision, place), failures, _decisions(fleet))))
        ),
        target_version=decision.target,
        total=decision.total,
        updated=decision.updated,
        changing=decision.changing,
        failed=len(decision.failed),
        failed_message=failures,
        waiting=len(decision.waiting),
        waiting_reason="" if blocked is None else blocked.reason.value,
        waiting_until=None if blocked is None else blocked.until,
        rolled_back=decision.returned,
        kept=len(decision.kept),
        skipped=len(fleet.skipped),
        skipped_message=shorten(_skipped(fleet.skipped)),
        wave=decision.wave,
        waves=_waves(decision.target, fleet.members, strategy),
        approval_digest=approval_digest(spec),
        approvals=before.approvals,
        last_handled_reconcile=before.last_handled_reconcile,
        conditions=list(before.conditions),
    )
    for condition in _conditions(status, decision, generation):
        set_condition(status.conditions, condition, now)
    return status


def is_halted(status: FleetRolloutStatus) -> bool:
    """Whether a status shows a halt."""
    return any(each.type == HALTED and each.status == "True" for each in status.conditions)


def _phase(spec: FleetRolloutSpec, decision: Decision) -> FleetRolloutPhase:
    if spec.action is RolloutAction.ABORT:
        return FleetRolloutPhase.ABORTED
    if decision.frozen is not None:
        return FleetRolloutPhase.FROZEN
    if decision.halted:
        if decision.returning or (decision.returned and decision.changing):
            return FleetRolloutPhase.ROLLING_BACK
        return FleetRolloutPhase.ROLLED_BACK if decision.returned else FleetRolloutPhase.HALTED
    if decision.is_complete and decision.total:
        return FleetRolloutPhase.COMPLETE
    if not decision.total:
        return FleetRolloutPhase.PENDING
    blocked = decision.blocked_by
    reasons = {item.reason for item in decision.waiting.values()}
    if Reason.APPROVAL in reasons and not decision.changing:
        return FleetRolloutPhase.WAITING_FOR_APPROVAL
    if blocked is None:
        return FleetRolloutPhase.PROGRESSING
    return _PHASES.get(blocked.reason, FleetRolloutPhase.PROGRESSING)


def _message(spec: FleetRolloutSpec, decision: Decision, place: str) -> str:
    if spec.action is RolloutAction.ABORT:
        return f"Aborted: nothing more is changed. `manager rollout resume {place}` continues it."
    if decision.frozen is not None:
        halted = f" Halted: {decision.halted}." if decision.halted else ""
        return f"{decision.frozen.message}.{halted}"
    if spec.action is RolloutAction.UNDO:
        why = f"{decision.halted[:1].upper()}{decision.halted[1:]}"
        return f"{why}. `manager rollout resume {place}` rolls out again."
    if decision.halted:
        return (
            f"Halted: {decision.halted}. `manager rollout resume {place}` continues, "
            f"`manager rollout undo {place}` returns what was changed."
        )
    if not decision.total:
        return "No instance that it may change has the labels of spec.selector."
    waiting = [item for item in decision.waiting.values() if item.reason is Reason.APPROVAL]
    if waiting:
        return f"{waiting[0].message}: `manager rollout approve {place}`."
    return "" if decision.blocked_by is None else decision.blocked_by.message


def _failures(decision: Decision, fleet: Fleet) -> str:
    """Return what failed of the members that have failed now; a rollback takes that out of their statuses."""
    failed = frozenset(decision.failed)
    found = (each for each in fleet.members if each.name in failed and each.causes)
    return " ".join(f"{each.name}: {'; '.join(sorted(each.causes))}" for each in found)


def _decisions(fleet: Fleet) -> str:
    """Return what people have to decide, with the commands for the first instance."""
    if not fleet.decisions:
        return ""
    count = len(fleet.decisions)
    which = "1 instance waits" if count == 1 else f"{count} instances wait"
    return f"{which} for a decision. {fleet.decisions[0]}"


def _skipped(skipped: Mapping[str, str]) -> str:
    counts = Counter(skipped.values())
    named = {reason: name for name, reason in sorted(skipped.items(), reverse=True)}
    texts = [
        f"{count} such as {named[reason]}: {reason}" for reason, count in sorted(counts.items())
    ]
    return "; ".join(texts)


def _waves(target: str, members: Sequence[Member], strategy: Strategy) -> list[FleetWaveStatus]:
    found = []
    for wave in strategy.waves:
        chosen = wave.select(target, (item for item in members if not item.paused))
        there = [item for item in members if item.name in chosen and item.version == target]
        found.append(
            FleetWaveStatus(
                name=wave.name,
                instances=len(chosen),
                updated=len(there),
                ready=sum(item.is_ready for item in there),
            )
        )
    return found


def _conditions(
    status: FleetRolloutStatus, decision: Decision | None, generation: int
) -> list[Condition]:
    done = status.phase is FleetRolloutPhase.COMPLETE
    halted = decision is not None and bool(decision.halted)
    text = f"{status.updated} of {status.total} instances have {status.target_version}."
    return [
        new_condition(READY, True, "Valid", "The spec can be used.", generation=generation),
        new_condition(
            COMPLETE, done, "Complete" if done else status.phase.value, text, generation=generation
        ),
        new_condition(
            HALTED,
            halted,
            status.phase.value if halted else "NotHalted",
            status.message if halted else "No halt.",
            generation=generation,
        ),
    ]
