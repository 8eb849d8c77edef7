"""Finds a request that is reconciled again and again: a loop of writes, of one controller or between two."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

WINDOW: Final = 10.0
"""Seconds in which reconciles of a request are counted."""
MANY: Final = 300
"""Reconciles of one request in that time that no wanted change explains."""
QUIET: Final = 600.0
"""Seconds between two warnings of a controller."""
ADVICE: Final = (
    "One object is reconciled again and again. Either each reconcile writes something that the next one finds changed (a time, a "
    "field that the server or a webhook sets), or another program undoes it: a second manager with the same field manager, which "
    "leader election with one Lease prevents, or another controller of the object, which its managedFields name"
)


class HotRequests:
    """Counts the reconciles of a controller. Holds the requests of one window at most."""

    def __init__(self) -> None:
        self._counts: dict[Hashable, int] = {}
        self._began = float("-inf")
        self._warned_at = float("-inf")

    def is_hot(self, request: Hashable, now: float) -> bool:
        """Count a reconcile; return whether it is time to warn. `now`: seconds of any steady clock."""
        if now - self._began >= WINDOW:
            self._counts.clear()
            self._began = now
        count = self._counts[request] = self._counts.get(request, 0) + 1
        if count < MANY or now - self._warned_at < QUIET:
            return False
        self._warned_at = now
        return True
