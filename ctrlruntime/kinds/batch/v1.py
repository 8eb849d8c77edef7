"""Typed kinds of batch/v1. Made by `make kinds`; changes here are lost."""

from __future__ import annotations

from pydantic import Field

from ctrlruntime.api.objectmeta import ObjectMeta
from ctrlruntime.api.scalars import Time
from ctrlruntime.kinds.base import BuiltinKind, BuiltinModel
from ctrlruntime.kinds.core.v1 import ObjectReference, PodTemplateSpec
from ctrlruntime.kinds.meta.v1 import LabelSelector

__all__ = [
    "CronJob",
    "CronJobSpec",
    "CronJobStatus",
    "Job",
    "JobCondition",
    "JobSpec",
    "JobStatus",
    "JobTemplateSpec",
    "PodFailurePolicy",
    "PodFailurePolicyOnExitCodesRequirement",
    "PodFailurePolicyOnPodConditionsPattern",
    "PodFailurePolicyRule",
    "SuccessPolicy",
    "SuccessPolicyRule",
    "UncountedTerminatedPods",
]


class PodFailurePolicyOnExitCodesRequirement(BuiltinModel):
    """PodFailurePolicyOnExitCodesRequirement of batch/v1."""

    container_name: str | None = None
    operator: str
    values: list[int]


class PodFailurePolicyOnPodConditionsPattern(BuiltinModel):
    """PodFailurePolicyOnPodConditionsPattern of batch/v1."""

    status: str | None = None
    type: str


class PodFailurePolicyRule(BuiltinModel):
    """PodFailurePolicyRule of batch/v1."""

    action: str
    on_exit_codes: PodFailurePolicyOnExitCodesRequirement | None = None
    on_pod_conditions: list[PodFailurePolicyOnPodConditionsPattern] = Field(default_factory=list)


class PodFailurePolicy(BuiltinModel):
    """PodFailurePolicy of batch/v1."""

    rules: list[PodFailurePolicyRule]


class SuccessPolicyRule(BuiltinModel):
    """SuccessPolicyRule of batch/v1."""

    succeeded_count: int | None = None
    succeeded_indexes: str | None = None


class SuccessPolicy(BuiltinModel):
    """SuccessPolicy of batch/v1."""

    rules: list[SuccessPolicyRule]


class JobSpec(BuiltinModel):
    """JobSpec of batch/v1."""

    active_deadline_seconds: int | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    completion_mode: str | None = None
    completions: int | None = None
    managed_by: str | None = None
    manual_selector: bool | None = None
    max_failed_indexes: int | None = None
    parallelism: int | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    pod_replacement_policy: str | None = None
    selector: LabelSelector | None = None
    success_policy: SuccessPolicy | None = None
    suspend: bool | None = None
    template: PodTemplateSpec
    ttl_seconds_after_finished: int | None = None


class JobTemplateSpec(BuiltinModel):
    """JobTemplateSpec of batch/v1."""

    metadata: ObjectMeta | None = None
    spec: JobSpec | None = None


class CronJobSpec(BuiltinModel):
    """CronJobSpec of batch/v1."""

    concurrency_policy: str | None = None
    failed_jobs_history_limit: int | None = None
    job_template: JobTemplateSpec
    schedule: str
    starting_deadline_seconds: int | None = None
    successful_jobs_history_limit: int | None = None
    suspend: bool | None = None
    time_zone: str | None = None


class CronJobStatus(BuiltinModel):
    """CronJobStatus of batch/v1."""

    active: list[ObjectReference] = Field(default_factory=list)
    last_schedule_time: Time | None = None
    last_successful_time: Time | None = None


class CronJob(BuiltinKind[CronJobSpec, CronJobStatus], group="batch", version="v1"):
    """CronJob of batch/v1."""


class JobCondition(BuiltinModel):
    """JobCondition of batch/v1."""

    last_probe_time: Time | None = None
    last_transition_time: Time | None = None
    message: str | None = None
    reason: str | None = None
    status: str
    type: str


class UncountedTerminatedPods(BuiltinModel):
    """UncountedTerminatedPods of batch/v1."""

    failed: list[str] = Field(default_factory=list)
    succeeded: list[str] = Field(default_factory=list)


class JobStatus(BuiltinModel):
    """JobStatus of batch/v1."""

    active: int | None = None
    completed_indexes: str | None = None
    completion_time: Time | None = None
    conditions: list[JobCondition] = Field(default_factory=list)
    failed: int | None = None
    failed_indexes: str | None = None
    ready: int | None = None
    start_time: Time | None = None
    succeeded: int | None = None
    terminating: int | None = None
    uncounted_terminated_pods: UncountedTerminatedPods | None = None


class Job(BuiltinKind[JobSpec, JobStatus], group="batch", version="v1"):
    """Job of batch/v1."""
