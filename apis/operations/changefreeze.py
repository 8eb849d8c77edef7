"""ChangeFreeze: while it is active, the manager changes nothing that exists."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from apis.columns import AGE
from ctrlruntime.api import (
    CEL,
    ApiModel,
    Conditions,
    Int32,
    ListSet,
    PrintColumn,
    Resource,
    Time,
)

from .common import GROUP, VERSION

__all__ = [
    "ChangeFreeze",
    "ChangeFreezePhase",
    "ChangeFreezeSpec",
    "ChangeFreezeStatus",
    "FrozenSystem",
    "HeldChanges",
]


class FrozenSystem(StrEnum):
    """A system of the manager whose changes can be held."""

    TENANCY = "Tenancy"
    """Updates and removals of Tenants that exist, and template rollouts."""
    CLOUD = "Cloud"
    """Upgrades, FleetRollouts, and runs that change or destroy what an Instance has."""
    COSMOS = "Cosmos"
    """Replacement of Pods that work, and removal of nodes and disks."""


class ChangeFreezeSpec(
    ApiModel,
    rules=(
        CEL(
            "!has(self.startsAt) || !has(self.until) || self.startsAt < self.until",
            message="until must be later than startsAt",
            field_path=".until",
        ),
    ),
):
    """What is held, why, and when."""

    reason: Annotated[str, Field(min_length=1, max_length=256)]
    """Why, for people; what waits repeats it."""
    systems: Annotated[list[FrozenSystem], ListSet(), Field(max_length=3)] = Field(
        default_factory=list
    )
    """The systems whose changes are held. Default: all."""
    namespaces: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=63)]],
        ListSet(),
        Field(max_length=256),
    ] = Field(default_factory=list)
    """The namespaces in which they are held. Default: all."""
    starts_at: Time | None = None
    """When it begins. Default: at once."""
    until: Time | None = None
    """When it ends by itself. Default: when it is deleted."""


class ChangeFreezePhase(StrEnum):
    """Where a freeze stands."""

    SCHEDULED = "Scheduled"
    """It begins later."""
    ACTIVE = "Active"
    ENDED = "Ended"
    """Its time is over; it holds nothing and may be deleted."""
    INVALID = "Invalid"
    """The spec cannot be read: all changes of all systems are held."""


class HeldChanges(ApiModel):
    """How many objects wait, by system; of a system that no manager runs nothing is known."""

    tenancy: Int32 | None = None
    """Changes of Tenants that wait."""
    cloud: Int32 | None = None
    """Subresources of Instances whose run waits, and assignments of FleetRollouts."""
    cosmos: Int32 | None = None
    """Pods and nodes whose change waits."""


class ChangeFreezeStatus(ApiModel):
    """What the freeze holds."""

    observed_generation: int = 0
    """The generation that the status was computed for."""
    phase: ChangeFreezePhase = ChangeFreezePhase.SCHEDULED
    """Scheduled, Active, Ended or Invalid."""
    message: str = ""
    """The same in a sentence."""
    held: HeldChanges = Field(default_factory=HeldChanges)
    """What waits while it is active; changes that several freezes hold are counted in each."""
    conditions: Conditions = Field(default_factory=list)
    """Active: whether it holds changes now; Ready: whether the spec can be read."""


class ChangeFreeze(
    Resource[ChangeFreezeSpec, ChangeFreezeStatus],
    group=GROUP,
    version=VERSION,
    plural="changefreezes",
    scope="Cluster",
    categories=("operations",),
    short_names=("freeze",),
    print_columns=(
        PrintColumn("Phase", ".status.phase", "string"),
        PrintColumn("Reason", ".spec.reason", "string"),
        PrintColumn("Systems", ".spec.systems", "string"),
        PrintColumn("Starts", ".spec.startsAt", "date", priority=1),
        PrintColumn("Until", ".spec.until", "string"),
        PrintColumn("Tenancy", ".status.held.tenancy", "integer"),
        PrintColumn("Cloud", ".status.held.cloud", "integer"),
        PrintColumn("Cosmos", ".status.held.cosmos", "integer"),
        AGE,
    ),
):
    """While it is active, the manager changes nothing that exists: no version, no template, no removal."""
