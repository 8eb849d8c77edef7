"""Any sequence of calls against a model that is too simple to be wrong."""

from __future__ import annotations

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

from ctrlruntime.queue import Ageing, QueueCore, Request

from .clock import Clock

REQUESTS = [Request(str(index), namespace="default") for index in range(6)]
requests = st.sampled_from(REQUESTS)
priorities = st.sampled_from([-100, -1, 0, 1, 50])
delays = st.sampled_from([None, -1.0, 0.0, 0.5, 3.0, 60.0])


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.queue = QueueCore(self.clock, ageing=Ageing(patience=20, share=3))
        self.due: dict[Request, float] = {}
        self.priority: dict[Request, int] = {}
        self.reasons: dict[Request, set[str]] = {}
        self.in_flight: set[Request] = set()
        self.closed = False

    @rule(request=requests, priority=priorities, delay=delays, reason=st.sampled_from("xyz"))
    def add(self, request: Request, priority: int, delay: float | None, reason: str) -> None:
        self.queue.add(request, priority=priority, after=delay, reason=reason)
        if self.closed:
            return
        due = self.clock.now + max(0.0, delay or 0.0)
        self.due[request] = min(due, self.due.get(request, due))
        self.priority[request] = max(priority, self.priority.get(request, priority))
        self.reasons.setdefault(request, set()).add(reason)

    @rule(request=requests)
    def retry(self, request: Request) -> None:
        delay = min(1000.0, 0.005 * 2 ** self.queue.limiter.retries(request))
        self.queue.add(request, rate_limited=True)
        if self.closed:
            return
        due = self.clock.now + delay
        self.due[request] = min(due, self.due.get(request, due))
        self.priority[request] = max(0, self.priority.get(request, 0))
        self.reasons.setdefault(request, set())

    @rule(seconds=st.sampled_from([0.01, 1.0, 30.0, 1000.0]))
    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def ready(self) -> set[Request]:
        return {r for r, due in self.due.items() if due <= self.clock.now} - self.in_flight

    @rule()
    def pop(self) -> None:
        ready = self.ready()
        item = self.queue.pop()
        if not ready:
            assert item is None
            return
        assert item is not None
        assert item.request in ready
        assert item.priority == self.priority[item.request]
        assert item.reasons == self.reasons[item.request]
        waited = self.clock.now - self.due[item.request]
        assert item.priority == max(self.priority[r] for r in ready) or waited >= 20
        for gone in (self.due, self.priority, self.reasons):
            del gone[item.request]
        self.in_flight.add(item.request)

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(sorted(self.in_flight)))
        self.queue.done(request)
        self.in_flight.discard(request)

    @rule(request=requests)
    def done_without_get_is_harmless(self, request: Request) -> None:
        if request not in self.in_flight:
            self.queue.done(request)

    @precondition(lambda self: not self.closed)
    @rule(really=st.integers(0, 20))
    def shutdown(self, really: int) -> None:
        if really:
            return
        self.queue.promote()
        self.queue.shutdown()
        self.closed = True
        for request in [r for r, due in self.due.items() if due > self.clock.now]:
            del self.due[request]

    @invariant()
    def counts_agree(self) -> None:
        self.queue.promote()
        ready = sum(due <= self.clock.now for due in self.due.values())
        assert len(self.queue) == ready
        assert self.queue.waiting == len(self.due) - ready
        assert self.queue.processing == len(self.in_flight)
        assert sum(self.queue.stats.depth.values()) == ready
        assert min(self.queue.stats.depth.values(), default=0) >= 0

    def teardown(self) -> None:
        """Everything still queued is delivered exactly once, and all counts return to zero."""
        for request in self.in_flight:
            self.queue.done(request)
        self.clock.advance(2000)
        delivered = []
        while (item := self.queue.pop()) is not None:
            delivered.append(item.request)
            self.queue.done(item.request)
        assert sorted(delivered) == sorted(self.due)
        assert set(self.queue.stats.depth.values()) <= {0}
        assert not self.queue._entries


@pytest.mark.criterion("PQ-12")
def test_no_loss_no_duplicate_in_flight_and_counts_return_to_zero() -> None:
    run_state_machine_as_test(
        QueueMachine, settings=settings(max_examples=150, stateful_step_count=40, deadline=None)
    )
