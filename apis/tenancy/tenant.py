"""Tenant: one row made real by one template."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from apis.columns import AGE, condition_column, count_columns
from ctrlruntime.api import (
    ApiModel,
    Conditions,
    Int32,
    ListMap,
    ListSet,
    MicroTime,
    PrintColumn,
    Resource,
    Time,
)

from .common import GROUP, VERSION, GeneratedValues, Hooks, Name, ResourceLists, ServiceAccountName

__all__ = [
    "ChangeProgress",
    "PendingRemoval",
    "ResourcePhase",
    "ResourceState",
    "SensitiveVariables",
    "Tenant",
    "TenantSpec",
    "TenantStatus",
]


class SensitiveVariables(ApiModel):
    """Variables whose values must not be seen: only their names are here."""

    secret_name: Name
    """Secret in the tenant's namespace with one key for each variable."""
    names: Annotated[list[str], ListSet()] = Field(default_factory=list)
    """The variables."""


class TenantSpec(ResourceLists):
    """What to render, and with which values. Written by the registry."""

    uid: Annotated[str, Field(min_length=1)]
    """The row's unique id."""
    template_ref: Name
    """Name of the TenantTemplate, in the same namespace."""
    registry_id: Name | None = None
    """Name of the TenantRegistry, in the same namespace."""
    service_account_name: ServiceAccountName | None = None
    """ServiceAccount in the tenant's namespace with whose rights resources are written; default: the
    manager's own rights."""
    template_revision: str | None = None
    """Revision of the template's content that the lists were taken from."""
    variables: dict[str, str] = Field(default_factory=dict)
    """The row's values by template variable, without the sensitive ones."""
    sensitive_variables: SensitiveVariables | None = None
    """Where the sensitive values are."""
    generate: GeneratedValues = Field(default_factory=dict)
    """Variables that are drawn once and kept in the Secret `<tenant>-generated`."""
    hooks: Hooks = Field(default_factory=list)
    """Jobs that run before the first resource is applied, and before and after all are removed."""
    prune: bool | None = None
    """Whether objects that record the tenant as their owner are deleted where no resource of the template wants them, copies
    that others made of its objects included; default: they stay. Objects with deletionPolicy Retain, or without one, stay."""
    deletion_protection: bool | None = None
    """Whether the tenant stays when its template is deleted, until an approval: the default."""


class PendingRemoval(ApiModel):
    """An object that has to be removed and still exists."""

    resource: str
    """Key of the object: Kind.group/namespace/name@id."""
    reason: str
    """FinalizersRemain, DependentsRemain, ReplacementNotReady, DeletionRefused, KindUnreadable or Frozen."""
    message: str = ""
    """What holds it."""
    since: Time
    """When its deletion began, or when it was first held for this reason."""
    finalizers: Annotated[list[str], ListSet()] = Field(default_factory=list)
    """The finalizers that remain on an object that is being deleted."""


class ResourcePhase(StrEnum):
    """Where a resource stands."""

    PENDING = "Pending"
    PROGRESSING = "Progressing"
    AVAILABLE = "Available"
    DEGRADED = "Degraded"
    FAILED = "Failed"
    BLOCKED = "Blocked"
    SKIPPED = "Skipped"


class ResourceState(ApiModel):
    """Where one resource of the tenant stands."""

    id: str
    """Its id in the template; of an entry with forEach, `id[element]`."""
    phase: ResourcePhase
    """Pending: not applied yet, since its place is not free. Progressing: applied, not ready yet. Available:
    ready. Degraded: it was ready. Failed: refused, in conflict, or not ready in time. Blocked and Skipped: not
    applied, for what it waits for or what failed."""
    waits_for: list[str] = Field(default_factory=list)
    """Ids of the resources that it waits for, or for which it is left out; five at most."""
    message: str = ""
    """What is wrong, shortened; of one that is Progressing, the conditions say what it lacks."""


class ChangeProgress(ApiModel):
    """What was seen of the last change by a rollout."""

    at: MicroTime
    """When the rollout made it."""
    seen_at: MicroTime | None = None
    """When it was first carried out."""
    ready_generation: int = 0
    """The generation of the tenant that was first ready with it; 0: none yet."""
    unavailable: bool = False
    """Whether all that failed did so because a server did not answer as it should."""


class TenantStatus(ApiModel):
    """What became of the tenant's resources."""

    observed_generation: int = 0
    """The generation that the status was computed for."""
    desired_resources: Int32 = 0
    """Resources that should exist."""
    ready_resources: Int32 = 0
    """Resources that are ready."""
    failed_resources: Int32 = 0
    """Resources that failed or did not become ready in time."""
    skipped_resources: Int32 = 0
    """Resources left out because one they depend on failed."""
    skipped_resource_ids: Annotated[list[str], ListSet()] = Field(default_factory=list)
    """Ids of the skipped resources, in order."""
    failed_resource_ids: Annotated[list[str], ListSet()] = Field(default_factory=list)
    """Ids of the failed resources, in order."""
    conflicted_resource_ids: Annotated[list[str], ListSet()] = Field(default_factory=list)
    """Ids of the resources in conflict, in order."""
    applied_resources: Annotated[list[str], ListSet()] = Field(default_factory=list)
    """Keys of the resources that were applied, in order: Kind.group/namespace/name@id; of those on the hub of
    a data plane: hub:Kind.group/namespace/name@id."""
    retained_resource_ids: Annotated[list[str], ListSet()] = Field(default_factory=list)
    """Ids of the resources that the last spec that had them wants retained, in order."""
    pending_removals: Annotated[list[PendingRemoval], ListMap("resource")] = Field(
        default_factory=list
    )
    """Objects that have to be removed and still exist, in order; 20 at most."""
    generated_values: Annotated[list[str], ListSet()] = Field(default_factory=list)
    """Names of the values that were drawn, in order; they are not drawn anew where their Secret is lost."""
    completed_hooks: Annotated[list[str], ListSet()] = Field(default_factory=list)
    """Ids of the hooks that have run, in order."""
    resources: list[ResourceState] = Field(default_factory=list)
    """Where each resource stands, in order; of more than 40, first those that are not Available."""
    conditions: Conditions = Field(default_factory=list)
    """Ready, Progressing, Conflicted and Degraded; PermissionsGranted once a right was missing;
    RemovalPending once an object had to wait for its removal; ValuesConverted once a conversion in a template
    had lost something; on a data plane HubReady once an object had to go to the hub, and PlacesKnown
    once the place of one was in doubt."""
    rollout_change: ChangeProgress | None = None
    """What was seen of the last change by a rollout of the template; none: there was none."""
    last_handled_reconcile: str = ""
    """The value of the annotation ctrlruntime.dev/reconcile-now that was last carried out."""


class Tenant(
    Resource[TenantSpec, TenantStatus],
    group=GROUP,
    version=VERSION,
    plural="tenants",
    categories=("tenancy",),
    print_columns=(
        PrintColumn("UID", ".spec.uid", "string"),
        PrintColumn("Template", ".spec.templateRef", "string"),
        *count_columns(
            Ready="readyResources",
            Desired="desiredResources",
            Failed="failedResources",
            Skipped="skippedResources",
        ),
        condition_column("Conflicted", "Conflicted"),
        condition_column("Conditions", "Ready", "reason"),
        AGE,
        condition_column("Message", "Ready", "message"),
    ),
):
    """One tenant: a row's values and the resources rendered from them."""
