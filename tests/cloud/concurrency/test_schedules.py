"""Random schedules with crashes, late writes and hand-overs, against the truth outside.

Each object's record and its run live outside the ledger and outlive it. Whatever happens: no more
runs than the limits allow, never two exclusive ones of one instance, and everybody's turn comes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from internal.cloud.concurrency import Claim, ConcurrencyLimiter, Denial
from internal.cloud.runs import RunOwner
from internal.cloud.tasks.task import Concurrency

INSTANCES = 4
LIMITS = {
    "terraform": Concurrency(limit=2, starts_per_minute=3),
    "kubernetes": Concurrency(limit=1),
    "invariants": Concurrency(limit=2, exclusive=False),
}


@dataclass
class Thing:
    """One object: what its status says, and whether its run lives."""

    task: str
    instance: str
    wants: bool = False
    waiting: datetime | None = None
    intent: datetime | None = None
    live: bool = False
    asks_at: datetime | None = None
    """When it asks by itself; None: when it is woken."""
    served: int = 0

    @property
    def uid(self) -> str:
        return f"{self.task}-{self.instance}"

    def claim(self, now: datetime) -> Claim:
        owner = RunOwner(
            api_version="v1", kind=self.task, namespace="n", name=self.instance, uid=self.uid
        )
        return Claim(
            task=self.task,
            owner=owner,
            instance=self.instance,
            since=self.waiting or now,
            concurrency=LIMITS[self.task],
        )


@dataclass
class Truth:
    """All objects, time, and the starts there were."""

    now: datetime = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
    things: list[Thing] = field(default_factory=list)
    starts: list[tuple[str, datetime]] = field(default_factory=list)

    def rebuild(self, wake: list[str]) -> ConcurrencyLimiter:
        """What the next leader makes of the record."""
        ledger = ConcurrencyLimiter(lambda: self.now, lambda owner: wake.append(owner.uid))
        for thing in self.things:
            if thing.intent is not None:
                ledger.learn(thing.claim(self.now), since=thing.intent, sure=False)
            elif thing.waiting is not None:
                ledger.queue(thing.claim(self.now))
        recent = [(task, at) for task, at in self.starts if self.now - at < timedelta(minutes=1)]
        recorded = [(t.task, t.intent) for t in self.things if t.intent is not None]
        for task, at in recent:
            if (task, at) not in recorded:
                ledger.ran(task, at, self.now)
        return ledger


class Schedule(RuleBasedStateMachine):
    """The rules are single steps of managers; any of them may be the last one of its manager."""

    def __init__(self) -> None:
        super().__init__()
        self.truth = Truth(
            things=[Thing(task, f"i{n}") for n in range(INSTANCES) for task in LIMITS]
        )
        self.woken: list[str] = []
        self.granted: set[str] = set()
        """Whose starts this manager may perform."""
        self.flying: set[str] = set()
        """Whose starts a manager sent before it died, and which may arrive still."""
        self.ledger = self.truth.rebuild(self.woken)

    things = st.integers(0, INSTANCES * len(LIMITS) - 1)

    def wake(self) -> None:
        """Those who were woken ask."""
        while self.woken:
            uid = self.woken.pop(0)
            self.ask(next(thing for thing in self.truth.things if thing.uid == uid))

    def ask(self, thing: Thing) -> None:
        """One pass of a manager over an object, up to the record."""
        if thing.live or not thing.wants:
            (self.ledger.hold(thing.claim(self.truth.now)) if thing.live else self.drop(thing))
            return
        verdict = self.ledger.acquire(thing.claim(self.truth.now))
        if isinstance(verdict, Denial):
            thing.waiting = verdict.waiting.since
            thing.asks_at = (
                None if verdict.again is None else self.truth.now + timedelta(seconds=verdict.again)
            )
            return
        thing.waiting, thing.asks_at = None, None
        thing.intent = thing.intent or self.truth.now
        self.granted.add(thing.uid)

    def drop(self, thing: Thing) -> None:
        thing.waiting = None
        self.ledger.release(thing.claim(self.truth.now).owner)

    @rule(number=things)
    def want(self, number: int) -> None:
        """Inputs change."""
        thing = self.truth.things[number]
        if not thing.wants and thing.intent is None:
            thing.wants = True
            self.ask(thing)

    @rule(number=things)
    def look(self, number: int) -> None:
        """A pass for whatever cause: a timer, an event, a resync."""
        self.ask(self.truth.things[number])

    @rule()
    def come(self) -> None:
        self.wake()

    @rule(number=things)
    def start(self, number: int) -> None:
        """The effect after the record."""
        thing = self.truth.things[number]
        if thing.uid in self.granted:
            self.granted.discard(thing.uid)
            self.begin(thing)

    @rule(number=things)
    def arrive(self, number: int) -> None:
        """The start that a dead manager had sent arrives."""
        thing = self.truth.things[number]
        if thing.uid in self.flying:
            self.flying.discard(thing.uid)
            self.begin(thing)

    def begin(self, thing: Thing) -> None:
        """To start what is there already changes nothing: the id is the same."""
        if thing.intent is not None and not thing.live:
            thing.live = True
            self.truth.starts.append((thing.task, thing.intent))

    @rule(number=things)
    def end(self, number: int) -> None:
        """A run ends, and that is recorded."""
        thing = self.truth.things[number]
        if thing.live:
            thing.live, thing.intent, thing.wants = False, None, False
            self.flying.discard(thing.uid)  # the provider would answer the run that has ended
            thing.served += 1
            self.ledger.release(thing.claim(self.truth.now).owner)

    @rule(seconds=st.sampled_from([1, 20, 61]))
    def pass_by(self, seconds: int) -> None:
        self.truth.now += timedelta(seconds=seconds)

    @rule()
    def crash(self) -> None:
        """The manager dies; what it granted and did not start is on record all the same."""
        self.woken.clear()
        self.flying |= self.granted
        self.granted.clear()
        self.ledger = self.truth.rebuild(self.woken)

    @precondition(lambda self: any(not t.wants for t in self.truth.things))
    @rule(number=things)
    def hand_over(self, number: int) -> None:
        """The leader changes, and a write of the old one arrives after the new one has read all:
        an intent that the old one may no longer carry out."""
        thing = self.truth.things[number]
        old = self.ledger
        self.crash()
        if thing.intent is None and not thing.live:
            thing.wants = True
            if not isinstance(old.acquire(thing.claim(self.truth.now)), Denial):
                thing.waiting, thing.intent = None, self.truth.now
                self.ledger.learn(thing.claim(self.truth.now), since=self.truth.now, sure=False)

    @invariant()
    def limits_hold(self) -> None:
        for task, limits in LIMITS.items():
            live = [thing for thing in self.truth.things if thing.live and thing.task == task]
            assert len(live) <= limits.limit, f"{len(live)} of {task}"

    @invariant()
    def one_exclusive_task_of_an_instance(self) -> None:
        for number in range(INSTANCES):
            live = [
                thing.task
                for thing in self.truth.things
                if thing.live and thing.instance == f"i{number}"
            ]
            assert len([task for task in live if LIMITS[task].exclusive]) <= 1, live

    @invariant()
    def starts_in_a_minute(self) -> None:
        for task, limits in LIMITS.items():
            times = sorted(at for name, at in self.truth.starts if name == task)
            most = limits.starts_per_minute
            for first, last in zip(times, times[most:] if most else [], strict=False):
                assert last - first >= timedelta(minutes=1), f"{most + 1} starts of {task}"

    def teardown(self) -> None:
        """Faults stop. By being woken alone, everybody who wants gets its turn."""
        for thing in self.truth.things:
            self.ask(thing)  # every object is looked at when a manager starts
        for _ in range(40 * len(self.truth.things)):
            if not any(thing.wants for thing in self.truth.things):
                return
            self.wake()
            for number, thing in enumerate(self.truth.things):
                if thing.asks_at is not None and thing.asks_at <= self.truth.now:
                    self.ask(thing)
                self.start(number)
            self.limits_hold()
            self.one_exclusive_task_of_an_instance()
            for number in range(len(self.truth.things)):
                self.end(number)
            self.pass_by(5)
        waiting = [thing.uid for thing in self.truth.things if thing.wants]
        raise AssertionError(f"never served: {waiting}")


@pytest.mark.criterion("SG-40")
@pytest.mark.criterion("SG-41")
@pytest.mark.criterion("SG-42")
@pytest.mark.criterion("SG-43")
@pytest.mark.criterion("SG-44")
def test_limits_exclusion_and_turns_hold_under_any_schedule() -> None:
    run_state_machine_as_test(
        Schedule,
        settings=settings(max_examples=40, stateful_step_count=40, deadline=None, derandomize=True),
    )
