"""Unexpected errors in a row, and the delay after each."""

from collections.abc import Callable

from ctrlruntime.backoff import Backoff, BackoffOptions


class Restarts:
    """Counts unexpected errors in a row: until one is ``reset_after`` seconds past. Pure but for clock and random."""

    def __init__(
        self,
        options: BackoffOptions,
        *,
        clock: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        self.count = 0
        self._clock = clock
        self._reset_after = options.reset_after
        self._backoff = Backoff(options, clock=clock, random=random)
        self._restarted_at = float("-inf")

    @property
    def in_a_row(self) -> int:
        """How many there were in a row; 0 if the last one is long ago."""
        return self.count if self._recent() else 0

    def record(self) -> float:
        """Count an error. Return the seconds to wait before starting again."""
        self.count = self.in_a_row + 1
        delay = self._backoff.delay()
        self._restarted_at = self._clock() + delay
        return delay

    def _recent(self) -> bool:
        return self._clock() - self._restarted_at <= self._reset_after
