"""Which of our snapshots are to go. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from apis.cosmos import ScheduledVolumeSnapshotSpec, ScheduledVolumeSnapshotStatus

NEVER: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Kept:
    """An own VolumeSnapshot of the set of nodes that is not being deleted."""

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

    @property
    def under_way(self) -> bool:
        """Whether it is cut and the driver still stores it. It becomes ready by itself, whatever deadline has passed."""
        return self.taken_at is not None and not self.ready and not self.failed


def surplus(
    spec: ScheduledVolumeSnapshotSpec,
    status: ScheduledVolumeSnapshotStatus,
    snapshots: Iterable[Kept],
    now: datetime,
) -> tuple[str, ...]:
    """Of the complete ones all but the newest `limit`, and those that failed. Only between two snapshots.

    One that is still being stored goes only when `limit` newer ones are complete.
    """
    given_up = _given_up(status)
    oldest = now - timedelta(seconds=spec.deadlines.snapshot_creation)
    complete: list[Kept] = []
    unfinished: list[Kept] = []
    gone: list[str] = []
    for each in snapshots:
        if each.name == given_up:
            gone.append(each.name)
        elif each.ready:
            complete.append(each)
        elif each.under_way:
            unfinished.append(each)
        elif each.made_at is not None and each.made_at < oldest:
            gone.append(each.name)
    complete.sort(key=_age)
    gone += [each.name for each in complete[: -spec.limit]]
    if len(complete) >= spec.limit:
        oldest_kept = _age(complete[-spec.limit])
        gone += [each.name for each in unfinished if _age(each) < oldest_kept]
    return tuple(sorted(gone))


def is_cut(status: Mapping[str, object] | None) -> bool:
    """Whether the status of a VolumeSnapshot shows that the disk may change again: its moment is recorded."""
    return bool((status or {}).get("creationTime"))


def _given_up(status: ScheduledVolumeSnapshotStatus) -> str:
    """Return the name of the last copy if it failed before it was cut: with deletePod its node was running again."""
    last = status.last_snapshot
    return last.name if last is not None and last.failed and not is_cut(last.status) else ""


def _age(each: Kept) -> tuple[datetime, str]:
    return (each.taken_at or each.made_at or NEVER, each.name)
