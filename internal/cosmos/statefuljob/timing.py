"""When the next Job starts. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from apis.cosmos import StatefulJobSpec, StatefulJobStatus
from ctrlruntime.schedule import SHORTEST, BadSchedule, parse

INTERVAL: Final = timedelta(hours=24)
"""Without an interval and a schedule."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The schedule at one moment."""

    due: datetime | None
    """The time that a Job is scheduled for; of many that were missed the last."""
    next: datetime | None
    """The first time still to come, or the present one."""


def timing(spec: StatefulJobSpec, status: StatefulJobStatus, now: datetime) -> Timing:
    """Return the schedule now. Raises BadSchedule."""
    start = status.created_at or now
    last = status.job_history[0] if status.job_history else None
    if spec.schedule is not None:
        schedule = parse(spec.schedule, spec.time_zone)
        after = start if last is None else last.scheduled_at
        due = schedule.latest(after, now, start)
        return Timing(due, due or schedule.next(after, start))
    interval = INTERVAL if spec.interval is None else spec.interval
    if interval < SHORTEST:
        raise BadSchedule("spec.interval: it is one minute or longer")
    moment = start if last is None else last.started_at + interval
    return Timing(moment if moment <= now else None, moment)
