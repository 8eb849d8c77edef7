"""What holds for every set of removals, every history and every pair of managers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    Permit,
    RecordChanged,
    Removal,
    Victim,
    decide,
    digest_of,
)
from ctrlruntime.gate.budget import MOST_APPROVED

EXAMPLES = 500
HOUR = timedelta(hours=1)
DAY = timedelta(hours=24)
START = datetime(2026, 1, 1, tzinfo=UTC)
KINDS = [GroupKind("", "ConfigMap"), GroupKind("", "PersistentVolumeClaim")]


def removals(evidence: st.SearchStrategy[Evidence] | None = None) -> st.SearchStrategy[Removal]:
    """Return removals of few objects and members, so that they meet each other."""

    def made(number: int, member: int, state: bool, cause: Cause, sure: Evidence) -> Removal:
        return Removal(
            victim=Victim(KINDS[state], "default", f"object-{number}"),
            uid=f"uid-{number}",
            holds_state=state,
            cause=cause,
            evidence=sure,
            parent="Registry/default/r",
            member=f"member-{member}",
        )

    causes = st.sampled_from([Cause.ROW_GONE, Cause.ROW_VALUES, Cause.SPEC_CHANGED])
    sure = st.just(Evidence.CERTAIN) if evidence is None else evidence
    return st.builds(made, st.integers(0, 30), st.integers(0, 12), st.booleans(), causes, sure)


def sets(size: int = 6) -> st.SearchStrategy[list[Removal]]:
    """Return sets of removals, each object once."""
    return st.lists(removals(), min_size=1, max_size=size, unique_by=lambda each: each.uid)


budgets = st.builds(
    Budget,
    max_percent=st.sampled_from([0, 10, 20, 50]),
    max_with_state=st.integers(0, 3),
)


@dataclass
class History:
    """What was permitted, by whatever manager, and what a budget says to it."""

    budget: Budget
    permitted: list[tuple[datetime, Removal]] = field(default_factory=list)

    def holds(self, now: datetime, members: int, decision: Decision) -> bool:
        """Add a decision's permits. Return whether every window that ends now is within the budget."""
        if not decision.permits:
            return decision.hold is not None
        new = [each.removal for each in decision.permits]
        earlier = {each.counted_as for at, each in self.permitted if at > now - DAY}
        gone = {each.uid for at, each in self.permitted if at > now - HOUR and each.holds_state}
        self.permitted += [(now, each) for each in new]
        losing = earlier | {each.counted_as for each in new}
        going = gone | {each.uid for each in new if each.holds_state}
        few = losing == earlier or len(losing) <= self.budget.allowed(members)
        return few and (going == gone or len(going) <= self.budget.max_with_state)


def named(found: Sequence[Removal]) -> set[tuple[object, ...]]:
    """Return what a person who approves a set has seen of it."""
    return {(each.parent, each.victim, each.uid, each.cause) for each in found}


def stored(record: BudgetRecord) -> BudgetRecord:
    """Return a record as the next process reads it."""
    return BudgetRecord.of(orjson.loads(orjson.dumps(record.to_dict())))


@settings(max_examples=EXAMPLES)
@given(
    st.lists(removals(st.sampled_from(Evidence)), min_size=1, max_size=5),
    st.sampled_from(["", "Tenant 'other'"]),
    st.sampled_from(["", "ChangeFreeze night"]),
    st.booleans(),
)
@pytest.mark.criterion("G-F2")
def test_nothing_inferred_foreign_or_frozen_gets_a_permit_and_a_partial_read_only_by_approval(
    found: list[Removal], holder: str, held: str, approved: bool
) -> None:
    found[0] = replace(found[0], holder=holder)
    approvals = [Approval(digest_of(found))] if approved else []
    parent = ParentState(members=100, held=held, approvals=approvals)
    for gate in (Gate(), Gate(budget=Budget(max_percent=100, max_with_state=100))):
        decision = gate.removals(found, now=START, parent=parent)
        inferred = any(each.evidence is Evidence.INFERRED for each in found)
        partial = any(each.evidence is Evidence.PARTIAL for each in found) and not approved
        assert bool(decision.permits) is not (inferred or bool(holder) or bool(held) or partial)
        assert (decision.hold is None) is bool(decision.permits)
    for each in found:
        single = Gate().removal(each, parent=parent)
        certain = each.evidence is Evidence.CERTAIN and not each.holder and not held
        assert isinstance(single, Permit) is certain


