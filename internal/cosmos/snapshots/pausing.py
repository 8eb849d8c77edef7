"""One node down at a time: what a ScheduledVolumeSnapshot writes into the status of a set of nodes. Pure.

These run within a write that the server refuses if the status has changed since, so that of two who ask
at once, in whatever process, one is refused.
"""

from collections.abc import Callable, Mapping
from datetime import datetime

from apis.cosmos import CosmosFullNodeStatus, ScheduledSnapshotStatus
from internal.cosmos.snapshots.naming import schedule_of

Change = Callable[[CosmosFullNodeStatus], None]


class AnotherIsDown(Exception):
    """A node of the set is down for another owner, which the message names."""


def pause(key: str, namespace: str, pod: str, now: datetime) -> Change:
    """Ask for a node to be taken down. The change raises AnotherIsDown."""

    def change(status: CosmosFullNodeStatus) -> None:
        others = others_down(status.scheduled_snapshot_status, key, namespace)
        if others:
            raise AnotherIsDown(", ".join(others))
        known = status.scheduled_snapshot_status.get(key)
        if known is None or known.pod_candidate != pod:
            status.scheduled_snapshot_status[key] = ScheduledSnapshotStatus(
                pod_candidate=pod, since=now
            )

    return change


def restore(key: str) -> Change:
    """Let the node come back."""

    def change(status: CosmosFullNodeStatus) -> None:
        status.scheduled_snapshot_status.pop(key, None)

    return change


def others_down(
    paused: Mapping[str, ScheduledSnapshotStatus], key: str, namespace: str
) -> list[str]:
    """Whom nodes are down for besides the key's own, in words."""
    return [
        f"{schedule_of(other, namespace) or other} ({each.pod_candidate})"
        for other, each in sorted(paused.items())
        if other != key
    ]
