"""How long to wait for a subresource's own word before the instance's status is written without it.

A subresource that was just given new inputs says something within moments, and one write then tells
both. If it stays silent, something is wrong with it, and what is known has to be told.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

PERIOD = 5.0
"""Seconds."""


@dataclass(slots=True)
class Quiet:
    """Remembers since when an instance waits. In memory alone: at worst a wait begins anew."""

    monotonic: Callable[[], float]
    period: float = PERIOD
    _since: dict[Hashable, float] = field(default_factory=dict)

    def left(self, key: Hashable, *, silent: bool) -> float:
        """Seconds to wait still; 0 once somebody spoke, or the time is over."""
        if not silent:
            self._since.pop(key, None)
            return 0.0
        now = self.monotonic()
        return max(0.0, self._since.setdefault(key, now) + self.period - now)

    def forget(self, key: Hashable) -> None:
        """The instance is gone."""
        self._since.pop(key, None)
