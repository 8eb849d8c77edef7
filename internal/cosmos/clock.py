"""The time that schedules go by."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Returns the time. One that jumps notifies, since waits count real seconds."""

    def now(self) -> datetime:
        """Return the moment, in UTC."""

    def subscribe(self, jumped: Callable[[], None]) -> None:
        """Call back after each jump."""


class SystemClock:
    """The machine's own."""

    def now(self) -> datetime:
        """Return the moment, in UTC."""
        return datetime.now(UTC)

    def subscribe(self, jumped: Callable[[], None]) -> None:
        """Do nothing: this clock does not jump."""
