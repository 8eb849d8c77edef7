"""Which requests of this process's controllers failed last, for reports of a test that failed."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final
from weakref import WeakSet

MOST: Final = 100
"""Requests of one controller whose errors are kept."""


class LastErrors:
    """Of each request of one controller the error of its last reconcile, until it succeeds."""

    def __init__(self, controller: str) -> None:
        self.controller = controller
        self._errors: dict[Hashable, str] = {}
        _ALL.add(self)

    def record(self, request: Hashable, error: str) -> None:
        """Keep the error of a request; the oldest of more than MOST goes."""
        self._errors.pop(request, None)
        self._errors[request] = error
        if len(self._errors) > MOST:
            del self._errors[next(iter(self._errors))]

    def forget(self, request: Hashable) -> None:
        """Drop the error of a request that succeeded."""
        if self._errors:  # seldom: no hash of the request where nothing fails
            self._errors.pop(request, None)

    def clear(self) -> None:
        """Drop all: the controller has ended."""
        self._errors.clear()

    def newest_first(self) -> Iterator[tuple[Hashable, str]]:
        """Yield requests with their errors."""
        return reversed(list(self._errors.items()))


_ALL: WeakSet[LastErrors] = WeakSet()


def last_errors() -> list[tuple[str, Hashable, str]]:
    """Return controller, request and error of each request that failed last."""
    found = sorted(_ALL, key=lambda each: each.controller)
    return [(each.controller, *item) for each in found for item in each.newest_first()]
