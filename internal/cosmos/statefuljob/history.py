"""What became of the Jobs that were begun, and when the next one starts. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from apis.cosmos import JobOutcome, JobRecord, StatefulJobSpec, StatefulJobStatus
from ctrlruntime.api.scalars import time_or_none
from ctrlruntime.cache.entry import Entry
from ctrlruntime.resources.readiness import assess
from ctrlruntime.schedule import SHORTEST, BadSchedule, parse

KEPT: Final = 5
"""Records in the status."""
SLOW: Final = timedelta(minutes=10)
"""After which a Job that was begun and does not run is a trouble: machines and disks take minutes to come."""
INTERVAL: Final = timedelta(hours=24)
"""Without an interval and a schedule."""
_ENDS: Final = {"Complete": JobOutcome.SUCCEEDED, "Failed": JobOutcome.FAILED}
_OPEN: Final = frozenset({JobOutcome.STARTING, JobOutcome.RUNNING})


def is_open(record: JobRecord) -> bool:
    """Whether it has not ended."""
    return record.outcome in _OPEN


def opened(status: StatefulJobStatus) -> JobRecord | None:
    """Return the Job that is under way."""
    return next(filter(is_open, status.job_history), None)


def begin(status: StatefulJobStatus, record: JobRecord) -> None:
    """Note a Job that is about to be made."""
    status.job_history = [record, *status.job_history][:KEPT]


def observe(
    record: JobRecord, job: Entry | None, now: datetime, claim: Entry | None = None
) -> None:
    """Note what is seen of a Job and its claim, or that it is no longer seen."""
    if job is None:
        if record.outcome is JobOutcome.RUNNING:
            record.outcome, record.finished_at = JobOutcome.LOST, now
            record.message = "the Job was gone before its end was seen"
        return
    if not is_open(record):
        return
    record.outcome = JobOutcome.RUNNING
    record.message = _idle(job, claim) if now >= record.started_at + SLOW else ""
    for condition in (job.field("status") or {}).get("conditions") or []:
        outcome = _ENDS.get(condition.get("type"))
        if outcome is not None and condition.get("status") == "True":
            record.outcome, record.message = outcome, ""
            record.finished_at = time_or_none(condition.get("lastTransitionTime")) or now
            if outcome is JobOutcome.FAILED:
                record.message = str(
                    condition.get("message") or condition.get("reason") or "failed"
                )


def _idle(job: Entry, claim: Entry | None) -> str:
    """Return why a Job that has not ended does not run, by its status and its claim's; empty: it does."""
    status = job.field("status") or {}
    if status.get("ready") or status.get("succeeded"):
        return ""
    if failed := status.get("failed"):
        return f"{failed} of its Pods failed"
    of_claim = None if claim is None else assess(claim.decode())
    if of_claim is not None and not of_claim.ready:
        return of_claim.reason
    if (job.field("spec") or {}).get("suspend"):
        return "the job is suspended"
    return "its Pod is not ready" if status.get("active") else "the cluster has made no Pod for it"


def expires(record: JobRecord, ttl: int) -> datetime | None:
    """When Job and claim are to go; None while it has not ended."""
    return None if record.finished_at is None else record.finished_at + timedelta(seconds=ttl)


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
