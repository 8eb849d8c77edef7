"""A watch that lags, so that only what our own requests say can explain what is read."""

from __future__ import annotations

from collections.abc import Callable

from ctrlruntime.cache import Entry
from ctrlruntime.cache.informer import Informer


class LaggingWatch:
    """Holds back everything that an informer's watch says.

    Bookmarks with the events: one says that every event before it was observed, and would be a lie among events that
    were held back.
    """

    def __init__(self, informer: Informer) -> None:
        self._informer = informer
        self._overlay = informer._overlay
        self._observe, self._bookmark = self._overlay.observe, self._overlay.bookmark
        self._held: list[Callable[[], None]] = []
        self._overlay.observe = self._hold_event  # type: ignore[method-assign]
        self._overlay.bookmark = self._hold_bookmark  # type: ignore[method-assign]

    def _hold_event(self, scope: str, entry: Entry, *, deleted: bool = False) -> None:
        self._held.append(lambda: self._deliver(scope, entry, deleted))

    def _hold_bookmark(self, scope: str, resource_version: str) -> None:
        self._held.append(lambda: self._bookmark(scope, resource_version))

    def _deliver(self, scope: str, entry: Entry, deleted: bool) -> None:
        event = self._observe(scope, entry, deleted=deleted)
        if event is not None:
            self._informer._handlers.emit(event)

    def release(self) -> None:
        """Let through what was held back, in its order, and what comes from now on."""
        self._overlay.observe = self._observe  # type: ignore[method-assign]
        self._overlay.bookmark = self._bookmark  # type: ignore[method-assign]
        held, self._held = self._held, []
        for deliver in held:
            deliver()
