"""Typed kinds of policy/v1. Made by `make kinds`; changes here are lost."""

from __future__ import annotations

from pydantic import Field

from ctrlruntime.api.scalars import Time
from ctrlruntime.kinds.base import BuiltinKind, BuiltinModel
from ctrlruntime.kinds.meta.v1 import Condition, LabelSelector

__all__ = ["PodDisruptionBudget", "PodDisruptionBudgetSpec", "PodDisruptionBudgetStatus"]


class PodDisruptionBudgetSpec(BuiltinModel):
    """PodDisruptionBudgetSpec of policy/v1."""

    max_unavailable: int | str | None = None
    min_available: int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(BuiltinModel):
    """PodDisruptionBudgetStatus of policy/v1."""

    conditions: list[Condition] = Field(default_factory=list)
    current_healthy: int | None = None
    desired_healthy: int | None = None
    disrupted_pods: dict[str, Time] = Field(default_factory=dict)
    disruptions_allowed: int | None = None
    expected_pods: int | None = None
    observed_generation: int | None = None


class PodDisruptionBudget(
    BuiltinKind[PodDisruptionBudgetSpec, PodDisruptionBudgetStatus], group="policy", version="v1"
):
    """PodDisruptionBudget of policy/v1."""