steps = st.lists(
    st.tuples(st.integers(0, 30 * 3600), sets(), st.integers(0, 40), st.booleans()), max_size=14
)


@settings(max_examples=EXAMPLES)
@given(budgets, steps)
def test_no_window_sees_more_than_the_budget_across_restarts(
    budget: Budget, made: list[tuple[int, list[Removal], int, bool]]
) -> None:
    gate, record, now, history = Gate(budget=budget), BudgetRecord(), START, History(budget)
    for seconds, found, members, restart in made:
        now += timedelta(seconds=seconds / 3)
        parent = ParentState(members=members, record=stored(record) if restart else record)
        decision = gate.removals(found, now=now, parent=parent)
        assert history.holds(now, members, decision)
        record = decision.record


@settings(max_examples=EXAMPLES)
@given(sets(), st.integers(1, 10**7), st.integers(5, 40))
def test_a_recorded_time_in_the_future_counts_as_now(
    found: list[Removal], ahead: int, members: int
) -> None:
    budget = Budget(max_with_state=100)
    later = int(START.timestamp()) + ahead
    spent = {f"earlier-{number}": later for number in range(budget.allowed(members))}
    parent = ParentState(members=members, record=BudgetRecord(members=spent))
    decision = Gate(budget=budget).removals(found, now=START, parent=parent)
    assert decision.hold is not None
    # Nor does it count for ever: a window after it was looked at, or after it has come, it is over.
    over = START + timedelta(seconds=min(ahead, DAY.total_seconds())) + DAY + HOUR
    parent = replace(parent, record=stored(decision.record))
    assert budget.current(parent.record, over, ()).members == {}


class Store:
    """The status of a parent: a write requires the version that was read."""

    def __init__(self, members: int) -> None:
        self.members = members
        self.data: dict[str, dict[str, int]] = {}
        self.version = 0

    async def load(self) -> tuple[ParentState, str]:
        """Return the record, and give the other manager its turn."""
        state = ParentState(members=self.members, record=BudgetRecord.of(self.data or None))
        version = str(self.version)
        await asyncio.sleep(0)
        return state, version

    async def save(self, record: dict[str, dict[str, int]], version: str) -> None:
        """Store the record, or raise RecordChanged."""
        await asyncio.sleep(0)
        if version != str(self.version):
            raise RecordChanged
        self.data, self.version = orjson.loads(orjson.dumps(record)), self.version + 1


@settings(max_examples=EXAMPLES)
@given(budgets, st.lists(st.tuples(sets(), sets(), st.integers(0, 10)), max_size=6))
def test_two_managers_share_one_budget(
    budget: Budget, made: list[tuple[list[Removal], list[Removal], int]]
) -> None:
    async def run() -> list[bool]:
        results: list[bool] = []
        store, history = Store(20), History(budget)
        managers = [Gate(budget=budget), Gate(budget=budget)]
        now = START
        for first, second, hours in made:
            now += timedelta(hours=hours, seconds=1)

            async def ask(gate: Gate, found: Sequence[Removal], at: datetime = now) -> None:
                decision = await decide(gate, found, store, lambda: at)
                results.append(history.holds(at, 20, decision))

            await asyncio.gather(ask(managers[0], first), ask(managers[1], second))
        return results

    assert all(asyncio.run(run()))


