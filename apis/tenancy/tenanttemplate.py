"""TenantTemplate: the resources that every tenant of a registry gets."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ctrlruntime.api import ApiModel, Conditions, Immutable, Int32, PrintColumn, Resource

from .common import GROUP, VERSION, Name, ResourceLists

__all__ = ["TenantTemplate", "TenantTemplateSpec", "TenantTemplateStatus"]


class TenantTemplateSpec(ResourceLists):
    """The registry, and the resources that each of its active rows gets."""

    registry_id: Annotated[Name, Immutable("registryId is immutable")]
    """Name of the TenantRegistry, in the same namespace."""
    service_account_name: Name | None = None
    """ServiceAccount in the template's namespace with whose rights resources are written; default:
    the manager's own rights."""


class TenantTemplateStatus(ApiModel):
    """How far the template has been carried out."""

    observed_generation: int = 0
    """The generation that the status was computed for."""
    total_tenants: Int32 = 0
    """Tenants made from this template."""
    ready_tenants: Int32 = 0
    """Those of them that are ready."""
    conditions: Conditions = Field(default_factory=list)
    """Valid: the template can be used. Applied: all its tenants are ready. PermissionsGranted: there
    once a right was missing, with the role to add."""
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
        PrintColumn("Total", ".status.totalTenants", "integer"),
        PrintColumn("Ready", ".status.readyTenants", "integer"),
        PrintColumn("Applied", '.status.conditions[?(@.type=="Applied")].status', "string"),
        PrintColumn("Age", ".metadata.creationTimestamp", "date"),
    ),
):
    """The blueprint of a tenant: resources to render for every active row of a registry."""
