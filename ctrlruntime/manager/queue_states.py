"""The work queues of a manager at one moment, for people."""

from __future__ import annotations

from dataclasses import dataclass

from ctrlruntime.manager.controller_series import ControllerStore, total_of
from ctrlruntime.queue import QueueCore

__all__ = ["QueueState", "queue_states"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """The work queue of one controller in one cluster."""

    name: str
    cluster: str
    """Empty for the manager's own; "other" for clusters without a label of their own."""
    depth: int
    """Items that are ready."""
    waiting: int
    """Items that are scheduled for later."""
    processing: int
    workers: int
    """Most items processed at once."""
    longest: float
    """Seconds that the longest item in processing has been there."""
    adds: int
    retries: int
    errors: int


def queue_states(store: ControllerStore) -> list[QueueState]:
    """Return the state of every queue, by name and cluster. Call it on the loop."""
    return [_state(store, *key) for key in sorted(store.queues)]


def _state(store: ControllerStore, name: str, cluster: str) -> QueueState:
    queues, series = store.queues[name, cluster], total_of(store.series[name, cluster])
    running = [each for each in queues if isinstance(each, QueueCore)]
    return QueueState(
        name=name,
        cluster=cluster,
        depth=sum(len(each) for each in running),
        waiting=sum(each.waiting for each in running),
        processing=sum(each.processing for each in running),
        workers=series.workers,
        longest=max((t for each in running for t in each.running_for()), default=0.0),
        adds=sum(each.stats.adds for each in queues),
        retries=sum(each.stats.retries for each in queues),
        errors=series.errors,
    )
