"""Which changes wake a set of nodes. Pure: predicates for the watches of its controller."""

from typing import Any

from ctrlruntime.cache import Entry, Event, UpdateEvent
from internal.cosmos.workload.pod_trouble import pod_trouble

_OF_OTHERS = ("scheduledSnapshotStatus", "selfHealing", "height")
"""Fields of the status that others write, and that decide on Pods and claims."""


def node_set_changed(event: Event) -> bool:
    """Whether more than our own part of the status changed."""
    return not isinstance(event, UpdateEvent) or _set(event.old) != _set(event.new)


def object_changed(event: Event) -> bool:
    """Whether anything but the version changed, as it does where a write changes nothing."""
    return not isinstance(event, UpdateEvent) or _whole(event.old) != _whole(event.new)


def more_than_heartbeats(event: Event) -> bool:
    """Whether a Pod came, went, changed owner, ended, became (un)ready or shows another trouble; not how often it restarted."""
    return not isinstance(event, UpdateEvent) or _pod(event.old) != _pod(event.new)


def _common(entry: Entry) -> tuple[object, ...]:
    return (
        entry.uid,
        entry.labels,
        entry.annotations,
        entry.deletion_timestamp,
        entry.owners,
        entry.owned,
    )


def _set(entry: Entry) -> tuple[object, ...]:
    status: dict[str, Any] = entry.field("status") or {}
    return (
        *_common(entry),
        entry.finalizers,
        entry.generation,
        *(status.get(name) for name in _OF_OTHERS),
    )


def _whole(entry: Entry) -> tuple[object, ...]:
    return (*_common(entry), entry.fields)


def _pod(entry: Entry) -> tuple[object, ...]:
    status: dict[str, Any] = entry.field("status") or {}
    ready = [
        item.get("status") for item in status.get("conditions") or () if item["type"] == "Ready"
    ]
    return (
        *_common(entry),
        entry.fields.get("spec"),
        status.get("phase"),
        ready,
        pod_trouble(entry),
    )
