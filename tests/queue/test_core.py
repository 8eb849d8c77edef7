"""The pure work queue: requirements WQ-* and PQ-* on a clock of its own."""

from __future__ import annotations

import gc
import time
import weakref

import pytest

from ctrlruntime.queue import Ageing, QueueCore, Request
from ctrlruntime.queue.core import MAX_REASONS

from .clock import Clock


def request(name: str) -> Request:
    return Request(name, namespace="default")


A, B, C, D = (request(name) for name in "abcd")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(clock: Clock) -> QueueCore:
    return QueueCore(clock)


def take(queue: QueueCore) -> list[str]:
    """Hand out everything that is ready, one after the other."""
    names = []
    while (item := queue.pop()) is not None:
        names.append(item.request.name)
        queue.done(item.request)
    return names


@pytest.mark.criterion("WQ-01")
def test_a_key_already_queued_is_not_queued_twice(queue: QueueCore) -> None:
    queue.add(A)
    queue.add(A)
    assert len(queue) == 1
    assert take(queue) == ["a"]


@pytest.mark.criterion("WQ-02")
def test_a_key_added_while_processed_runs_once_more_after_done(queue: QueueCore) -> None:
    queue.add(A)
    assert queue.pop() is not None
    for _ in range(3):
        queue.add(A)
    assert queue.pop() is None
    queue.done(A)
    assert take(queue) == ["a"]


@pytest.mark.criterion("WQ-04")
def test_after_shutdown_adds_are_ignored_and_ready_items_still_delivered(queue: QueueCore) -> None:
    queue.add(A)
    queue.add(B, after=10)
    queue.shutdown()
    queue.add(C)
    assert take(queue) == ["a"]
    assert len(queue) == 0
    assert queue.waiting == 0


@pytest.mark.criterion("WQ-07")
def test_keys_that_left_the_queue_are_not_retained(queue: QueueCore) -> None:
    class Tracked(str):
        __slots__ = ("__weakref__",)

    name = Tracked("tracked")
    seen = weakref.ref(name)
    queue.add(Request(name, namespace="default"), rate_limited=True)
    queue.add(Request(name, namespace="default"), reason="again")
    item = queue.pop()
    assert item is not None
    queue.done(item.request)
    queue.forget(item.request)
    queue.add(A, after=0.001)
    del item, name
    queue._clock.advance(10)  # type: ignore[attr-defined]
    take(queue)
    gc.collect()
    assert seen() is None


@pytest.mark.criterion("WQ-08")
@pytest.mark.parametrize("delay", [0.0, -3.0])
def test_no_or_negative_delay_adds_at_once(queue: QueueCore, delay: float) -> None:
    queue.add(A, after=delay)
    assert take(queue) == ["a"]


@pytest.mark.criterion("WQ-09")
def test_delayed_items_come_in_order_of_due_time(queue: QueueCore, clock: Clock) -> None:
    queue.add(A, after=30)
    queue.add(B, after=10)
    queue.add(C, after=20)
    clock.advance(60)
    assert take(queue) == ["b", "c", "a"]


@pytest.mark.criterion("WQ-10")
def test_the_shorter_of_two_delays_wins(queue: QueueCore, clock: Clock) -> None:
    queue.add(A, after=50)
    queue.add(A, after=10)
    queue.add(A, after=90)
    assert queue.waiting == 1
    clock.advance(9.9)
    assert take(queue) == []
    clock.advance(0.2)
    assert take(queue) == ["a"]
    clock.advance(100)
    assert take(queue) == []


@pytest.mark.criterion("WQ-11")
def test_a_delayed_and_a_direct_add_give_one_delivery(queue: QueueCore, clock: Clock) -> None:
    queue.add(A, after=5)
    queue.add(A)
    assert take(queue) == ["a"]
    clock.advance(10)
    assert take(queue) == []


