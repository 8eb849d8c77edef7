"""Objects of the hub whose owner is gone from the data plane: what waits, and what may be deleted. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import ceil
from typing import Any, Final, Self

from ctrlruntime.gate import (
    Approval,
    Budget,
    BudgetRecord,
    Decision,
    Gate,
    Hold,
    ParentState,
    Permit,
    Removal,
    unused_digest,
)
from ctrlruntime.gate.permit import SHOWN

DELAY: Final = 600.0
"""Seconds that an owner has to be gone before its objects are deleted."""
MOST_OWNERS: Final = 10
"""Owners that may go within the window without approval."""
MOST_SHARE: Final = 0.2
"""Share of all owners that may go within the window without approval."""
BUDGET: Final = Budget()
"""Its window of 24 hours counts owners, and its limit objects that hold state."""


@dataclass(frozen=True, slots=True)
class SweepRecord:
    """What outlives a process: what was permitted to go, and which owners wait for an approval."""

    budget: BudgetRecord = field(default_factory=BudgetRecord)
    held: Mapping[str, int] = field(default_factory=dict)
    """Since when each owner is held, in seconds since 1970."""

    @classmethod
    def of(cls, data: object) -> Self:
        """Return the record that `to_dict` made. Raises ValueError for anything else."""
        if not isinstance(data, Mapping):
            raise ValueError("a record of orphans is an object")
        held = BudgetRecord.of({"members": data.get("held")}).members
        return cls(BudgetRecord.of(data.get("budget")), held)

    def with_approved(self, uids: Collection[str]) -> SweepRecord:
        """Return the record in which of all approved objects only these are so: what came back has to be approved again."""
        approved = {uid: at for uid, at in self.budget.approved.items() if uid in uids}
        return replace(self, budget=replace(self.budget, approved=approved))

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON data."""
        return {"budget": self.budget.to_dict(), "held": dict(sorted(self.held.items()))}


@dataclass(frozen=True, slots=True)
class Sweep:
    """What one look at the hub led to."""

    orphaned: frozenset[str] = frozenset()
    """Owners that do not exist."""
    reported: frozenset[str] = frozenset()
    """Those of them that were not reported before."""
    scheduled: frozenset[str] = frozenset()
    """Those that have been gone for long enough, and are few or approved; servers are read live before their objects go."""
    held: int = 0
    """Number of owners whose objects wait for an approval."""
    hold: Hold | None = None
    """What waits, with the digest that an approval has to repeat."""


@dataclass(slots=True)
class OrphanSweep:
    """Remembers since when owners are gone. Seconds of a clock that only grows."""

    delay: float = DELAY
    _since: dict[str, float] = field(default_factory=dict)

    def look(self, orphaned: Collection[str], now: float) -> tuple[frozenset[str], frozenset[str]]:
        """Take in the owners that do not exist. Return those that are new, and those that have been gone for long enough."""
        reported = frozenset(orphaned) - self._since.keys()
        self._since = {owner: self._since.get(owner, now) for owner in orphaned}
        long_gone = [owner for owner, since in self._since.items() if now - since >= self.delay]
        return reported, frozenset(long_gone)

    @property
    def since(self) -> Mapping[str, float]:
        """Since when each owner is known to be gone."""
        return self._since


def is_held(orphaned: int, owners: int) -> bool:
    """Whether so many owners that are gone need approval: above 10, or above a fifth of all."""
    return orphaned > MOST_OWNERS or orphaned > MOST_SHARE * owners


def with_holds(
    record: SweepRecord | None,
    *,
    orphaned: Collection[str],
    owners: Collection[str],
    unknown: Collection[str] = (),
    now: datetime,
) -> SweepRecord:
    """Return the record with what waits from now on. What was held stays so until it is approved, or back.

    `record` is None where it was lost, or never there: whatever is gone by then waits. `owners` have objects on the hub;
    of those in `unknown` it cannot be read whether they are there. Too many that are gone at once, or within the window,
    are held: a data plane that was restored from an older backup has lost them too.
    """
    at = ceil(now.timestamp())
    if record is None:
        return SweepRecord(held=dict.fromkeys(orphaned, at))
    budget = BUDGET.current(record.budget, now, ())
    held = {
        owner: since
        for owner, since in record.held.items()
        if owner in orphaned or owner in unknown
    }
    fresh = set(orphaned) - held.keys()
    if fresh and is_held(len(fresh | budget.members.keys()), len({*owners, *budget.members})):
        held |= dict.fromkeys(fresh, at)
    return SweepRecord(budget, held)


def decide_held(
    record: SweepRecord, removals: Sequence[Removal], approval: str, *, now: datetime
) -> tuple[SweepRecord, Sequence[Permit]]:
    """Decide on the objects of owners that are held. An approval counts once, for the digest of all of them."""
    decision = _protected(record, removals, approval, now)
    return replace(record, budget=decision.record), decision.permits


def hold_of(record: SweepRecord, removals: Sequence[Removal], *, now: datetime) -> Hold | None:
    """Return what waits in the names of the owners, with the digest of their objects; None if nothing does."""
    decision = _protected(record, removals, "", now)
    if decision.hold is None:
        return None
    permitted = {each.removal.uid for each in decision.permits}
    pending = [each for each in removals if each.uid not in permitted]
    names = sorted({each.member for each in pending})
    return Hold(
        reason=decision.hold.reason,
        names=tuple(names[:SHOWN]),
        count=len(names),
        digest=unused_digest(pending, record.budget.used),
    )


def _protected(
    record: SweepRecord, removals: Sequence[Removal], approval: str, now: datetime
) -> Decision:
    parent = ParentState(
        protection="these owners are gone from their data plane",
        approvals=(Approval(approval),) if approval else (),
        record=record.budget,
    )
    return Gate().removals(removals, now=now, parent=parent)


def decide_few(
    record: SweepRecord, removals: Sequence[Removal], *, owners: int, now: datetime
) -> tuple[SweepRecord, Sequence[Permit]]:
    """Decide on the objects of owners that are few. What is over the budget is held from then on."""
    members = owners + len(record.budget.members)
    parent = ParentState(members=members, record=record.budget)
    decision = Gate(budget=BUDGET).removals(removals, now=now, parent=parent)
    held = dict(record.held)
    if decision.hold is not None:
        held |= dict.fromkeys({each.member for each in removals}, ceil(now.timestamp()))
    # No approval is given here, and one that was used stays used.
    budget = replace(decision.record, used=record.budget.used)
    return SweepRecord(budget, held), decision.permits
