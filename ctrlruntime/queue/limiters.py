"""How long a failing item waits before it is tried again.

All limiters are pure: those that depend on time take a clock (seconds, monotonic). They mirror
client-go's ``util/workqueue`` limiters.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Protocol

from ctrlruntime.backoff import exponential


class Limiter(Protocol):
    """Decides the delay of the next retry of an item, in seconds."""

    def when(self, request: Hashable) -> float:
        """Count one failure of ``request`` and return the delay before its next run."""
        ...

    def forget(self, request: Hashable) -> None:
        """Clear what is remembered of ``request``."""
        ...

    def retries(self, request: Hashable) -> int:
        """Failures counted since the last ``forget``."""
        ...


class ItemExponential:
    """``base * 2**failures`` per item, never above ``cap``."""

    def __init__(self, base: float = 0.005, cap: float = 1000.0) -> None:
        self._base = base
        self._cap = cap
        self._failures: dict[Hashable, int] = {}

    def when(self, request: Hashable) -> float:
        failures = self._failures.get(request, 0)
        self._failures[request] = failures + 1
        return exponential(self._base, self._cap, failures)

    def forget(self, request: Hashable) -> None:
        if self._failures:  # seldom: no hash of the request where nothing fails
            self._failures.pop(request, None)

    def retries(self, request: Hashable) -> int:
        return self._failures.get(request, 0) if self._failures else 0


class Bucket:
    """One token bucket shared by all items: ``qps`` on average, ``burst`` at once.

    The delay is that of a reservation, so a caller who waits it out never exceeds the rate.
    """

    def __init__(self, qps: float, burst: int, clock: Callable[[], float]) -> None:
        self._qps = qps
        self._burst = float(burst)
        self._clock = clock
        self._tokens = float(burst)
        self._updated = clock()

    def when(self, request: Hashable) -> float:
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._updated) * self._qps)
        self._updated = now
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._qps)

    def take(self) -> bool:
        """Take a token if one is there now. Nothing is reserved otherwise."""
        if self.when(None) > 0:
            self._tokens += 1.0
            return False
        return True

    def forget(self, request: Hashable) -> None:
        """Nothing is kept per item."""

    def retries(self, request: Hashable) -> int:
        return 0


class FastSlow:
    """``fast`` for the first ``attempts`` failures of an item, ``slow`` afterwards."""

    def __init__(self, fast: float, slow: float, attempts: int) -> None:
        self._fast = fast
        self._slow = slow
        self._attempts = attempts
        self._failures: dict[Hashable, int] = {}

    def when(self, request: Hashable) -> float:
        failures = self._failures[request] = self._failures.get(request, 0) + 1
        return self._fast if failures <= self._attempts else self._slow

    def forget(self, request: Hashable) -> None:
        self._failures.pop(request, None)

    def retries(self, request: Hashable) -> int:
        return self._failures.get(request, 0)


class MaxOf:
    """The longest delay any of ``limiters`` returns."""

    def __init__(self, *limiters: Limiter) -> None:
        if not limiters:
            raise ValueError("MaxOf needs at least one limiter")
        self._limiters = limiters

    def when(self, request: Hashable) -> float:
        return max([limiter.when(request) for limiter in self._limiters])

    def forget(self, request: Hashable) -> None:
        for limiter in self._limiters:
            limiter.forget(request)

    def retries(self, request: Hashable) -> int:
        return max(limiter.retries(request) for limiter in self._limiters)


class WithMaxWait:
    """Another limiter, its delay bounded by ``max_wait``."""

    def __init__(self, limiter: Limiter, max_wait: float) -> None:
        self._limiter = limiter
        self._max_wait = max_wait

    def when(self, request: Hashable) -> float:
        return min(self._limiter.when(request), self._max_wait)

    def forget(self, request: Hashable) -> None:
        self._limiter.forget(request)

    def retries(self, request: Hashable) -> int:
        return self._limiter.retries(request)
