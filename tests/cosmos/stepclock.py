"""A clock that a test steps. I/O stays on real time."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from ctrlruntime.clock import utc_now

BEGIN = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)


class StepClock:
    """See `internal.cosmos.clock.Clock`."""

    def __init__(self, begin: datetime = BEGIN) -> None:
        self._now = begin
        self._jumped: list[Callable[[], None]] = []

    def now(self) -> datetime:
        """The moment, in UTC."""
        return self._now

    def subscribe(self, jumped: Callable[[], None]) -> None:
        """Be told after each step."""
        self._jumped.append(jumped)

    def step(self, **length: float) -> None:
        """Let time pass at once: `step(minutes=1)`."""
        self._now += timedelta(**length)
        for tell in list(self._jumped):
            tell()


class RunningClock:
    """The machine's time, and ahead of it by what a test lets pass at once: for what compares answers by when they came."""

    def __init__(self) -> None:
        self._ahead = timedelta()

    def now(self) -> datetime:
        """Return the moment, in UTC."""
        return utc_now() + self._ahead

    def step(self, **length: float) -> None:
        """Let time pass at once, and go on from there."""
        self._ahead += timedelta(**length)
