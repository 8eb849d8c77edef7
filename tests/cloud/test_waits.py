"""How the benchmark judges waiting lines."""

from datetime import UTC, datetime, timedelta

from apis.cloud import TaskCondition, TaskState, TaskStatus
from benchmarks.cloud.waits import Fairness, Wait, fairness, wait_of

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def served(count: int, *, rate: float, places: int) -> list[Wait]:
    """Who comes at once and is started in order, when the places are taken for a second."""
    return [Wait(at(i / rate), at(i / rate + 1 + i / places)) for i in range(count)]


def test_a_line_that_is_served_in_order_is_fair() -> None:
    found = fairness(served(900, rate=60, places=50))
    assert found.queued == 900
    assert found.longest > 15  # there was a queue worth the name
    assert found.longest_to_median < 2
    assert found.overtakers == 0


def test_who_is_passed_by_is_seen_by_both_measures() -> None:
    line = served(300, rate=60, places=50)
    line[100] = Wait(line[100].since, line[299].until)
    found = fairness(line)
    assert found.longest_to_median > 2
    assert found.overtakers == 198


def test_a_line_served_from_its_end_is_not_fair() -> None:
    line = served(900, rate=300, places=50)
    turned = [Wait(a.since, b.until) for a, b in zip(line, reversed(line), strict=True)]
    assert fairness(turned).overtakers == 899


def test_waits_shorter_than_a_run_are_waits_for_the_first_place() -> None:
    line = [Wait(at(0), at(0.1)), Wait(at(0), at(0.1)), Wait(at(0), at(0.9))]
    assert fairness(line).longest_to_median == 1


def test_nobody_waited() -> None:
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
    assert wait_of(TaskStatus(task_conditions=steps)) == Wait(at(2), at(7))
    at_once = [step(TaskState.CREATING, 2), step(TaskState.PENDING, 2)]
    assert wait_of(TaskStatus(task_conditions=at_once)) is None
