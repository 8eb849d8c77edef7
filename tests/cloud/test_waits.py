"""How the benchmark judges waiting lines."""

from datetime import UTC, datetime, timedelta

from apis.cloud import TaskCondition, TaskState, TaskStatus
from benchmarks.cloud.waits import Fairness, Span, fairness, most_at_once, spans_of, wait_of

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def served(count: int, *, rate: float, places: int) -> list[Span]:
    """Who comes at once and is started in order, when the places are taken for a second."""
    return [Span(at(i / rate), at(i / rate + 1 + i / places)) for i in range(count)]


def test_a_line_that_is_served_in_order_is_fair() -> None:
    found = fairness(served(900, rate=60, places=50))
    assert found.queued == 900
    assert found.longest > 15  # there was a queue worth the name
    assert found.longest_to_median < 2
    assert found.overtakers == 0


def test_who_is_passed_by_is_seen_by_both_measures() -> None:
    line = served(300, rate=60, places=50)
    line[100] = Span(line[100].since, line[299].until)
    found = fairness(line)
    assert found.longest_to_median > 2
    assert found.overtakers == 198


def test_a_line_served_from_its_end_is_not_fair() -> None:
    line = served(900, rate=300, places=50)
    turned = [Span(a.since, b.until) for a, b in zip(line, reversed(line), strict=True)]
    assert fairness(turned).overtakers == 899


def test_waits_shorter_than_a_run_are_waits_for_the_first_place() -> None:
    line = [Span(at(0), at(0.1)), Span(at(0), at(0.1)), Span(at(0), at(0.9))]
    assert fairness(line).longest_to_median == 1


def test_without_a_waiter() -> None:
    assert fairness([]) == Fairness()
    assert wait_of(TaskStatus()) is None


def test_the_wait_is_that_for_the_first_run() -> None:
    def step(state: TaskState, seconds: float) -> TaskCondition:
        return TaskCondition(type=state, last_transition_time=at(seconds))

    steps = [
        step(TaskState.CREATING, 90),
        step(TaskState.PENDING, 60),
        step(TaskState.DONE, 10),
        step(TaskState.CREATING, 7),
        step(TaskState.PENDING, 2),
    ]
    assert wait_of(TaskStatus(task_conditions=steps)) == Span(at(2), at(7))
    at_once = [step(TaskState.CREATING, 2), step(TaskState.PENDING, 2)]
    assert wait_of(TaskStatus(task_conditions=at_once)) is None


def test_places_are_held_from_intent_to_recorded_end() -> None:
    steps = [
        (TaskState.CREATING, 60),  # under way: its end is not known
        (TaskState.DONE, 12),
        (TaskState.STARTED, 11),
        (TaskState.CREATING, 10),
        (TaskState.DONE, 5),
        (TaskState.CREATING, 2),
        (TaskState.PENDING, 0),
    ]
    conditions = [TaskCondition(type=s, last_transition_time=at(t)) for s, t in steps]
    assert spans_of(TaskStatus(task_conditions=conditions)) == [
        Span(at(2), at(5)),
        Span(at(10), at(12)),
    ]


def test_how_many_there_were_at_once() -> None:
    spans = [Span(at(0), at(2)), Span(at(1), at(3)), Span(at(2), at(4)), Span(at(3), at(9))]
    assert most_at_once(spans) == 2
    assert most_at_once([]) == 0
