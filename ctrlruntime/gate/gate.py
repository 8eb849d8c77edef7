"""Decides which removals may happen. Pure: the time and what is known of the parent are passed in."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from ctrlruntime.gate.budget import Approval, Budget, BudgetRecord
from ctrlruntime.gate.permit import Hold, Permit, grant
from ctrlruntime.gate.removal import Evidence, Removal, unused_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentState:
    """What a gate needs of the parent of what is removed."""

    held: str = ""
    """Why nothing of it changes now, in words: a freeze, a pause, a status not seen since the start."""
    protection: str = ""
    """Why its members are protected, in words; an approval lifts it."""
    members: int = 0
    approvals: Collection[Approval] = ()
    """Those on the parent now."""
    record: BudgetRecord = field(default_factory=BudgetRecord)


NO_PARENT: Final = ParentState()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Permits for what may go, and a hold of all the rest: of the whole set, or of what was not approved.

    `record` is the parent's from now on. Store it before a permit is used, on the condition that nothing
    was stored since it was read; else decide again.
    """

    permits: tuple[Permit, ...] = ()
    hold: Hold | None = None
    record: BudgetRecord = field(default_factory=BudgetRecord)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Permits removals on certain evidence; with a `budget`, as many as it allows."""

    budget: Budget | None = None

    def removal(self, removal: Removal, *, parent: ParentState = NO_PARENT) -> Permit | Hold:
        """Decide on one removal that no budget counts. Raises TypeError for a gate with a budget: use `removals`."""
        if self.budget is not None:
            raise TypeError(
                "a gate with a budget decides with `removals`: its record has to be stored"
            )
        hold = _hold((removal,), parent)
        waits = _needs_approval((removal,), parent)
        if hold is None and waits:
            hold = Hold.of((removal,), waits)
        return grant(removal) if hold is None else hold

    def removals(
        self, removals: Sequence[Removal], *, now: datetime, parent: ParentState = NO_PARENT
    ) -> Decision:
        """Decide on a set of removals of one parent, as a whole."""
        budget = self.budget or Budget()
        given = {each.digest for each in parent.approvals}
        record = budget.current(parent.record, now, given)
        if not removals:
            return Decision(record=record)
        if firm := _hold(removals, parent):
            return Decision(hold=firm, record=record)
        # An approved set may take several passes, and a restart in the midst: the rest of it is approved as well.
        allowed = [each for each in removals if each.uid in record.approved]
        pending = [each for each in removals if each.uid not in record.approved]
        digest = unused_digest(pending, record.used)
        if pending and digest in given:
            record = record.with_approved(pending, digest, now)
            allowed, pending = list(removals), []
        hold: Hold | None = None
        if waits := _needs_approval(pending, parent):
            hold = Hold.of(pending, waits, used=record.used, given=given)
        elif pending and self.budget is not None:
            counted = [each for each in pending if not each.in_rollout]
            charged = budget.charge(record, counted, members=parent.members, now=now)
            if isinstance(charged, str):
                hold = Hold.of(pending, charged, used=record.used, given=given)
            else:
                record = charged
        if hold is None:
            allowed = list(removals)
        return Decision(permits=tuple(map(grant, allowed)), hold=hold, record=record)


def _hold(removals: Sequence[Removal], parent: ParentState) -> Hold | None:
    """Return the hold that no approval lifts, or None."""
    foreign = [each for each in removals if each.holder]
    if foreign:
        return Hold.of(foreign, f"it belongs to {foreign[0].holder}")
    inferred = [each for each in removals if each.evidence is Evidence.INFERRED]
    if inferred:
        return Hold.of(inferred, "that it is to go is inferred, not certain")
    return Hold.of(removals, parent.held) if parent.held else None


def _needs_approval(removals: Sequence[Removal], parent: ParentState) -> str:
    """Return why a set waits for an approval, whatever the budget; empty if it does not."""
    if removals and parent.protection:
        return parent.protection
    partial = any(each.evidence is Evidence.PARTIAL for each in removals)
    return "not everything that could contradict it was read" if partial else ""
