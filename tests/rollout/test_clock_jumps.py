"""A deadline runs for as long as was observed: what a clock jumps over is no time that a version took."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest

from ctrlruntime.rollout import (
    Change,
    ChangeKind,
    Decision,
    Health,
    Member,
    ObservedClock,
    Strategy,
    decide,
)
from tests.rollout.fleet_simulation import SECOND, START

pytestmark = pytest.mark.criterion("C-20")

HOUR = timedelta(hours=1)
DEADLINE = 10 * SECOND


@dataclass
class Clocks:
    """A wall clock that jumps beside one that only passes, and one member that is changing."""

    wall: datetime = START
    steady: float = 0.0
    observed: ObservedClock = field(init=False)

    def __post_init__(self) -> None:
        self.observed = ObservedClock(lambda: self.wall, lambda: self.steady)
        self.strategy = Strategy(halt_on_failures=1, progress_deadline=DEADLINE, soak=HOUR)
        self.member = Member(name="m", version="v1", health=Health.READY)

    def passes(self, seconds: float, *, jump: timedelta = timedelta()) -> None:
        self.wall += timedelta(seconds=seconds) + jump
        self.steady += seconds

    def change(self) -> None:
        at = self.wall.replace(microsecond=0)  # as a status has it
        change = Change(ChangeKind.ROLLOUT, at, "v1")
        self.member = replace(self.member, version="v2", health=Health.PROGRESSING, change=change)

    def decide(self) -> Decision:
        strategy = replace(self.strategy, jumps=self.observed.jumps())
        return decide("v2", [self.member], strategy, self.wall)


@pytest.mark.parametrize("jump", [DEADLINE + SECOND, 2 * HOUR, 9000 * HOUR], ids=str)
@pytest.mark.parametrize("late", [0, 3], ids=["change at once", "change after the pass"])
def test_c_20_a_jump_does_not_count_against_a_version(jump: timedelta, late: float) -> None:
    clocks = Clocks()
    clocks.passes(100)
    clocks.decide()
    clocks.passes(late)
    clocks.change()
    clocks.passes(4, jump=jump)
    assert not clocks.decide().halted
    clocks.passes(4)
    found = clocks.decide()
    assert (found.halted, found.changing) == ("", 1)
    clocks.passes(3)
    assert clocks.decide().failed == ("m",), "the deadline that was observed is over"


def test_c_20_a_jump_back_ends_and_a_failure_stays_one() -> None:
    clocks = Clocks()
    clocks.change()
    clocks.passes(11)
    assert clocks.decide().failed == ("m",)
    for jump in (HOUR, -HOUR):
        clocks.passes(0, jump=jump)
        assert clocks.decide().failed == ("m",)


@pytest.mark.parametrize("resumed", [False, True], ids=["jumps again", "resumed"])
def test_c_20_a_jump_back_before_a_change_takes_nothing_of_its_deadline(resumed: bool) -> None:
    clocks = Clocks()
    for jump in (HOUR, -HOUR):
        clocks.passes(1, jump=jump)
        clocks.decide()
    clocks.passes(100)
    clocks.change()
    if resumed:
        clocks.passes(100)
        clocks.member = replace(clocks.member, resumed_at=clocks.wall)
    clocks.passes(4, jump=timedelta() if resumed else HOUR)
    assert clocks.decide().failed == ()


def test_c_20_a_change_after_the_jump_has_its_own_deadline() -> None:
    clocks = Clocks()
    clocks.passes(1, jump=HOUR)
    clocks.decide()
    clocks.change()
    clocks.passes(11)
    assert clocks.decide().failed == ("m",)


def test_c_20_the_next_look_is_at_the_observed_deadline() -> None:
    clocks = Clocks()
    clocks.change()
    clocks.passes(4, jump=HOUR)
    assert clocks.decide().look_again == START + HOUR + DEADLINE


def test_c_20_a_slewed_clock_does_not_jump() -> None:
    clocks = Clocks()
    for _ in range(100):
        clocks.passes(60, jump=timedelta(seconds=5))
        assert clocks.observed.jumps() == ()
