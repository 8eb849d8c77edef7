"""InstanceInvariants: what has to be true of a running instance."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ctrlruntime.api import ApiModel, Duration, ListMap, Resource

from .columns import progress_columns
from .common import GROUP, VERSION, TaskStatus
from .instance import Invariant, ManagedSMTP

__all__ = ["InstanceInvariants", "InstanceInvariantsSpec"]


class InstanceInvariantsSpec(ApiModel):
    """What of an instance its invariants depend on. Written by the instance."""

    version: Annotated[str, Field(min_length=1)]
    """Version of the application that runs."""
    domain: str | None = None
    """Name the instance is reached by."""
    invariants: Annotated[list[Invariant], ListMap("name")] = Field(default_factory=list)
    """What has to be true."""
    period: Duration | None = None
    """How often they are enforced again; default 24 h."""
    alerting: bool = True
    """Whether alerts are on; requests know it as `${alerting}`."""
    managed_smtp: ManagedSMTP = Field(default_factory=ManagedSMTP, alias="managedSMTP")
    """Mail; requests know whether the platform's own is on as `${managedSMTP}`."""
    outputs: dict[str, str] = Field(default_factory=dict)
    """Outputs of the infrastructure and the workload."""


class InstanceInvariants(
    Resource[InstanceInvariantsSpec, TaskStatus],
    group=GROUP,
    version=VERSION,
    plural="instanceinvariants",
    categories=("cloud",),
    print_columns=progress_columns(version=".spec.version"),
):
    """What has to be true of one running instance."""
