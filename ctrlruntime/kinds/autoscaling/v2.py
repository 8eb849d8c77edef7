"""Typed kinds of autoscaling/v2. Made by `make kinds`; changes here are lost."""

from __future__ import annotations

from pydantic import Field

from ctrlruntime.api.scalars import Time
from ctrlruntime.kinds.base import BuiltinKind, BuiltinModel
from ctrlruntime.kinds.meta.v1 import LabelSelector

__all__ = [
    "ContainerResourceMetricSource",
    "ContainerResourceMetricStatus",
    "CrossVersionObjectReference",
    "ExternalMetricSource",
    "ExternalMetricStatus",
    "HPAScalingPolicy",
    "HPAScalingRules",
    "HorizontalPodAutoscaler",
    "HorizontalPodAutoscalerBehavior",
    "HorizontalPodAutoscalerCondition",
    "HorizontalPodAutoscalerSpec",
    "HorizontalPodAutoscalerStatus",
    "MetricIdentifier",
    "MetricSpec",
    "MetricStatus",
    "MetricTarget",
    "MetricValueStatus",
    "ObjectMetricSource",
    "ObjectMetricStatus",
    "PodsMetricSource",
    "PodsMetricStatus",
    "ResourceMetricSource",
    "ResourceMetricStatus",
]


class HPAScalingPolicy(BuiltinModel):
    """HPAScalingPolicy of autoscaling/v2."""

    period_seconds: int
    type: str
    value: int


class HPAScalingRules(BuiltinModel):
    """HPAScalingRules of autoscaling/v2."""

    policies: list[HPAScalingPolicy] = Field(default_factory=list)
    select_policy: str | None = None
    stabilization_window_seconds: int | None = None
    tolerance: str | None = None


class HorizontalPodAutoscalerBehavior(BuiltinModel):
    """HorizontalPodAutoscalerBehavior of autoscaling/v2."""

    scale_down: HPAScalingRules | None = None
    scale_up: HPAScalingRules | None = None


class MetricTarget(BuiltinModel):
    """MetricTarget of autoscaling/v2."""

    average_utilization: int | None = None
    average_value: str | None = None
    type: str
    value: str | None = None


class ContainerResourceMetricSource(BuiltinModel):
    """ContainerResourceMetricSource of autoscaling/v2."""

    container: str
    name: str
    target: MetricTarget


class MetricIdentifier(BuiltinModel):
    """MetricIdentifier of autoscaling/v2."""

    name: str
    selector: LabelSelector | None = None


class ExternalMetricSource(BuiltinModel):
    """ExternalMetricSource of autoscaling/v2."""

    metric: MetricIdentifier
    target: MetricTarget


class CrossVersionObjectReference(BuiltinModel):
    """CrossVersionObjectReference of autoscaling/v2."""

    api_version: str | None = None
    kind: str
    name: str


class ObjectMetricSource(BuiltinModel):
    """ObjectMetricSource of autoscaling/v2."""

    described_object: CrossVersionObjectReference
    metric: MetricIdentifier
    target: MetricTarget


class PodsMetricSource(BuiltinModel):
    """PodsMetricSource of autoscaling/v2."""

    metric: MetricIdentifier
    target: MetricTarget


class ResourceMetricSource(BuiltinModel):
    """ResourceMetricSource of autoscaling/v2."""

    name: str
    target: MetricTarget


class MetricSpec(BuiltinModel):
    """MetricSpec of autoscaling/v2."""

    container_resource: ContainerResourceMetricSource | None = None
    external: ExternalMetricSource | None = None
    object: ObjectMetricSource | None = None
    pods: PodsMetricSource | None = None
    resource: ResourceMetricSource | None = None
    type: str


class HorizontalPodAutoscalerSpec(BuiltinModel):
    """HorizontalPodAutoscalerSpec of autoscaling/v2."""

    behavior: HorizontalPodAutoscalerBehavior | None = None
    max_replicas: int
    metrics: list[MetricSpec] = Field(default_factory=list)
    min_replicas: int | None = None
    scale_target_ref: CrossVersionObjectReference


class HorizontalPodAutoscalerCondition(BuiltinModel):
    """HorizontalPodAutoscalerCondition of autoscaling/v2."""

    last_transition_time: Time | None = None
    message: str | None = None
    reason: str | None = None
    status: str
    type: str


class MetricValueStatus(BuiltinModel):
    """MetricValueStatus of autoscaling/v2."""

    average_utilization: int | None = None
    average_value: str | None = None
    value: str | None = None


class ContainerResourceMetricStatus(BuiltinModel):
    """ContainerResourceMetricStatus of autoscaling/v2."""

    container: str | None = None
    current: MetricValueStatus | None = None
    name: str | None = None


class ExternalMetricStatus(BuiltinModel):
    """ExternalMetricStatus of autoscaling/v2."""

    current: MetricValueStatus | None = None
    metric: MetricIdentifier | None = None


class ObjectMetricStatus(BuiltinModel):
    """ObjectMetricStatus of autoscaling/v2."""

    current: MetricValueStatus | None = None
    described_object: CrossVersionObjectReference | None = None
    metric: MetricIdentifier | None = None


class PodsMetricStatus(BuiltinModel):
    """PodsMetricStatus of autoscaling/v2."""

    current: MetricValueStatus | None = None
    metric: MetricIdentifier | None = None


class ResourceMetricStatus(BuiltinModel):
    """ResourceMetricStatus of autoscaling/v2."""

    current: MetricValueStatus | None = None
    name: str | None = None


class MetricStatus(BuiltinModel):
    """MetricStatus of autoscaling/v2."""

    container_resource: ContainerResourceMetricStatus | None = None
    external: ExternalMetricStatus | None = None
    object: ObjectMetricStatus | None = None
    pods: PodsMetricStatus | None = None
    resource: ResourceMetricStatus | None = None
    type: str | None = None


class HorizontalPodAutoscalerStatus(BuiltinModel):
    """HorizontalPodAutoscalerStatus of autoscaling/v2."""

    conditions: list[HorizontalPodAutoscalerCondition] = Field(default_factory=list)
    current_metrics: list[MetricStatus] = Field(default_factory=list)
    current_replicas: int | None = None
    desired_replicas: int | None = None
    last_scale_time: Time | None = None
    observed_generation: int | None = None


class HorizontalPodAutoscaler(
    BuiltinKind[HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus],
    group="autoscaling",
    version="v2",
):
    """HorizontalPodAutoscaler of autoscaling/v2."""
