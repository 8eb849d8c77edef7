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
    ListMap,
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
    "Exemption",
    "ExemptionState",
    "ExemptionStatus",
    "FrozenKind",
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


class FrozenKind(StrEnum):
    """A kind whose objects can be exempted, with all that belongs to them."""

    TENANT_REGISTRY = "TenantRegistry"
    """With its Tenants and template rollouts."""
    INSTANCE = "Instance"
    """With its subresources."""
    FLEET_ROLLOUT = "FleetRollout"
    """Its assignments; the runs of an Instance that has one need an exemption of their own."""
    COSMOS_FULL_NODE = "CosmosFullNode"
    """With its nodes."""


class Exemption(ApiModel):
    """An object that a freeze does not hold."""

    kind: FrozenKind
    """Its kind."""
    namespace: Annotated[str, Field(min_length=1, max_length=63)]
    """Its namespace."""
    name: Annotated[str, Field(min_length=1, max_length=253)]
    """Its name."""
    reason: Annotated[str, Field(max_length=256)] = ""
    """Why, for people."""
    by: Annotated[str, Field(max_length=256)] = ""
    """Who granted it, as `manager freeze exempt` writes it; the audit log of the API server has the proof."""


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
    exempt: Annotated[
        list[Exemption], ListMap("kind", "namespace", "name"), Field(max_length=256)
    ] = Field(default_factory=list)
    """Objects that it does not hold. An annotation on the object alone requests it and grants nothing."""
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


class ExemptionState(StrEnum):
    """Whether an exemption counts."""

    GRANTED = "Granted"
    """`spec.exempt` has the object."""
    REQUESTED = "Requested"
    """The object's annotation names the freeze: it is held all the same."""


class ExemptionStatus(Exemption):
    """An exemption that was granted or is requested."""

    state: ExemptionState
    """Granted or Requested."""
    since: Time | None = None
    """When the manager first saw it in this state."""


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
    exemptions: Annotated[list[ExemptionStatus], ListMap("kind", "namespace", "name")] = Field(
        default_factory=list
    )
    """Objects with an exemption, and at most 64 of each system whose annotation requests one."""
    conditions: Conditions = Field(default_factory=list)
    """Active: whether it holds changes now; Ready: whether the spec can be read."""
    last_handled_reconcile: str = ""
    """The value of the annotation ctrlruntime.dev/reconcile-now that was last carried out."""


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
        PrintColumn("Message", ".status.message", "string"),
    ),
):
    """While it is active, the manager changes nothing that exists: no version, no template, no removal."""
