"""Which steps of an upgrade are carried out again although they are recorded as done. Pure."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from ctrlruntime.api.scalars import parse_time

HEALTH_CHECK: Final = "health-check"
BACKUP: Final = "backup"
MIGRATE: Final = "migrate"
ROLL: Final = "roll"
PRECAUTIONS: Final = (HEALTH_CHECK, BACKUP)
"""Steps that say how things were before anything was changed."""


def steps_to_repeat(
    done: Mapping[str, str], *, migrate_failed: bool, now: datetime, max_age: timedelta
) -> tuple[str, ...]:
    """Return the precautions that no longer hold. `done`: when each step was recorded, by step.

    After a migration that failed all of them are repeated, since it may have changed something;
    otherwise those that are older than `max_age`. Once the data are migrated, or the workload is
    rolled out, none is: a backup of what was changed would take the place of the one from before.
    """
    if MIGRATE in done or ROLL in done:
        return ()
    known = [step for step in PRECAUTIONS if step in done]
    if migrate_failed:
        return tuple(known)
    return tuple(step for step in known if _is_older(done[step], now, max_age))


def _is_older(recorded: str, now: datetime, max_age: timedelta) -> bool:
    try:
        return now - parse_time(recorded) > max_age
    except ValueError:
        return True
