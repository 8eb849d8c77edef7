"""TenantTemplate: the resources that every tenant of a registry gets."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from apis.columns import AGE, condition_column, count_columns
from ctrlruntime.api import ApiModel, Conditions, Immutable, Int32, PrintColumn, Resource

from .common import GROUP, VERSION, GeneratedValues, Hooks, Name, ResourceLists, ServiceAccountName
from .rollout import RolloutStatus, TemplateRollout

__all__ = ["TenantTemplate", "TenantTemplateSpec", "TenantTemplateStatus"]


REGISTRY_IS_FIXED = (
    "registryId is immutable: apply the template for the other registry under another name, or delete it "
    "(its tenants stay) and apply it again; do not use kubectl replace --force with deletionProtection: false"
)


class TenantTemplateSpec(ResourceLists):
    """The registry, and the resources that each of its active rows gets."""

    registry_id: Annotated[Name, Immutable(REGISTRY_IS_FIXED)]
    """Name of the TenantRegistry, in the same namespace."""
    service_account_name: ServiceAccountName | None = None
    """ServiceAccount in the template's namespace with whose rights resources are written; default:
    the manager's own rights."""
    generate: GeneratedValues = Field(default_factory=dict)
    """Variables such as passwords that are drawn once for each tenant, kept in a Secret and sensitive."""
    hooks: Hooks = Field(default_factory=list)
    """Jobs that run before a tenant's first resource is applied, and before and after all are removed."""
    prune: bool | None = None
    """Whether objects that record the tenant as their owner are deleted where no resource of the template wants them, copies
    that others made of its objects included; default: they stay. Objects with deletionPolicy Retain, or without one, stay."""
    deletion_protection: bool | None = None
    """Keep the tenants when this template is deleted, until it is applied again or an approval on the registry lets
    them go: the default. With false they go five minutes after it."""
    rollout: TemplateRollout | None = None
    """How a change of the content reaches the tenants; default: all of them at once."""


class TenantTemplateStatus(ApiModel):
    """How far the template has been carried out."""

    observed_generation: int = 0
    """The generation that the status was computed for."""
    total_tenants: Int32 = 0
    """Tenants that the registry made from this template."""
    ready_tenants: Int32 = 0
    """Those of them that are ready."""
    failed_tenants: Int32 = 0
    """Those of them that have failed."""
    updated_tenants: Int32 = 0
    """Those of them that have the template's present content."""
    unmanaged_tenants: Int32 = 0
    """Tenants that name this template and were not made by its registry; they are counted nowhere else."""
    rollout: RolloutStatus | None = None
    """How far the content has reached the tenants; only with spec.rollout."""
    conditions: Conditions = Field(default_factory=list)
    """Ready: nothing keeps it from its tenants. Valid: the template can be used. Applied: each of its tenants exists, has its present content and is
    ready. RolloutHalted: only with spec.rollout, whether it is halted. PermissionsGranted: there once a right
    was missing, with the role to add."""
    last_handled_reconcile: str = ""
    """The value of the annotation ctrlruntime.dev/reconcile-now that was last carried out."""


class TenantTemplate(
    Resource[TenantTemplateSpec, TenantTemplateStatus],
    group=GROUP,
    version=VERSION,
    plural="tenanttemplates",
    categories=("tenancy",),
    print_columns=(
        PrintColumn("Registry", ".spec.registryId", "string"),
        condition_column("Valid", "Valid"),
        *count_columns(
            Total="totalTenants",
            Updated="updatedTenants",
            Ready="readyTenants",
            Failed="failedTenants",
        ),
        PrintColumn("Rollout", ".status.rollout.phase", "string"),
        condition_column("Applied", "Applied"),
        condition_column("Conditions", "Ready", "reason"),
        AGE,
        condition_column("Message", "Applied", "message"),
        condition_column("Usable", "Ready", "message", priority=1),
    ),
):
    """The blueprint of a tenant: resources to render for every active row of a registry."""
