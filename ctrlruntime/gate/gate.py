"""Decides which removals may happen. Pure: the time and what is known of the parent are passed in."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from ctrlruntime.gate.budget import Approval, Budget, BudgetRecord
from ctrlruntime.gate.permit import Hold, Permit, grant
from ctrlruntime.gate.removal import Evidence, Removal, digest_of


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
    """A permit for each of the removals, or a hold of all of them.

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
        if hold is None and parent.protection:
            hold = Hold.of((removal,), parent.protection)
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
        hold = _hold(removals, parent)
        if hold is not None:
            return Decision(hold=hold, record=record)
        digest = digest_of(removals)
        if digest in given and digest not in record.used:
            used = {**record.used, digest: int(now.timestamp())}
            approved = BudgetRecord(record.members, record.state, used)
            return Decision(permits=tuple(map(grant, removals)), record=approved)
        if parent.protection:
            return Decision(hold=Hold.of(removals, parent.protection), record=record)
        if self.budget is None:
            return Decision(permits=tuple(map(grant, removals)), record=record)
        counted = [each for each in removals if not each.in_rollout]
        charged = self.budget.charge(record, counted, members=parent.members, now=now)
        if isinstance(charged, str):
            return Decision(hold=Hold.of(removals, charged), record=record)
        return Decision(permits=tuple(map(grant, removals)), record=charged)


def _hold(removals: Sequence[Removal], parent: ParentState) -> Hold | None:
    """Return the hold that no approval lifts, or None."""
    foreign = [each for each in removals if each.holder]
    if foreign:
        return Hold.of(foreign, f"it belongs to {foreign[0].holder}")
    inferred = [each for each in removals if each.evidence is not Evidence.CERTAIN]
    if inferred:
        return Hold.of(inferred, "that it is to go is inferred, not certain")
    return Hold.of(removals, parent.held) if parent.held else None
