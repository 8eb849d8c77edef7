"""Names of snapshots, and the key by which a set of nodes records who has a node down. Pure."""

from datetime import UTC, datetime
from typing import Final

from apis.cosmos import GROUP, VERSION
from internal.cosmos.names import LONGEST_NAME, trim_middle

_STAMP: Final = "%Y%m%d%H%M"
_LONGEST: Final = LONGEST_NAME - len("-202601010000")
_TAIL: Final = f".{VERSION}.{GROUP}"


def snapshot_name(schedule: str, scheduled_at: datetime) -> str:
    """Return the VolumeSnapshot that a ScheduledVolumeSnapshot makes for one time: the same for each caller, at any time."""
    stamp = scheduled_at.astimezone(UTC).strftime(_STAMP)
    return f"{trim_middle(schedule, _LONGEST)}-{stamp}"


def pause_key(namespace: str, schedule: str) -> str:
    """Return the key of a ScheduledVolumeSnapshot in `status.scheduledSnapshotStatus` of its set of nodes."""
    return f"{namespace}.{schedule}{_TAIL}"


def schedule_of(key: str, namespace: str) -> str | None:
    """Return the ScheduledVolumeSnapshot that a key is for; None for a key of something else."""
    head = f"{namespace}."
    if not key.startswith(head) or not key.endswith(_TAIL):
        return None
    return key[len(head) : -len(_TAIL)] or None
