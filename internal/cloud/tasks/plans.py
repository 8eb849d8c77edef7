"""Plans that a task makes and does not apply: what it returns of one, and which of them wait for a person. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from apis.cloud import PlanApproval, PlanDecision

if TYPE_CHECKING:
    from collections.abc import Mapping

    from internal.cloud.runs import EarlierPlan, RunInput

PLAN: Final = "plan:pending"
"""Output of a run that made a plan and did not apply it: the plan as JSON. No module's output has such a name."""
ADDRESSES: Final = 20
"""Addresses of destroyed resources that are kept."""
_CHARACTERS: Final = 1500
"""Of all addresses together: the report of a run is small."""


class MadePlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A plan as a run returns it."""

    content: str
    """What identifies it where it was made. Equal plans of one object have equal contents."""
    add: int = 0
    change: int = 0
    destroy: int = 0
    """Resources; replaced ones count as added and as destroyed."""
    replace: int = 0
    destroys: tuple[str, ...] = ()
    """The first addresses."""
    link: str = ""
    """Where it can be looked at."""


NOTHING_TO_CHANGE: Final = MadePlan(content="")
"""A plan without changes."""


def plan_output(plan: MadePlan) -> dict[str, str]:
    """Return the output that holds a plan, its addresses cut to what a report can hold."""
    kept: list[str] = []
    for address in plan.destroys[:ADDRESSES]:
        if sum(map(len, kept)) + len(address) > _CHARACTERS:
            break
        kept.append(address)
    return {PLAN: msgspec.json.encode(msgspec.structs.replace(plan, destroys=tuple(kept))).decode()}


def plan_of(outputs: Mapping[str, str]) -> MadePlan | None:
    """Return the plan that a run returned; None if it returned none.

    One that cannot be read has no content, so that no approval holds for it.
    """
    given = outputs.get(PLAN)
    if given is None:
        return None
    try:
        return msgspec.json.decode(given, type=MadePlan)
    except msgspec.MsgspecError:
        return MadePlan(content="")


def waits_for_approval(given: RunInput, content: str, *, destroys: bool) -> bool:
    """Return whether a plan of this run may not be applied before a person approves it."""
    if is_approved(given.plan, content):
        return False
    return destroys or given.approval is PlanApproval.MANUAL


def is_approved(plan: EarlierPlan | None, content: str) -> bool:
    """Return whether a person approved the plan with this content, and not another one."""
    approved = plan is not None and plan.decision is PlanDecision.APPROVED
    return approved and bool(content) and plan is not None and plan.content == content


def is_rejected(plan: EarlierPlan | None) -> bool:
    """Return whether a person gave up the plan that waits."""
    return plan is not None and plan.decision is PlanDecision.REJECTED
