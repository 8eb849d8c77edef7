"""Whether a Pod has failed by its own status: a container cannot start, or keeps ending. Pure.

It takes no answer of what runs in the Pod, so a manager that cannot reach the Pods sees none of them as failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from ctrlruntime.api.scalars import time_or_none
from ctrlruntime.cache.entry import Entry

STUCK: Final = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)
"""Reasons of a waiting container that does not start without a change."""
RESTARTS: Final = 2
"""Restarts of one container from which on it keeps ending."""


def is_stuck(entry: Entry) -> bool:
    """Return whether a container waits for a reason that does not pass by itself."""
    return any(_reason(container, "waiting") in STUCK for container in _containers(entry))


def is_crashing(entry: Entry, now: datetime, span: timedelta) -> bool:
    """Return whether a container has restarted repeatedly and ended within the last `span`.

    So a container that runs for some seconds between its ends is crashing all the time.
    """
    return any(
        container.get("restartCount", 0) >= RESTARTS and _ended(container, now) < span
        for container in _containers(entry)
    )


def is_initialising(entry: Entry) -> bool:
    """Return whether an init container runs, one that fills a disk for example."""
    containers = _status(entry).get("initContainerStatuses") or ()
    return any("running" in (each.get("state") or {}) for each in containers)


def created(entry: Entry, now: datetime) -> datetime:
    """Return when the Pod was created; `now` if that is unknown or later, by another machine's clock."""
    found = time_or_none(entry.creation_timestamp)
    return now if found is None else min(found, now)


def _containers(entry: Entry) -> Iterator[Mapping[str, Any]]:
    status = _status(entry)
    for field in ("initContainerStatuses", "containerStatuses"):
        yield from status.get(field) or ()


def _reason(container: Mapping[str, Any], state: str) -> str:
    found: str = ((container.get("state") or {}).get(state) or {}).get("reason") or ""
    return found


def _ended(container: Mapping[str, Any], now: datetime) -> timedelta:
    """How long ago a container ended last; without a record, the longest time."""
    record = (container.get("lastState") or {}).get("terminated") or {}
    found = time_or_none(record.get("finishedAt"))
    return timedelta.max if found is None else now - found


def _status(entry: Entry) -> Mapping[str, Any]:
    return entry.field("status") or {}
