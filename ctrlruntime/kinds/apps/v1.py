"""Typed kinds of apps/v1. Made by `make kinds`; changes here are lost."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from ctrlruntime.api.resource import NoStatus
from ctrlruntime.api.scalars import Time
from ctrlruntime.kinds.base import BuiltinKind, BuiltinModel, SpeclessKind
from ctrlruntime.kinds.core.v1 import PersistentVolumeClaim, PodTemplateSpec
from ctrlruntime.kinds.meta.v1 import LabelSelector

__all__ = [
    "ControllerRevision",
    "DaemonSet",
    "DaemonSetCondition",
    "DaemonSetSpec",
    "DaemonSetStatus",
    "DaemonSetUpdateStrategy",
    "Deployment",
    "DeploymentCondition",
    "DeploymentSpec",
    "DeploymentStatus",
    "DeploymentStrategy",
    "ReplicaSet",
    "ReplicaSetCondition",
    "ReplicaSetSpec",
    "ReplicaSetStatus",
    "RollingUpdateDaemonSet",
    "RollingUpdateDeployment",
    "RollingUpdateStatefulSetStrategy",
    "StatefulSet",
    "StatefulSetCondition",
    "StatefulSetOrdinals",
    "StatefulSetPersistentVolumeClaimRetentionPolicy",
    "StatefulSetSpec",
    "StatefulSetStatus",
    "StatefulSetUpdateStrategy",
]


class ControllerRevision(SpeclessKind[NoStatus], group="apps", version="v1"):
    """ControllerRevision of apps/v1."""

    data: dict[str, Any] = Field(default_factory=dict)
    revision: int


class RollingUpdateDaemonSet(BuiltinModel):
    """RollingUpdateDaemonSet of apps/v1."""

    max_surge: int | str | None = None
    max_unavailable: int | str | None = None


class DaemonSetUpdateStrategy(BuiltinModel):
    """DaemonSetUpdateStrategy of apps/v1."""

    rolling_update: RollingUpdateDaemonSet | None = None
    type: str | None = None


class DaemonSetSpec(BuiltinModel):
    """DaemonSetSpec of apps/v1."""

    min_ready_seconds: int | None = None
    revision_history_limit: int | None = None
    selector: LabelSelector
    template: PodTemplateSpec
    update_strategy: DaemonSetUpdateStrategy | None = None


class DaemonSetCondition(BuiltinModel):
    """DaemonSetCondition of apps/v1."""

    last_transition_time: Time | None = None
    message: str | None = None
    reason: str | None = None
    status: str
    type: str


class DaemonSetStatus(BuiltinModel):
    """DaemonSetStatus of apps/v1."""

    collision_count: int | None = None
    conditions: list[DaemonSetCondition] = Field(default_factory=list)
    current_number_scheduled: int | None = None
    desired_number_scheduled: int | None = None
    number_available: int | None = None
    number_misscheduled: int | None = None
    number_ready: int | None = None
    number_unavailable: int | None = None
    observed_generation: int | None = None
    updated_number_scheduled: int | None = None


class DaemonSet(BuiltinKind[DaemonSetSpec, DaemonSetStatus], group="apps", version="v1"):
    """DaemonSet of apps/v1."""


class RollingUpdateDeployment(BuiltinModel):
    """RollingUpdateDeployment of apps/v1."""

    max_surge: int | str | None = None
    max_unavailable: int | str | None = None


class DeploymentStrategy(BuiltinModel):
    """DeploymentStrategy of apps/v1."""

    rolling_update: RollingUpdateDeployment | None = None
    type: str | None = None


class DeploymentSpec(BuiltinModel):
    """DeploymentSpec of apps/v1."""

    min_ready_seconds: int | None = None
    paused: bool | None = None
    progress_deadline_seconds: int | None = None
    replicas: int | None = None
    revision_history_limit: int | None = None
    selector: LabelSelector
    strategy: DeploymentStrategy | None = None
    template: PodTemplateSpec


class DeploymentCondition(BuiltinModel):
    """DeploymentCondition of apps/v1."""

    last_transition_time: Time | None = None
    last_update_time: Time | None = None
    message: str | None = None
    reason: str | None = None
    status: str
    type: str


class DeploymentStatus(BuiltinModel):
    """DeploymentStatus of apps/v1."""

    available_replicas: int | None = None
    collision_count: int | None = None
    conditions: list[DeploymentCondition] = Field(default_factory=list)
    observed_generation: int | None = None
    ready_replicas: int | None = None
    replicas: int | None = None
    terminating_replicas: int | None = None
    unavailable_replicas: int | None = None
    updated_replicas: int | None = None


class Deployment(BuiltinKind[DeploymentSpec, DeploymentStatus], group="apps", version="v1"):
    """Deployment of apps/v1."""


class ReplicaSetSpec(BuiltinModel):
    """ReplicaSetSpec of apps/v1."""

    min_ready_seconds: int | None = None
    replicas: int | None = None
    selector: LabelSelector
    template: PodTemplateSpec | None = None


class ReplicaSetCondition(BuiltinModel):
    """ReplicaSetCondition of apps/v1."""

    last_transition_time: Time | None = None
    message: str | None = None
    reason: str | None = None
    status: str
    type: str


class ReplicaSetStatus(BuiltinModel):
    """ReplicaSetStatus of apps/v1."""

    available_replicas: int | None = None
    conditions: list[ReplicaSetCondition] = Field(default_factory=list)
    fully_labeled_replicas: int | None = None
    observed_generation: int | None = None
    ready_replicas: int | None = None
    replicas: int | None = None
    terminating_replicas: int | None = None


class ReplicaSet(BuiltinKind[ReplicaSetSpec, ReplicaSetStatus], group="apps", version="v1"):
    """ReplicaSet of apps/v1."""


class StatefulSetOrdinals(BuiltinModel):
    """StatefulSetOrdinals of apps/v1."""

    start: int | None = None


class StatefulSetPersistentVolumeClaimRetentionPolicy(BuiltinModel):
    """StatefulSetPersistentVolumeClaimRetentionPolicy of apps/v1."""

    when_deleted: str | None = None
    when_scaled: str | None = None


class RollingUpdateStatefulSetStrategy(BuiltinModel):
    """RollingUpdateStatefulSetStrategy of apps/v1."""

    max_unavailable: int | str | None = None
    partition: int | None = None


class StatefulSetUpdateStrategy(BuiltinModel):
    """StatefulSetUpdateStrategy of apps/v1."""

    rolling_update: RollingUpdateStatefulSetStrategy | None = None
    type: str | None = None


class StatefulSetSpec(BuiltinModel):
    """StatefulSetSpec of apps/v1."""

    min_ready_seconds: int | None = None
    ordinals: StatefulSetOrdinals | None = None
    persistent_volume_claim_retention_policy: (
        StatefulSetPersistentVolumeClaimRetentionPolicy | None
    ) = None
    pod_management_policy: str | None = None
    replicas: int | None = None
    revision_history_limit: int | None = None
    selector: LabelSelector
    service_name: str | None = None
    template: PodTemplateSpec
    update_strategy: StatefulSetUpdateStrategy | None = None
    volume_claim_templates: list[PersistentVolumeClaim] = Field(default_factory=list)


class StatefulSetCondition(BuiltinModel):
    """StatefulSetCondition of apps/v1."""

    last_transition_time: Time | None = None
    message: str | None = None
    reason: str | None = None
    status: str
    type: str


class StatefulSetStatus(BuiltinModel):
    """StatefulSetStatus of apps/v1."""

    available_replicas: int | None = None
    collision_count: int | None = None
    conditions: list[StatefulSetCondition] = Field(default_factory=list)
    current_replicas: int | None = None
    current_revision: str | None = None
    observed_generation: int | None = None
    ready_replicas: int | None = None
    replicas: int | None = None
    update_revision: str | None = None
    updated_replicas: int | None = None


class StatefulSet(BuiltinKind[StatefulSetSpec, StatefulSetStatus], group="apps", version="v1"):
    """StatefulSet of apps/v1."""
