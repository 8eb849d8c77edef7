"""Typed kinds of autoscaling/v1. Made by `make kinds`; changes here are lost."""

from __future__ import annotations

from pydantic import Field

from ctrlruntime.api.scalars import Time
from ctrlruntime.kinds.base import BuiltinKind, BuiltinModel

__all__ = [
    "CrossVersionObjectReference",
    "HorizontalPodAutoscaler",
    "HorizontalPodAutoscalerSpec",
    "HorizontalPodAutoscalerStatus",
]


class CrossVersionObjectReference(BuiltinModel):
    """CrossVersionObjectReference of autoscaling/v1."""

    api_version: str | None = None
    kind: str
    name: str


class HorizontalPodAutoscalerSpec(BuiltinModel):
    """HorizontalPodAutoscalerSpec of autoscaling/v1."""

    max_replicas: int
    min_replicas: int | None = None
    scale_target_ref: CrossVersionObjectReference
    target_cpu_utilization_percentage: int | None = Field(
        default=None,
        validation_alias="targetCPUUtilizationPercentage",
        serialization_alias="targetCPUUtilizationPercentage",
    )


class HorizontalPodAutoscalerStatus(BuiltinModel):
    """HorizontalPodAutoscalerStatus of autoscaling/v1."""

    current_cpu_utilization_percentage: int | None = Field(
        default=None,
        validation_alias="currentCPUUtilizationPercentage",
        serialization_alias="currentCPUUtilizationPercentage",
    )
    current_replicas: int | None = None
    desired_replicas: int | None = None
    last_scale_time: Time | None = None
    observed_generation: int | None = None


class HorizontalPodAutoscaler(
    BuiltinKind[HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus],
    group="autoscaling",
    version="v1",
):
    """HorizontalPodAutoscaler of autoscaling/v1."""
