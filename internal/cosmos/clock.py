"""The time that schedules go by."""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from ctrlruntime.clock import utc_now


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
        return utc_now()

    def subscribe(self, jumped: Callable[[], None]) -> None:
        """Do nothing: this clock does not jump."""
