"""Typed kinds of scheduling/v1. Made by `make kinds`; changes here are lost."""

from __future__ import annotations

from ctrlruntime.api.resource import NoStatus
from ctrlruntime.kinds.base import SpeclessKind

__all__ = ["PriorityClass"]


class PriorityClass(
    SpeclessKind[NoStatus], group="scheduling.k8s.io", version="v1", scope="Cluster"
):
    """PriorityClass of scheduling/v1."""

    description: str | None = None
    global_default: bool | None = None
    preemption_policy: str | None = None
    value: int | None = None