@settings(max_examples=EXAMPLES)
@given(budgets, sets(), sets(), st.integers(0, 40))
def test_a_hold_costs_nothing_and_ends(
    budget: Budget, held: list[Removal], other: list[Removal], members: int
) -> None:
    gate = Gate(budget=budget)
    before = gate.removals(other, now=START, parent=ParentState(members=members)).record
    parent = ParentState(members=members, record=before)
    decision = gate.removals(held, now=START, parent=parent)
    if decision.hold is None:
        return
    assert decision.record == before
    assert decision.hold.count == len(held)
    asked = replace(parent, record=decision.record)
    untouched, after = (gate.removals(other, now=START, parent=each) for each in (parent, asked))
    assert (untouched.hold, untouched.record) == (after.hold, after.record)
    assert gate.removals(held, now=START, parent=asked).hold == decision.hold
    approved = replace(asked, approvals=[Approval(decision.hold.digest)])
    assert len(gate.removals(held, now=START, parent=approved).permits) == len(held)


@settings(max_examples=EXAMPLES)
@given(sets(), sets(), st.booleans())
def test_an_approval_is_of_one_set_and_counts_once(
    shown: list[Removal], other: list[Removal], protected: bool
) -> None:
    gate = Gate(budget=Budget(max_percent=0, max_with_state=0))
    protection = "it is protected" if protected else ""
    spent = {"someone": int(START.timestamp())}
    parent = ParentState(
        members=3,
        protection=protection,
        approvals=[Approval(digest_of(shown))],
        record=BudgetRecord(members=spent),
    )
    same = digest_of(other) == digest_of(shown)
    assert same is (named(other) == named(shown))
    assert bool(gate.removals(other, now=START, parent=parent).permits) is same
    assert digest_of(reversed(shown)) == digest_of(shown)
    first = gate.removals(shown, now=START, parent=parent)
    assert {each.removal for each in first.permits} == set(shown)
    for wait in (timedelta(0), HOUR, timedelta(days=400)):
        now = START + wait
        spent_again = replace(stored(first.record), members={"someone": int(now.timestamp())})
        again = replace(parent, record=spent_again)
        rest, new = gate.removals(shown[1:], now=now, parent=again), digest_of(shown[1:])
        # An hour to go on with the set that was approved; the approval itself is used.
        assert len(rest.permits) == (len(shown[1:]) if wait < HOUR else 0)
        assert gate.removals(shown, now=now, parent=again).record.used.keys() == {digest_of(shown)}
        assert new not in rest.record.used
        other_uids = [replace(each, uid=f"{each.uid}-again") for each in shown]
        assert gate.removals(other_uids, now=now, parent=again).permits == ()


def test_the_record_of_an_approved_set_is_bounded() -> None:
    many = [
        Removal(
            victim=Victim(KINDS[1], "default", f"disk-{number}"),
            uid=f"uid-{number}",
            holds_state=True,
            cause=Cause.SPEC_CHANGED,
            evidence=Evidence.CERTAIN,
        )
        for number in range(MOST_APPROVED + 1)
    ]
    for found, kept in ((many, 0), (many[1:], MOST_APPROVED)):
        parent = ParentState(members=1, approvals=[Approval(digest_of(found))])
        made = Gate(budget=Budget()).removals(found, now=START, parent=parent)
        assert len(made.permits) == len(found)
        assert len(made.record.approved) == kept


@settings(max_examples=EXAMPLES)
@given(sets(), sets())
def test_what_was_approved_goes_and_what_came_later_is_held_by_itself(
    shown: list[Removal], later: list[Removal]
) -> None:
    gate = Gate(budget=Budget(max_percent=0, max_with_state=0))
    spent = BudgetRecord(members={"someone": int(START.timestamp())})
    parent = ParentState(members=3, approvals=[Approval(digest_of(shown))], record=spent)
    first = gate.removals(shown, now=START, parent=parent)
    new = [each for each in later if each.uid not in first.record.approved]
    both = gate.removals([*shown, *new], now=START, parent=replace(parent, record=first.record))
    assert {each.removal for each in both.permits} == set(shown)
    assert (both.hold.digest if both.hold else "") == (digest_of(new) if new else "")
