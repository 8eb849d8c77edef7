"""The slots of periodic tasks: when the same inputs are carried out again."""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime

from ctrlruntime.api import format_time, parse_time


@dataclass(frozen=True, slots=True)
class Slot:
    """One period of one object."""

    name: str
    """Its start as time; later slots sort after earlier ones."""
    end: datetime
    """When the next one begins."""


def slot_at(now: datetime, period: float, uid: str) -> Slot:
    """The slot of an object at a time. `period` in seconds, at least one.

    Slots of different objects begin at different times, spread over the period by UID, so that a
    fleet does not run all at once.
    """
    seconds = max(1, int(period))
    offset = int.from_bytes(hashlib.sha256(uid.encode()).digest()[:8], "big") % seconds
    since = int(now.timestamp()) - offset
    start = since - since % seconds + offset
    return Slot(
        format_time(datetime.fromtimestamp(start, UTC)),
        datetime.fromtimestamp(start + seconds, UTC),
    )


def covers(done: str, slot: Slot) -> bool:
    """Whether what was done in the slot named `done` counts for `slot`. Nonsense counts for none."""
    try:
        return parse_time(done) >= parse_time(slot.name) and parse_time(done) < slot.end
    except ValueError:
        return False
