"""Kubebuilder's CronJob tutorial: Jobs on a schedule, of which some may run at once and a few are kept."""

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

from cronsim import CronSim, CronSimError
from pydantic import Field

from ctrlruntime import (
    BUILTIN,
    ApiModel,
    Builder,
    Condition,
    Conditions,
    ConditionStatus,
    Config,
    Control,
    Desired,
    Entry,
    GroupVersionKind,
    Int32,
    Manager,
    ManagerOptions,
    Owner,
    RawExtension,
    Resource,
    Result,
    Time,
    as_reconciler,
    merge_patch,
    run,
    set_condition,
)
from ctrlruntime.clock import utc_now
from ctrlruntime.gate import Cause

JOB = BUILTIN[GroupVersionKind("batch", "v1", "Job")]
SCHEDULED = "batch.tutorial.kubebuilder.io/scheduled-at"
MOST_MISSED = 100


class ConcurrencyPolicy(StrEnum):
    """What happens while a Job of an earlier time still runs."""

    ALLOW = "Allow"
    FORBID = "Forbid"
    REPLACE = "Replace"


class CronJobSpec(ApiModel):
    """When to make Jobs, of what, and how many are kept."""

    schedule: Annotated[str, Field(min_length=1)]
    job_template: RawExtension
    starting_deadline_seconds: Annotated[Int32, Field(ge=0)] | None = None
    concurrency_policy: ConcurrencyPolicy = ConcurrencyPolicy.ALLOW
    suspend: bool = False
    successful_jobs_history_limit: Annotated[Int32, Field(ge=0)] = 3
    failed_jobs_history_limit: Annotated[Int32, Field(ge=0)] = 1


class CronJobStatus(ApiModel):
    """Names of the Jobs that run, and the time of the last one."""

    active: list[str] = Field(default_factory=list)
    last_schedule_time: Time | None = None
    conditions: Conditions = Field(default_factory=list)


class CronJob(
    Resource[CronJobSpec, CronJobStatus], group="batch.tutorial.kubebuilder.io", version="v1"
):
    """Jobs on a schedule."""


def finished(job: Entry) -> str:
    """Return `Complete` or `Failed`, empty while the Job runs."""
    conditions = (job.field("status") or {}).get("conditions") or []
    ended = (c["type"] for c in conditions if c["status"] == "True")
    return next((each for each in ended if each in ("Complete", "Failed")), "")


def scheduled_at(job: Entry) -> datetime:
    """Return the time that a Job was made for."""
    return datetime.fromisoformat(job.annotations[SCHEDULED])


def due(cron: CronJob, last: datetime, now: datetime) -> tuple[datetime | None, datetime]:
    """Return the last time that was missed, if one was and it is not too late, and the next one.

    Raises ValueError for a schedule that cannot be read, or of which too many times were missed.
    """
    deadline = cron.spec.starting_deadline_seconds
    earliest = last if deadline is None else max(last, now - timedelta(seconds=deadline))
    try:
        times = CronSim(cron.spec.schedule, earliest)
    except CronSimError as error:
        raise ValueError(f"spec.schedule {cron.spec.schedule!r}: {error}") from None
    missed = None
    for _, each in zip(range(MOST_MISSED), times, strict=False):
        if each > now:
            return missed, each
        missed = each
    raise ValueError(
        "too many missed start times: set spec.startingDeadlineSeconds, or check clocks"
    )


def job_of(cron: CronJob, at: datetime) -> Desired:
    """Return the Job of one time; its name is made of the time, so it is made once."""
    template: dict[str, Any] = dict(cron.spec.job_template)
    metadata = template.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), SCHEDULED: at.isoformat()}
    name = f"{cron.metadata.name}-{int(at.timestamp())}"
    head = {"name": name, "namespace": cron.metadata.namespace}
    return Desired(
        mapping=JOB,
        once=True,
        manifest={
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                **head,
                "labels": metadata.get("labels") or {},
                "annotations": annotations,
            },
            "spec": template["spec"],
        },
    )


def surplus(jobs: list[Entry], spec: CronJobSpec) -> list[Entry]:
    """Return the Jobs that have ended and are not kept, the oldest first."""
    gone: list[Entry] = []
    kept = {
        "Complete": spec.successful_jobs_history_limit,
        "Failed": spec.failed_jobs_history_limit,
    }
    for outcome, limit in kept.items():
        ended = sorted((j for j in jobs if finished(j) == outcome), key=scheduled_at)
        gone += ended[: len(ended) - limit] if limit else ended
    return gone


def report(
    cron: CronJob, now: datetime, status: ConditionStatus, reason: str, message: str
) -> None:
    """Set the condition Ready."""
    condition = Condition(type="Ready", status=status, reason=reason, message=message)
    set_condition(cron.status.conditions, condition, now)


def setup(manager: Manager, now: Callable[[], datetime] = utc_now) -> None:
    """Add the controller."""
    control = Control(manager.cache, field_manager="cronjob")

    def jobs_of(cron: CronJob) -> list[Entry]:
        owner = {"owner": cron.metadata.uid or ""}  # an index that every kind has
        return list(manager.cache.entries(JOB, cron.metadata.namespace, index=owner))

    async def reconcile(cron: CronJob) -> Result | None:
        if cron.metadata.deletion_timestamp:
            return None  # its Jobs go with it
        old, owner = cron.model_copy(deep=True), Owner.of(cron)
        for job in surplus(jobs_of(cron), cron.spec):
            await control.remove(JOB, job, owner, Cause.RETENTION)
        following = await schedule(cron, owner)
        jobs = jobs_of(cron)
        cron.status.active = sorted(job.name for job in jobs if not finished(job))
        times = [scheduled_at(job) for job in jobs]
        cron.status.last_schedule_time = max(times, default=cron.status.last_schedule_time)
        if patch := merge_patch(old, cron):
            meta = cron.metadata
            await manager.client.patch_status(
                CronJob, meta.name or "", patch, namespace=meta.namespace
            )
        return following

    async def schedule(cron: CronJob, owner: Owner) -> Result | None:
        """Make the Job that is due, if it may start. Return when to look again."""
        last = cron.status.last_schedule_time or cron.metadata.creation_timestamp or now()
        try:
            missed, following = due(cron, last, now())
        except ValueError as error:
            report(cron, now(), "False", "InvalidSchedule", str(error))
            return None
        again = Result(requeue_after=max((following - now()).total_seconds(), 0.01))
        report(cron, now(), "True", "Scheduled", "")
        running = [job for job in jobs_of(cron) if not finished(job)]
        if cron.spec.suspend or missed is None:
            return again
        if running and cron.spec.concurrency_policy is ConcurrencyPolicy.FORBID:
            report(cron, now(), "True", "WaitsForJob", f"{running[0].name} has not ended")
            return again
        if cron.spec.concurrency_policy is ConcurrencyPolicy.REPLACE:
            for job in running:
                await control.remove(JOB, job, owner, Cause.REPLACED)
        await control.ensure(job_of(cron, missed), owner)
        return again

    builder = Builder(manager).for_(CronJob).owns(JOB, track_manager="cronjob")
    builder.build(as_reconciler(manager.client, CronJob, reconcile))


async def main() -> None:
    """Run it until it is stopped."""
    options = ManagerOptions(
        name="cronjob",
        handle_signals=True,
        leader_election=True,
        leader_election_id="cronjob.example.com",
    )
    manager = Manager(await Config.load(), options)
    setup(manager)
    await manager.start()


if __name__ == "__main__":
    run(main())
