"""Finds a request that is reconciled again and again: a loop of writes, of one controller or between two."""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from typing import Final

WINDOW: Final = 10.0
"""Seconds in which reconciles of a request are counted."""
MANY: Final = 300
"""Reconciles of one request in that time that no wanted change explains."""
QUIET: Final = 600.0
"""Seconds between two warnings of a controller."""
_COUNTERS: Final = 1024
ADVICE: Final = (
    "One object is reconciled again and again. Either each reconcile writes something that the next one finds changed (a time, a "
    "field that the server or a webhook sets), or another program undoes it: a second manager with the same field manager, which "
    "leader election with one Lease prevents, or another controller of the object, which its managedFields name"
)


class HotRequests:
    """Counts the reconciles of a controller, by a hash of their requests: nothing is kept of an object that is gone.

    Requests that share a counter would have to be reconciled as often together; there are far more counters than that.
    """

    def __init__(self) -> None:
        self._counts = array("Q", bytes(8 * _COUNTERS))
        self._began = float("-inf")
        self._warned_at = float("-inf")

    def is_hot(self, request: Hashable, now: float) -> bool:
        """Count a reconcile; return whether it is time to warn. `now`: seconds of any steady clock."""
        if now - self._began >= WINDOW:
            self._counts = array("Q", bytes(8 * _COUNTERS))
            self._began = now
        place = hash(request) % _COUNTERS
        self._counts[place] += 1
        if self._counts[place] < MANY or now - self._warned_at < QUIET:
            return False
        self._warned_at = now
        return True
