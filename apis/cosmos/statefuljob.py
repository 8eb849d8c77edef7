"""StatefulJob: a Job that runs regularly on a disk made from the newest snapshot."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from apis.columns import AGE, condition_column
from ctrlruntime.api import (
    CEL,
    ApiModel,
    Conditions,
    Int32,
    PrintColumn,
    Resource,
    Time,
)

from .common import GROUP, VERSION, Metadata
from .shapes import AccessMode, Cron, Interval, LabelValue, ObjectName, PodSpec, TimeZone

__all__ = [
    "JobOutcome",
    "JobRecord",
    "JobTemplate",
    "StatefulJob",
    "StatefulJobSpec",
    "StatefulJobStatus",
    "StatefulJobTemplate",
    "StatefulJobVolumeClaim",
]


class JobTemplate(ApiModel):
    """The Job."""

    active_deadline_seconds: Annotated[int, Field(ge=1)] = 86400
    """Seconds it may take."""
    backoff_limit: Annotated[Int32, Field(ge=0)] = 5
    """How often a failed Pod is tried again."""
    ttl_seconds_after_finished: Annotated[Int32, Field(ge=0)] = 900
    """Seconds that Job and disk are kept after its end."""


class StatefulJobTemplate(ApiModel):
    """Its Pod."""

    metadata: Metadata = Field(default_factory=Metadata)
    """Labels and annotations."""
    spec: PodSpec
    """The Pod's spec. The volume `snapshot` is added; a container mounts it by volumeMounts."""


class StatefulJobVolumeClaim(ApiModel):
    """The disk."""

    storage_class_name: ObjectName
    """StorageClass."""
    access_modes: list[AccessMode] = Field(default_factory=list)
    """Default ReadWriteOnce."""


class StatefulJobSpec(
    ApiModel,
    rules=(
        CEL(
            "!(has(self.interval) && has(self.schedule))",
            message="give interval or schedule, not both",
        ),
        CEL(
            "size(self.selector) > 0",
            message="give selector at least one label: an empty selector selects nothing",
        ),
    ),
):
    """When and what."""

    selector: dict[str, LabelValue]
    """Labels of the snapshots; at least one."""
    interval: Interval | None = None
    """Time between the starts of two Jobs. Default 24h, unless there is a schedule."""
    schedule: Cron | None = None
    """Cron expression of five fields, or @hourly, @daily and so on."""
    time_zone: TimeZone | None = None
    """Time zone of the schedule. Default UTC."""
    suspend: bool = False
    """Start no more Jobs."""
    job_template: JobTemplate = Field(default_factory=JobTemplate)
    """The Job."""
    pod_template: StatefulJobTemplate
    """Its Pod."""
    volume_claim_template: StatefulJobVolumeClaim
    """Its disk."""


class JobOutcome(StrEnum):
    """How a Job ended."""

    STARTING = "Starting"
    """It is about to be made."""
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    LOST = "Lost"
    """It was gone before its end was seen."""


class JobRecord(ApiModel):
    """One Job."""

    name: str
    """Name of Job and claim."""
    scheduled_at: Time
    """The time that it was for."""
    started_at: Time
    """When it was begun."""
    finished_at: Time | None = None
    """When it ended."""
    snapshot: str = ""
    """The snapshot that its disk was made from."""
    outcome: JobOutcome = JobOutcome.RUNNING
    """How it ended."""
    message: str = ""
    """Why, in words."""


class StatefulJobStatus(ApiModel):
    """How far it is."""

    observed_generation: int = 0
    """The metadata.generation that was looked at last."""
    created_at: Time | None = None
    """When the schedule began to count."""
    status: str = ""
    """Where it stands, in a sentence."""
    next_at: Time | None = None
    """When the next Job starts."""
    job_history: list[JobRecord] = Field(default_factory=list)
    """The last five, newest first."""
    conditions: Conditions = Field(default_factory=list)
    """Ready, CRDsAvailable."""
    last_handled_reconcile: str = ""
    """The value of the annotation ctrlruntime.dev/reconcile-now that was last carried out."""


class StatefulJob(
    Resource[StatefulJobSpec, StatefulJobStatus],
    group=GROUP,
    version=VERSION,
    plural="statefuljobs",
    categories=("cosmos",),
    print_columns=(
        condition_column("Ready", "Ready"),
        condition_column("Reason", "Ready", "reason"),
        PrintColumn("Next", ".status.nextAt", "string"),
        PrintColumn("Last", ".status.jobHistory[0].outcome", "string"),
        AGE,
        condition_column("Message", "Ready", "message"),
    ),
):
    """A Job that runs regularly on a disk made from the newest snapshot."""
