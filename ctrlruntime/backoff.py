"""Delays after failures."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_MAX_EXPONENT: Final = 63


def exponential(base: float, cap: float, failures: int) -> float:
    """Return ``base * 2**failures`` seconds, never above `cap`."""
    if failures > _MAX_EXPONENT:
        return cap
    return min(math.ldexp(base, failures), cap)


@dataclass(frozen=True, slots=True)
class BackoffOptions:
    """client-go's figures, in seconds: a delay is drawn from [d, d + jitter * d)."""

    initial: float = 0.8
    factor: float = 2.0
    cap: float = 30.0
    jitter: float = 1.0
    reset_after: float = 120.0


class Backoff:
    """Delays that double up to a cap and start anew after two minutes without a failure."""

    def __init__(
        self,
        options: BackoffOptions,
        *,
        clock: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        self._options = options
        self._clock = clock
        self._random = random
        self._next = options.initial
        self._last = float("-inf")

    def delay(self) -> float:
        """Seconds to wait now, after one more failure."""
        options = self._options
        now = self._clock()
        if now - self._last > options.reset_after:
            self._next = options.initial
        base = self._next
        self._next = min(base * options.factor, options.cap)
        delay = base + base * options.jitter * self._random()
        # The wait itself is not time without failures.
        self._last = now + delay
        return delay


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
