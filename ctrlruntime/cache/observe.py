"""Where informers report. The manager's metrics implement it; gauges are read from ``Cache.stats()``."""

from dataclasses import dataclass
from typing import Protocol

from ctrlruntime.api.kinds import GroupVersionKind


class InformerObserver(Protocol):
    """Hooks behind the counters and ``sync_seconds`` of ``ctrlruntime_informer_*``."""

    def relisted(self, gvk: GroupVersionKind) -> None:
        """Count a list that was read again after the first."""

    def watch_restarted(self, gvk: GroupVersionKind) -> None:
        """Count a watch that ended and will be taken up again."""

    def synced(self, gvk: GroupVersionKind, seconds: float) -> None:
        """Record that the first list has gone through store and handlers."""

    def handler_failed(self, gvk: GroupVersionKind) -> None:
        """Count a handler that raised; the event is lost to it alone."""

    def index_failed(self, gvk: GroupVersionKind) -> None:
        """Count an index function that raised; the object has no value in that index."""

    def transform_failed(self, gvk: GroupVersionKind) -> None:
        """Count a transform that raised; the object's state was left out."""

    def unreadable(self, gvk: GroupVersionKind) -> None:
        """Count a state of an object that cannot be read."""

    def restarted(self, gvk: GroupVersionKind) -> None:
        """Count an unexpected error that ended the informer's list and watch; both start again."""


class NoInformerObserver:
    """Drops everything."""

    def relisted(self, gvk: GroupVersionKind) -> None:
        return

    def watch_restarted(self, gvk: GroupVersionKind) -> None:
        return

    def synced(self, gvk: GroupVersionKind, seconds: float) -> None:
        return

    def handler_failed(self, gvk: GroupVersionKind) -> None:
        return

    def index_failed(self, gvk: GroupVersionKind) -> None:
        return

    def transform_failed(self, gvk: GroupVersionKind) -> None:
        return

    def unreadable(self, gvk: GroupVersionKind) -> None:
        return

    def restarted(self, gvk: GroupVersionKind) -> None:
        return


@dataclass(frozen=True, slots=True)
class InformerStats:
    """``ctrlruntime_informer_{objects,bytes,last_event_age_seconds}`` of one informer."""

    gvk: GroupVersionKind
    objects: int
    bytes: int
    last_event_age: float
    synced: bool
    lists: int
    """How often a list was read to its end."""
