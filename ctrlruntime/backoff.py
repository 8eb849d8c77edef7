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
