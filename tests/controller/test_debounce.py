"""A state in between is held back for a while, by key."""

from ctrlruntime.controller.debounce import Debounce


class FakeClock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_pending_state_waits_for_the_period_and_no_longer() -> None:
    clock = FakeClock()
    debounce = Debounce(clock, 5.0)
    assert debounce.remaining("a", pending=True) == 5.0
    clock.now += 3.0
    assert debounce.remaining("a", pending=True) == 2.0
    assert debounce.remaining("b", pending=True) == 5.0
    clock.now += 3.0
    assert debounce.remaining("a", pending=True) == 0.0


def test_a_state_that_is_not_pending_is_written_at_once_and_the_next_waits_anew() -> None:
    clock = FakeClock()
    debounce = Debounce(clock, 5.0)
    debounce.remaining("a", pending=True)
    clock.now += 3.0
    assert debounce.remaining("a", pending=False) == 0.0
    assert debounce.remaining("a", pending=True) == 5.0
    clock.now += 3.0
    debounce.forget("a")
    assert debounce.remaining("a", pending=True) == 5.0
