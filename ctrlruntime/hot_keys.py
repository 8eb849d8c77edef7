"""Finds what happens to one thing again and again."""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from typing import Final

QUIET: Final = 600.0
"""Seconds between two warnings, of any key or of one."""


class HotKeys:
    """Counts by a hash of keys: nothing is kept of an object that is gone.

    Keys that share a counter would have to be counted as often together; there are far more counters than that.
    """

    def __init__(
        self, *, many: int, window: float, counters: int = 1024, apart: bool = False
    ) -> None:
        """Take a key as hot that is counted `many` times within `window` seconds.

        `counters`: eight bytes each, sixteen where keys are warned of `apart`: each counter has its own quiet time then.
        """
        self._counters = counters
        self._many = many
        self._window = window
        self._counts = array("L", [0]) * self._counters
        self._began = float("-inf")
        self._warned_at = array("d", [float("-inf")]) * (counters if apart else 1)

    def is_hot(self, key: Hashable, now: float) -> bool:
        """Count a key; return whether it is time to warn. `now`: seconds of any steady clock."""
        if now - self._began >= self._window:
            self._counts = array("L", [0]) * self._counters
            self._began = now
        place = hash(key) % self._counters
        self._counts[place] += 1
        quiet = place % len(self._warned_at)
        if self._counts[place] < self._many or now - self._warned_at[quiet] < QUIET:
            return False
        self._warned_at[quiet] = now
        return True

    def take_back(self, key: Hashable) -> None:
        """Count a key once less: what was counted has not happened."""
        place = hash(key) % self._counters
        self._counts[place] -= min(1, self._counts[place])
