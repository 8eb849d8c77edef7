"""Since when a Pod does its work, and how long it still has to before the next one may be taken down. Pure.

A binary that ends some seconds after its start answers once, and in sync. So one good answer is not enough: a
node counts as available after `strategy.minReadySeconds` of work without a break. The latest of three moments
counts: the first of the node's good answers in a row, the start of its container, and the moment at which
its Pod became ready. The first is unknown after a start of the manager and counts from its first answer then, which
waits at most once more and never too little. The other two show restarts between two answers.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from ctrlruntime.api.scalars import time_or_none
from ctrlruntime.cache.entry import Entry
from internal.cosmos.cache.observation import Observation
from internal.cosmos.labels import NODE
from internal.cosmos.workload.probe import Health, Probe

Since = Callable[[Entry], Iterable[datetime | None]]
"""The moments since which a Pod works; None where one is unknown."""


def since_of_node(observations: Iterable[Observation]) -> Since:
    """Return the moments of a node's Pod."""
    answers = {each.uid: each.in_sync_since for each in observations}

    def since(entry: Entry) -> Iterable[datetime | None]:
        return answers.get(entry.uid), container_started(entry, NODE), became_ready(entry)

    return since


def since_ready(entry: Entry) -> Iterable[datetime | None]:
    """Return the moments of a Pod that is judged by its condition Ready alone."""
    return (became_ready(entry),)


def became_ready(entry: Entry) -> datetime | None:
    """`lastTransitionTime` of the condition Ready; None unless that is True."""
    for condition in _status(entry).get("conditions") or ():
        if condition.get("type") == "Ready" and condition.get("status") == "True":
            return time_or_none(condition.get("lastTransitionTime"))
    return None


def container_started(entry: Entry, name: str) -> datetime | None:
    """When a container's process began to run; None if it does not run."""
    for container in _status(entry).get("containerStatuses") or ():
        if container.get("name") == name:
            return time_or_none(
                ((container.get("state") or {}).get("running") or {}).get("startedAt")
            )
    return None


def remaining(since: Iterable[datetime | None], seconds: float, now: datetime) -> float:
    """Seconds until the latest of the moments is `seconds` ago; 0 if it is, or if none is known.

    A moment after `now` is ignored: it comes from another machine's clock.
    """
    known = [moment for moment in since if moment is not None and moment <= now]
    return max(seconds - (now - max(known)).total_seconds(), 0.0) if known else 0.0


def with_min_ready(probe: Probe, since: Since, seconds: float, now: datetime) -> Probe:
    """Return the probe, by which a Pod is available only after `seconds` of work without a break.

    Until then it counts as down, and is left alone.
    """

    def delayed(entry: Entry) -> Health:
        health = probe(entry)
        left = remaining(since(entry), seconds, now) if health.available else 0.0
        if not left:
            return health
        detail = f"available for less than {seconds:g} s (strategy.minReadySeconds)"
        return replace(health, available=False, known=False, detail=detail)

    return delayed


def next_available(
    pods: Iterable[Entry], probe: Probe, since: Since, seconds: float, now: datetime
) -> float:
    """Seconds until the next of the Pods becomes available without further news; 0 if none does."""
    waits = [remaining(since(pod), seconds, now) for pod in pods if probe(pod).available]
    return min((wait for wait in waits if wait), default=0.0)


def _status(entry: Entry) -> dict[str, Any]:
    return entry.field("status") or {}
