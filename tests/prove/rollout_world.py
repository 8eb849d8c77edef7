"""The rollout: what it changes stays within its budget, what it halts stays halted, and all ends."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from ctrlruntime.rollout import (
    Assignment,
    ChangeKind,
    Decision,
    Health,
    Member,
    OnHalt,
    Reason,
    Strategy,
    Waiting,
    Wave,
    decide,
)
from tests.prove.explorer import Step, Violated

_NOW: Final = datetime(2030, 1, 1, tzinfo=UTC)
_MINUTE: Final = timedelta(minutes=1)
_OLDEST: Final = 3
"""Minutes above which a time is as old as this: beyond deadline and soak."""
_OLD, _NEW = "v1", "v2"
_SKEW: Final = 1
_FROZEN: Final = Waiting(Reason.FROZEN, "a freeze")


@dataclass(frozen=True, slots=True)
class Fleet:
    """Members as they are now: a minute later all of their times are a minute older."""

    members: tuple[Member, ...]
    strategy: Strategy
    number: int
    """Of the strategy."""

    def decide(self) -> Decision:
        """Return the decision. Raises Violated where it depends on the order of the members."""
        found = decide(_NEW, self.members, self.strategy, _NOW)
        if decide(_NEW, self.members[::-1], self.strategy, _NOW).changes != found.changes:
            raise Violated("the decision depends on the order of the members")
        return found

    def changing(self) -> int:
        """Return how many members take a place of the budget."""
        deadline = self.strategy.progress_deadline
        return sum(each.is_changing(_NOW, deadline) for each in self.members)


class RolloutScope:
    """Members become ready or fail, passes are cut short, people pause, freeze and change their minds."""

    name = "rollout"

    def __init__(self, members: int, strategies: Iterable[Strategy], *, people: bool) -> None:
        """`people`: whether there are any who pause and freeze."""
        self._members, self._strategies, self._people = members, list(strategies), people

    def starts(self) -> Iterable[Fleet]:
        """Return fleets in the old version."""
        members = tuple(
            Member(name=f"m{number}", version=_OLD, health=Health.READY)
            for number in range(self._members)
        )
        for number, strategy in enumerate(self._strategies):
            yield Fleet(members, strategy, number)

    def key(self, state: Fleet) -> Hashable:
        """Return what the members have; of a strategy only what people change."""
        strategy = state.strategy
        members = tuple(
            (e.version, e.health, e.health_since, e.change, e.paused, e.was_ready)
            for e in state.members
        )
        return state.number, strategy.paused, strategy.hold is None, members

    def steps(self, state: Fleet) -> Iterable[Step[Fleet]]:
        """Return what happens to members, what people do, and what the program does."""
        yield Step("minute", _later(state), drives=True)
        if self._people:
            yield from _by_people(state)
        for at, member in enumerate(state.members):
            if not member.is_ready:
                ready = replace(member, health=Health.READY, health_since=_NOW, was_ready=True)
                drives = member.health is Health.PROGRESSING
                yield Step(f"{member.name} ready", _with(state, at, ready), drives)
            if member.health is not Health.FAILED:
                since = _NOW if member.is_ready else member.health_since
                failed = replace(member, health=Health.FAILED, health_since=since)
                yield Step(f"{member.name} fails", _with(state, at, failed))
        decision = state.decide()
        for done in range(1, len(decision.changes) + 1):
            after = _changed(state, decision, decision.changes[:done])
            yield Step(f"pass, cut after {done}", after, drives=done == len(decision.changes))

    def is_calm(self, state: Fleet) -> bool:
        """Whether nothing is to change, by itself or later: all have the target, or people have to act."""
        decision = state.decide()
        strategy = state.strategy
        if (strategy.paused or strategy.hold) and decision.changes:
            raise Violated("it changes members in a pause or a freeze")
        stops = decision.is_complete or decision.halted or strategy.paused or strategy.hold
        people = all(
            each.version == _NEW or each.paused or each.health is Health.FAILED
            for each in state.members
        )
        failed = any(
            each.version == _NEW and each.health is Health.FAILED for each in state.members
        )
        return not decision.changes and bool(stops or people or failed)


def _by_people(state: Fleet) -> Iterable[Step[Fleet]]:
    strategy, member = state.strategy, state.members[0]
    paused = replace(strategy, paused=not strategy.paused)
    yield Step("pause or not", replace(state, strategy=paused))
    held = replace(strategy, hold=None if strategy.hold else _FROZEN)
    yield Step("freeze or not", replace(state, strategy=held))
    yield Step("pause m0 or not", _with(state, 0, replace(member, paused=not member.paused)))


def _with(state: Fleet, at: int, member: Member) -> Fleet:
    return replace(state, members=(*state.members[:at], member, *state.members[at + 1 :]))


def _later(state: Fleet) -> Fleet:
    def older(time: datetime | None) -> datetime | None:
        return None if time is None else max(time - _MINUTE, _NOW - _OLDEST * _MINUTE)

    return replace(
        state,
        members=tuple(
            replace(
                each,
                health_since=older(each.health_since),
                change=each.change and replace(each.change, at=older(each.change.at) or _NOW),
            )
            for each in state.members
        ),
    )


def _changed(state: Fleet, decision: Decision, changes: Iterable[Assignment]) -> Fleet:
    """Return the fleet after changes. Raises Violated for one that may not be."""
    after = state
    for each in changes:
        at = int(each.name[1:])
        member = state.members[at]
        _check(member, each, decision)
        since = _NOW if member.is_ready else member.health_since
        made = replace(
            member,
            version=each.version,
            change=each.change,
            health=Health.PROGRESSING,
            health_since=since,
            was_ready=False,
        )
        after = _with(after, at, made)
    if after.changing() > max(state.changing(), _SKEW):
        raise Violated(f"{after.changing()} change at once, {_SKEW} may")
    return after


def _check(member: Member, assignment: Assignment, decision: Decision) -> None:
    change = member.change
    if member.paused:
        raise Violated(f"{member.name} is paused, and changes")
    if assignment.version == _NEW and decision.halted:
        raise Violated(f"{member.name} gets the target of a rollout that is halted")
    if assignment.version == _OLD:
        if assignment.change.kind is not ChangeKind.ROLLBACK or not decision.halted:
            raise Violated(f"{member.name} goes back without a halt")
        if change is None or change.is_irreversible or change.previous != _OLD:
            raise Violated(f"{member.name} goes back to what it was not, or cannot be again")


def _strategies(small: bool) -> Iterable[Strategy]:
    first = Wave(name="first", percent=30, soak=_MINUTE)
    for on_halt in (OnHalt.ROLLBACK,) if small else OnHalt:
        for irreversible in (False,) if small else (False, True):
            yield Strategy(
                waves=(first,) if on_halt is OnHalt.ROLLBACK else (),
                max_skew=_SKEW,
                progress_deadline=_MINUTE,
                soak=_MINUTE,
                halt_on_failures=1,
                on_halt=on_halt,
                irreversible=irreversible,
            )


def rollout_world(*, small: bool = False) -> RolloutScope:
    """Return the world of a rollout over two members."""
    return RolloutScope(2, _strategies(small), people=not small)
