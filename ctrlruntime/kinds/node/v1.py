"""Typed kinds of node/v1. Made by `make kinds`; changes here are lost."""

from __future__ import annotations

from pydantic import Field

from ctrlruntime.api.resource import NoStatus
from ctrlruntime.kinds.base import BuiltinModel, SpeclessKind
from ctrlruntime.kinds.core.v1 import Toleration

__all__ = ["Overhead", "RuntimeClass", "Scheduling"]


class Overhead(BuiltinModel):
    """Overhead of node/v1."""

    pod_fixed: dict[str, str] = Field(default_factory=dict)


class Scheduling(BuiltinModel):
    """Scheduling of node/v1."""

    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: list[Toleration] = Field(default_factory=list)


class RuntimeClass(SpeclessKind[NoStatus], group="node.k8s.io", version="v1", scope="Cluster"):
    """RuntimeClass of node/v1."""

    handler: str
    overhead: Overhead | None = None
    scheduling: Scheduling | None = None
