"""Plans that wait for a person: what is recorded of one, what an approval names, and what the status shows. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from apis.cloud import (
    PlanApproval,
    PlanDecision,
    PlannedChange,
    TaskOperation,
    TaskRun,
    TaskStatus,
    TerraformOperation,
    TerraformRuns,
    Waiting,
    WaitingReason,
)
from ctrlruntime.api import Condition, set_condition
from ctrlruntime.resources.revision import canonical
from internal.cloud.labels import APPROVED_PLAN, REJECTED_PLAN
from internal.cloud.tasks.plans import ADDRESSES, MadePlan

AWAITS_APPROVAL: Final = "AwaitsApproval"
"""Condition: a plan was made and waits for a person. There only while True."""
_SHOWN: Final = 5
"""Addresses of destroyed resources that a message lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPolicy:
    """What comes between plans and their application, and what was decided."""

    only: bool = False
    """Whether runs only plan."""
    approval: PlanApproval = PlanApproval.AUTOMATIC
    approved: str = ""
    """Digest of the approved plan."""
    rejected: str = ""
    """Digest of the plan that is given up."""

    def decision(self, plan: PlannedChange) -> PlanDecision | None:
        """Return what was decided about a plan; about one that nothing can apply, nothing.

        A plan that the policy does not hold any more counts as approved.
        """
        if plan.operation is TaskOperation.PLAN:
            return None
        if self.rejected == plan.digest:
            return PlanDecision.REJECTED
        approved = self.approved == plan.digest or not self._holds(plan)
        return PlanDecision.APPROVED if approved else None

    def _holds(self, plan: PlannedChange) -> bool:
        destroys = bool(plan.destroy or plan.destroys)
        return destroys or not plan.content or self.approval is PlanApproval.MANUAL


def plan_policy(given: TerraformRuns | None, annotations: dict[str, str]) -> PlanPolicy:
    """Return the policy of an object: what its instance requests, and its own annotations."""
    wanted = given or TerraformRuns()
    return PlanPolicy(
        only=wanted.operation is TerraformOperation.PLAN,
        approval=wanted.approval,
        approved=annotations.get(APPROVED_PLAN, ""),
        rejected=annotations.get(REJECTED_PLAN, ""),
    )


def plan_digest(owner_uid: str, run_id: str, content: str) -> str:
    """Return what an approval names, 16 hexadecimal digits: an equal plan that is made later has another one."""
    return hashlib.sha256(canonical([owner_uid, run_id, content])).hexdigest()[:16]


def record_plan(status: TaskStatus, made: MadePlan, owner_uid: str, now: datetime) -> None:
    """Record the plan with which the run of a status ended. The one that waits already stays what it is."""
    run, before = status.run, status.plan
    if run is None:
        return
    if before is not None and _is_same(before, run, made):
        before.checked_at = now
    else:
        status.plan = _planned(run, made, owner_uid, now)
    run.plan_digest = "" if status.plan is None else status.plan.digest
    run.plan_decision = None


def _is_same(before: PlannedChange, run: TaskRun, made: MadePlan) -> bool:
    taken_up = run.plan_digest == before.digest
    return taken_up and bool(made.content) and before.content == made.content


def _planned(run: TaskRun, made: MadePlan, owner_uid: str, now: datetime) -> PlannedChange:
    return PlannedChange(
        digest=plan_digest(owner_uid, run.run_id, made.content),
        run_id=run.run_id,
        content=made.content,
        operation=run.operation,
        inputs_hash=run.inputs_hash,
        slot=run.slot,
        add=made.add,
        change=made.change,
        destroy=made.destroy,
        replace=made.replace,
        destroys=list(made.destroys[:ADDRESSES]),
        link=made.link,
        since=now,
        checked_at=now,
    )


def trusted_plan(plan: PlannedChange | None, owner_uid: str) -> PlannedChange | None:
    """Return the recorded plan if its digest is the one that follows from it."""
    if plan is None or plan.digest != plan_digest(owner_uid, plan.run_id, plan.content):
        return None
    return plan


def summary_of(plan: PlannedChange) -> str:
    """Return the numbers of a plan, such as `1 to add, 0 to change, 1 to destroy (1 of them replaced)`."""
    replaced = f" ({plan.replace} of them replaced)" if plan.replace else ""
    return f"{plan.add} to add, {plan.change} to change, {plan.destroy} to destroy{replaced}"


def plan_message(plan: PlannedChange, policy: PlanPolicy, instance: str) -> str:
    """Return what a plan would do, and how it is approved."""
    listed = ", ".join(plan.destroys[:_SHOWN])
    more = plan.destroy - _SHOWN
    destroys = f": {listed}" + (f" and {more} more" if more > 0 else "") if listed else ""
    what = f"plan {plan.digest} ({summary_of(plan)}{destroys})"
    if plan.operation is TaskOperation.PLAN:
        return f"{what} is not applied: set spec.terraformRuns.operation of the Instance to Apply to carry it out"
    other = ""
    if policy.approved:
        other = f"; the approval of {policy.approved} is for another plan"
    return (
        f"{what} needs an approval{other}. Run `manager instance approve {instance} --plan {plan.digest}`,"
        f" or `manager instance reject {instance} --plan {plan.digest}`"
    )


def plan_waiting(
    before: Waiting | None, plan: PlannedChange, message: str, now: datetime
) -> Waiting:
    """Return what the status shows of a plan that waits: what it showed before, if nothing of it changed."""
    if before is not None and (before.reason, before.message) == (WaitingReason.APPROVAL, message):
        return before
    return Waiting(reason=WaitingReason.APPROVAL, message=message, since=plan.since, as_of=now)


def set_awaits_approval(status: TaskStatus, message: str, now: datetime) -> None:
    """Set the condition; an empty message removes it."""
    if not message or status.plan is None:
        status.conditions = [item for item in status.conditions if item.type != AWAITS_APPROVAL]
        return
    condition = Condition(
        type=AWAITS_APPROVAL,
        status="True",
        reason=_reason(status.plan),
        message=f"{message[:1].upper()}{message[1:]}.",
        observed_generation=status.observed_generation,
    )
    set_condition(status.conditions, condition, now)


def _reason(plan: PlannedChange) -> str:
    if plan.operation is TaskOperation.PLAN:
        return "OnlyPlanned"
    return "PlanDestroys" if plan.destroy or plan.destroys else "ApprovalManual"