@pytest.mark.criterion("WQ-12")
def test_thousands_of_delayed_items_are_delivered_when_the_clock_steps(
    queue: QueueCore, clock: Clock
) -> None:
    for index in range(5000):
        queue.add(request(str(index)), after=1 + index % 300)
    clock.advance(301)
    assert sorted(take(queue), key=int) == [str(index) for index in range(5000)]


@pytest.mark.criterion("PQ-01")
def test_higher_priority_first_and_fifo_within_one(queue: QueueCore) -> None:
    queue.add(A)
    queue.add(B, priority=-100)
    queue.add(C, priority=5)
    queue.add(D)
    assert take(queue) == ["c", "a", "d", "b"]


@pytest.mark.criterion("PQ-02")
def test_re_adding_raises_and_never_lowers_the_priority(queue: QueueCore) -> None:
    queue.add(A, priority=-100)
    queue.add(B)
    queue.add(C, priority=9)
    queue.add(A, priority=10)
    queue.add(A, priority=-5)
    queue.add(C, priority=-5)
    assert take(queue) == ["a", "c", "b"]


@pytest.mark.criterion("PQ-03")
def test_a_raised_item_goes_behind_those_already_there(queue: QueueCore) -> None:
    queue.add(A)
    queue.add(B, priority=3)
    queue.add(A, priority=3)
    assert take(queue) == ["b", "a"]


@pytest.mark.criterion("PQ-04")
def test_re_adding_without_delay_makes_a_waiting_item_ready(queue: QueueCore) -> None:
    queue.add(A, after=100, priority=-100)
    queue.add(A)
    item = queue.pop()
    assert item is not None
    assert item.request == A
    assert item.priority == 0


@pytest.mark.criterion("PQ-05")
def test_waiting_items_do_not_block_ready_ones_of_lower_priority(queue: QueueCore) -> None:
    queue.add(A, after=100, priority=100)
    queue.add(B, priority=-100)
    assert take(queue) == ["b"]


@pytest.mark.criterion("PQ-06")
def test_items_becoming_ready_are_ordered_by_ready_time(queue: QueueCore, clock: Clock) -> None:
    queue.add(A, after=3)
    queue.add(B, after=2)
    queue.add(C, after=1, priority=-1)
    clock.advance(10)
    queue.add(D)
    assert take(queue) == ["b", "a", "d", "c"]


@pytest.mark.criterion("LV-8")
def test_a_delayed_item_is_ready_from_its_due_time_however_late_it_is_looked_at(
    clock: Clock,
) -> None:
    class Waited(list[float]):
        def waited(self, seconds: float) -> None:
            self.append(seconds)

        def worked(self, seconds: float) -> None: ...

    waited = Waited()
    queue = QueueCore(clock, observer=waited)
    queue.add(A, after=5)
    queue.add(B, after=9)
    clock.advance(12)
    take(queue)
    assert waited == [7.0, 3.0]
    queue.add(A, after=5)
    clock.advance(2)
    queue.add(A)  # at once: its delay is over
    clock.advance(1)
    take(queue)
    assert waited[2] == 1.0
    queue.add(A)
    clock.advance(1)
    assert queue.pop() is not None
    queue.add(A, after=5)  # while it is processed
    clock.advance(6)
    queue.done(A)
    take(queue)
    assert waited[3:] == [1.0, 1.0]


@pytest.mark.criterion("LV-8")
def test_a_delayed_item_ages_from_its_due_time(clock: Clock) -> None:
    queue = QueueCore(clock, ageing=Ageing(patience=30.0, share=1))
    queue.add(A, after=5, priority=-1)
    clock.advance(40)
    queue.add(B)
    assert take(queue) == ["a", "b"]


@pytest.mark.criterion("LV-8")
def test_a_delayed_item_is_not_ready_before_its_due_time(queue: QueueCore, clock: Clock) -> None:
    queue.add(A, after=5)
    clock.advance(4.999)
    assert take(queue) == []
    clock.advance(0.001)
    assert take(queue) == ["a"]


