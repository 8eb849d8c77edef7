"""The gate: what goes was permitted, within the budget or by an approval of that very set, which counts once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.gate import (
    Approval,
    Budget,
    BudgetRecord,
    Cause,
    Decision,
    Evidence,
    Gate,
    ParentState,
    Removal,
    Victim,
)
from tests.prove.explorer import Step, Violated

_START = datetime(2030, 1, 1, tzinfo=UTC)
_HOUR = timedelta(hours=1)
_WINDOW = 2
"""Hours."""
_KIND = GroupKind("example.com", "Shop")
_GATE = Gate(budget=Budget(max_percent=34, window=_WINDOW * _HOUR, max_with_state=1))


@dataclass(frozen=True, slots=True)
class Parent:
    """A parent and its members, one object each. Times are hours since the start."""

    evidence: tuple[Evidence, ...]
    with_state: tuple[bool, ...]
    hour: int = 0
    lives: tuple[int, ...] = ()
    """The number of each member's object; negative where it is gone."""
    unwanted: frozenset[int] = frozenset()
    record: tuple[tuple[tuple[str, int], ...], ...] = ((), (), (), ())
    approved: str = ""
    """The digest that a person has approved."""
    confirmed: frozenset[str] = frozenset()
    """UIDs in the sets that people approved, of objects that are there."""
    held: bool = False
    lost: tuple[tuple[int, int, bool], ...] = ()
    """Members that lost an object without an approval of it: which, when, and whether it held state."""

    def removals(self) -> list[Removal]:
        """Return what is to go."""
        return [
            Removal(
                victim=Victim(_KIND, "", f"m{member}"),
                uid=f"{member}.{self.lives[member]}",
                holds_state=self.with_state[member],
                cause=Cause.SPEC_CHANGED,
                evidence=self.evidence[member],
                parent="p",
            )
            for member in sorted(self.unwanted)
            if self.lives[member] > 0
        ]

    def decide(self) -> Decision:
        """Return what the gate decides now."""
        names = ("members", "state", "used", "approved")
        record = BudgetRecord(
            **{name: dict(part) for name, part in zip(names, self.record, strict=True)}
        )
        approvals = [Approval(self.approved)] if self.approved else []
        parent = ParentState(
            held="frozen" if self.held else "",
            members=len(self.lives),
            approvals=approvals,
            record=record,
        )
        return _GATE.removals(self.removals(), now=_START + self.hour * _HOUR, parent=parent)

    def storing(self, record: BudgetRecord) -> Parent:
        """Return it with a record."""
        parts = (record.members, record.state, record.used, record.approved)
        return replace(self, record=tuple(tuple(sorted(part.items())) for part in parts))


class GateScope:
    """Members become unwanted and wanted, people approve and freeze, passes are cut short anywhere."""

    name = "gate"

    def __init__(self, members: int, lives: int, hours: int) -> None:
        self._members, self._lives, self._hours = members, lives, hours

    def starts(self) -> Iterable[Parent]:
        """Return parents whose members have every kind of evidence."""
        for last in Evidence:
            for with_state in (False, True):
                evidence = (Evidence.CERTAIN,) * (self._members - 1) + (last,)
                flags = (True, with_state) + (False,) * (self._members - 2)
                yield Parent(evidence, flags, lives=(1,) * self._members)

    def key(self, state: Parent) -> Hashable:
        """Return the parent itself."""
        return state

    def steps(self, state: Parent) -> Iterable[Step[Parent]]:
        """Return what people do, and what the program does."""
        for member in range(self._members):
            if member not in state.unwanted:
                yield Step(f"unwant {member}", replace(state, unwanted=state.unwanted | {member}))
            if -self._lives < state.lives[member] < 0:
                again = replace(state, unwanted=state.unwanted - {member})
                yield Step(
                    f"make {member} again", _with_life(again, member, 1 - state.lives[member])
                )
        yield Step("freeze or not", replace(state, held=not state.held))
        if state.hour < self._hours:
            yield Step("hour", replace(state, hour=state.hour + 1))
        decision = state.decide()
        if decision.hold is not None and decision.hold.digest != state.approved:
            going = frozenset(permit.removal.uid for permit in decision.permits)
            held = frozenset(each.uid for each in state.removals()) - going
            digest, confirmed = decision.hold.digest, state.confirmed | held
            given = replace(state, approved=digest, confirmed=confirmed)
            yield Step("approve", given, drives=True)
        yield from self._passes(state, decision)

    def _passes(self, state: Parent, decision: Decision) -> Iterable[Step[Parent]]:
        stored = state.storing(decision.record)
        for done in range(len(decision.permits) + 1):
            after = stored
            for permit in decision.permits[:done]:
                after = _without(after, permit.removal)
            yield Step(f"pass, cut after {done}", after, drives=done == len(decision.permits))

    def is_calm(self, state: Parent) -> bool:
        """Whether nothing is to go, or what no approval lifts keeps it. Raises Violated over the budget."""
        for _, since, _ in state.lost:
            within = [each for each in state.lost if since <= each[1] < since + _WINDOW]
            allowed = max(1, self._members * 34 // 100)
            if len({member for member, _, _ in within}) > allowed:
                raise Violated(
                    f"{within} of {self._members} members lost objects within {_WINDOW} h"
                )
            if sum(with_state for _, at, with_state in within if at < since + 1) > 1:
                raise Violated(f"{within}: objects that hold state went within an hour")
        removals = state.removals()
        inferred = any(each.evidence is Evidence.INFERRED for each in removals)
        return not removals or inferred or state.held


def _with_life(state: Parent, member: int, life: int) -> Parent:
    lives = (*state.lives[:member], life, *state.lives[member + 1 :])
    return replace(state, lives=lives)


def _without(state: Parent, removal: Removal) -> Parent:
    """Return a parent without an object that was permitted to go. Raises Violated."""
    member = int(removal.uid.partition(".")[0])
    by_approval = removal.uid in state.confirmed
    if state.held:
        raise Violated(f"{removal.uid} goes in a freeze")
    if removal.evidence is not Evidence.CERTAIN and not by_approval:
        raise Violated(f"{removal.uid} goes on {removal.evidence} evidence without an approval")
    lost = state.lost
    if not by_approval:
        since = state.hour - _WINDOW
        lost = tuple(
            sorted({*(e for e in lost if e[1] > since), (member, state.hour, removal.holds_state)})
        )
    confirmed = state.confirmed - {removal.uid}
    return replace(_with_life(state, member, -state.lives[member]), lost=lost, confirmed=confirmed)


def gate_world(*, small: bool = False) -> GateScope:
    """Return the world of a gate: three members or two, over hours."""
    return GateScope(2, 1, 1) if small else GateScope(3, 1, 3)
