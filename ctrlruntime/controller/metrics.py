"""What a controller reports about itself. The manager implements it with Prometheus."""

from __future__ import annotations

from typing import Literal, Protocol

from ctrlruntime.queue import Observer

Outcome = Literal["success", "error", "requeue", "requeue_after"]
"""The ``result`` label of ``controller_runtime_reconcile_total``."""


class ControllerMetrics(Observer, Protocol):
    """Counts of one controller, in addition to the durations of its queue."""

    def reconciled(self, outcome: Outcome, seconds: float) -> None: ...

    def failed(self, *, terminal: bool) -> None: ...

    def panicked(self) -> None: ...

    def timed_out(self) -> None: ...

    def active(self, change: int) -> None: ...

    def event_failed(self) -> None:
        """Count an event lost to a handler, map function or predicate that raised."""
        ...

    def event_retried(self) -> None:
        """Count another attempt of a map function that awaits, after one that raised."""
        ...


class NoMetrics:
    """Reports nothing."""

    def waited(self, seconds: float) -> None: ...

    def worked(self, seconds: float) -> None: ...

    def reconciled(self, outcome: Outcome, seconds: float) -> None: ...

    def failed(self, *, terminal: bool) -> None: ...

    def panicked(self) -> None: ...

    def timed_out(self) -> None: ...

    def active(self, change: int) -> None: ...

    def event_failed(self) -> None: ...

    def event_retried(self) -> None: ...
