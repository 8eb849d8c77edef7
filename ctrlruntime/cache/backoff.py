"""The reflector's waiting times after failures."""

from collections.abc import Callable
from dataclasses import dataclass


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
