"""Which of our snapshots are to go. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from apis.cosmos import ScheduledVolumeSnapshotSpec, ScheduledVolumeSnapshotStatus

NEVER: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Kept:
    """An own VolumeSnapshot that is not being deleted."""

    name: str
    """Its name."""
    ready: bool
    """Whether volumes can be made from it."""
    failed: bool
    """Whether the driver reports an error."""
    made_at: datetime | None
    """When the object was made."""
    taken_at: datetime | None
    """The moment that it shows."""


def surplus(
    spec: ScheduledVolumeSnapshotSpec,
    status: ScheduledVolumeSnapshotStatus,
    snapshots: Iterable[Kept],
    now: datetime,
) -> tuple[str, ...]:
    """Of the complete ones all but the newest `limit`, and those that failed. Only between two snapshots."""
    last = status.last_snapshot
    given_up = last.name if last is not None and last.failed else ""
    oldest = now - timedelta(seconds=spec.deadlines.snapshot_creation)
    complete: list[Kept] = []
    gone: list[str] = []
    for each in snapshots:
        if each.name == given_up:
            gone.append(each.name)
        elif each.ready:
            complete.append(each)
        elif each.made_at is not None and each.made_at < oldest:
            gone.append(each.name)
    complete.sort(key=lambda each: (each.taken_at or each.made_at or NEVER, each.name))
    gone += [each.name for each in complete[: -spec.limit]]
    return tuple(sorted(gone))
