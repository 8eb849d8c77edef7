"""What became of the Jobs that were begun. Pure."""

from datetime import datetime, timedelta
from typing import Final

from apis.cosmos import JobOutcome, JobRecord, StatefulJobStatus
from ctrlruntime.api.scalars import parse_time
from ctrlruntime.cache.entry import Entry

KEPT: Final = 5
"""Records in the status."""
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


def observe(record: JobRecord, job: Entry | None, now: datetime) -> None:
    """Note what is seen of a Job, or that it is no longer seen."""
    if job is None:
        if record.outcome is JobOutcome.RUNNING:
            record.outcome, record.finished_at = JobOutcome.LOST, now
            record.message = "the Job was gone before its end was seen"
        return
    if not is_open(record):
        return
    record.outcome = JobOutcome.RUNNING
    for condition in (job.field("status") or {}).get("conditions") or []:
        outcome = _ENDS.get(condition.get("type"))
        if outcome is not None and condition.get("status") == "True":
            record.outcome = outcome
            record.finished_at = _time(condition.get("lastTransitionTime")) or now
            if outcome is JobOutcome.FAILED:
                record.message = str(
                    condition.get("message") or condition.get("reason") or "failed"
                )


def expires(record: JobRecord, ttl: int) -> datetime | None:
    """When Job and claim are to go; None while it has not ended."""
    return None if record.finished_at is None else record.finished_at + timedelta(seconds=ttl)


def _time(text: object) -> datetime | None:
    try:
        return parse_time(text) if isinstance(text, str) else None
    except ValueError:
        return None