@pytest.mark.criterion("PQ-07")
def test_an_item_in_flight_is_not_handed_out_again(queue: QueueCore, clock: Clock) -> None:
    queue.add(A)
    assert queue.pop() is not None
    queue.add(A, after=1)
    clock.advance(2)
    assert queue.pop() is None
    assert len(queue) == 1
    queue.done(A)
    assert take(queue) == ["a"]


@pytest.mark.criterion("PQ-08")
def test_rate_limited_with_a_delay_uses_the_shorter(queue: QueueCore, clock: Clock) -> None:
    queue.add(A, rate_limited=True, after=100)
    queue.add(B, rate_limited=True)
    queue.done(B)
    clock.advance(0.006)
    assert take(queue) == ["a", "b"]
    for _ in range(15):
        queue.limiter.when(A)
    queue.add(A, rate_limited=True, after=1)
    clock.advance(1.1)
    assert take(queue) == ["a"]


@pytest.mark.criterion("PQ-10")
def test_depth_per_priority_follows_raise_ready_and_get(queue: QueueCore, clock: Clock) -> None:
    queue.add(A, priority=-100)
    queue.add(B, after=5, priority=7)
    assert queue.stats.depth == {-100: 1}
    queue.add(A)
    assert queue.stats.depth == {-100: 0, 0: 1}
    clock.advance(5)
    queue.promote()
    assert queue.stats.depth == {-100: 0, 0: 1, 7: 1}
    assert len(queue) == 2
    take(queue)
    assert queue.stats.depth == {-100: 0, 0: 0, 7: 0}


@pytest.mark.criterion("PQ-13")
def test_adding_to_a_long_queue_takes_no_longer() -> None:
    """As measured: half as long again. Anything that scans the queue takes a hundred times as long."""
    assert seconds_of_adds(50_000) < 10 * seconds_of_adds(500)


def seconds_of_adds(length: int) -> float:
    """CPU time of 400 adds to a queue of that length; the least of several, as others use the CPU too."""
    return min(_seconds_of_adds(length) for _ in range(5))


def _seconds_of_adds(length: int) -> float:
    queue = QueueCore(Clock())
    for index in range(length):
        queue.add(request(f"queued-{index}"), priority=index % 3)
    for _ in range(200):
        assert queue.pop() is not None
    fresh = [request(f"new-{index}") for index in range(200)]
    known = [request(f"queued-{index}") for index in range(200)]
    gc.collect()
    started = time.process_time()
    for one, other in zip(fresh, known, strict=True):
        queue.add(one)
        queue.add(other, priority=5)
    return time.process_time() - started


def test_reasons_and_links_are_kept_until_handed_out(queue: QueueCore) -> None:
    queue.add(A, reason="Secret updated", link="span-1")
    queue.add(A, reason="Tenant created", link="span-2")
    queue.add(A, reason="Tenant created")
    item = queue.pop()
    assert item is not None
    assert item.reasons == {"Secret updated", "Tenant created"}
    assert item.links == ("span-1", "span-2")
    queue.add(A, reason="third")
    queue.done(A)
    again = queue.pop()
    assert again is not None
    assert again.reasons == {"third"}


@pytest.mark.criterion("LV-5")
def test_lv_5_a_scheduled_reason_belongs_to_the_run_at_its_time(
    queue: QueueCore, clock: Clock
) -> None:
    queue.add(A, after=60, reason="requeued", scheduled=True)
    queue.add(A, reason="Secret updated")
    item = queue.pop()
    assert item is not None
    assert item.reasons == {"Secret updated"}
    queue.add(A, after=60, reason="requeued", scheduled=True)
    queue.done(A)
    clock.advance(60)
    again = queue.pop()
    assert again is not None
    assert again.reasons == {"requeued"}
    queue.done(A)
    queue.add(A, reason="Secret updated")
    last = queue.pop()
    assert last is not None
    assert last.reasons == {"Secret updated"}


def test_reasons_are_bounded(queue: QueueCore) -> None:
    for index in range(10 * MAX_REASONS):
        queue.add(A, reason=f"reason {index}", link=index)
    item = queue.pop()
    assert item is not None
    assert len(item.reasons) == len(item.links) == MAX_REASONS


class TestAgeing:
    """Nothing starves, and a backlog never holds up what is fresh."""

    @pytest.mark.criterion("PQ-01")
    def test_low_priority_is_served_though_higher_keeps_coming(self, clock: Clock) -> None:
        queue = QueueCore(clock, ageing=Ageing(patience=30, share=4))
        queue.add(request("low"), priority=-100)
        served = []
        for index in range(60):
            queue.add(request(f"high-{index}"))
            served += take_one(queue)
            clock.advance(1)
            if "low" in served:
                break
        assert "low" in served
        assert len(served) <= 35

    def test_within_patience_priority_is_strict(self, clock: Clock) -> None:
        queue = QueueCore(clock, ageing=Ageing(patience=30))
        queue.add(request("low"), priority=-1)
        clock.advance(29)
        queue.add(request("high"))
        assert take(queue) == ["high", "low"]

    def test_an_aged_backlog_takes_only_its_share(self, clock: Clock) -> None:
        queue = QueueCore(clock, ageing=Ageing(patience=30, share=4))
        for index in range(1000):
            queue.add(request(f"old-{index}"), priority=-100)
        clock.advance(3600)
        for index in range(30):
            queue.add(request(f"fresh-{index}"))
        served = [name for _ in range(40) for name in take_one(queue)]
        assert served[0] == "old-0"
        assert sum(name.startswith("fresh") for name in served) == 30

    def test_raising_keeps_the_time_already_waited(self, clock: Clock) -> None:
        queue = QueueCore(clock, ageing=Ageing(patience=30, share=4))
        queue.add(A, priority=-100)
        clock.advance(31)
        queue.add(A, priority=-50)
        queue.add(B)
        assert take(queue) == ["a", "b"]


def take_one(queue: QueueCore) -> list[str]:
    item = queue.pop()
    if item is None:
        return []
    queue.done(item.request)
    return [item.request.name]


def test_a_requeue_overtaken_by_events_leaves_nothing_behind(
    queue: QueueCore, clock: Clock
) -> None:
    """A key that waits for hours and is woken each second must not grow the heap."""
    for _ in range(10_000):
        queue.add(A, after=36_000)
        queue.add(A)
        take(queue)
        clock.advance(1)
    assert len(queue._waiting) < 200
    assert sum(map(len, queue._ready.values())) < 200


@pytest.mark.criterion("WQ-17")
def test_the_observer_sees_exact_durations(clock: Clock) -> None:
    class Recorder:
        def __init__(self) -> None:
            self.seen: list[tuple[str, float]] = []

        def waited(self, seconds: float) -> None:
            self.seen.append(("waited", seconds))

        def worked(self, seconds: float) -> None:
            self.seen.append(("worked", seconds))

    recorder = Recorder()
    queue = QueueCore(clock, observer=recorder)
    queue.add(A)
    clock.advance(2)
    queue.add(A)
    queue.pop()
    clock.advance(3)
    assert list(queue.running_for()) == [3.0]
    queue.add(A)
    queue.add(B, rate_limited=True)
    queue.add(C, after=5)
    clock.advance(1)
    queue.done(A)
    assert recorder.seen == [("waited", 2.0), ("worked", 4.0)]
    queue.pop()
    assert recorder.seen[2] == ("waited", 1.0)
    queue.promote()
    assert queue.stats.adds == 3
    assert queue.stats.retries == 1
    assert queue.stats.depth == {0: 1}
