"""How resources are tied to their tenant, and what becomes of those that are no longer wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from apis.tenancy import GROUP, CreationPolicy, DeletionPolicy, TResource
from ctrlruntime.api.kinds import GroupKind
from internal.tenancy.shared.naming import label_value

TENANT = f"{GROUP}/tenant"
TENANT_NAMESPACE = f"{GROUP}/tenant-namespace"
ORPHANED = f"{GROUP}/orphaned"
ORPHANED_AT = f"{GROUP}/orphaned-at"
ORPHANED_REASON = f"{GROUP}/orphaned-reason"
DELETION_POLICY = f"{GROUP}/deletion-policy"
CREATED_ONCE = f"{GROUP}/created-once"
ALLOW_DELETE = f"{GROUP}/allow-delete"
APPROVE_DELETION = f"{GROUP}/approve-deletion"
"""Annotation of CRDs and registries: `true` lets their tenants be deleted with them."""

NAMESPACE = GroupKind("", "Namespace")


class OrphanReason(StrEnum):
    """Why a retained resource has no tenant any more."""

    REMOVED_FROM_TEMPLATE = "RemovedFromTemplate"
    TENANT_DELETED = "TenantDeleted"
    TENANT_ORPHANED = "TenantOrphaned"
    """The tenant was deleted with `--cascade=orphan`."""
    DEFINITION_REMOVED = "DefinitionRemoved"
    """The CRD of Tenants was deleted."""


class Tie(StrEnum):
    """How a resource is tied to its tenant."""

    REFERENCE = "ownerReference"
    """In the tenant's namespace and to be deleted with it: the garbage collector's job."""
    LABELS = "labels"
    """Elsewhere, cluster-scoped, or to be retained: the finalizer's job."""


@dataclass(frozen=True, slots=True)
class Tracking:
    """Metadata that ties a resource to its tenant, added after its revision was taken."""

    tie: Tie
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def tie(resource: TResource, kind: GroupKind, namespace: str, tenant_namespace: str) -> Tie:
    """Owner reference where Kubernetes allows one and deletion is wanted, tracking labels elsewhere.

    `namespace` is empty for cluster-scoped objects.
    """
    tied = needs_reference(resource.deletion_policy, kind, namespace, tenant_namespace)
    return Tie.REFERENCE if tied else Tie.LABELS


def needs_reference(
    policy: DeletionPolicy | None, kind: GroupKind, namespace: str, tenant_namespace: str
) -> bool:
    """Whether an object with this recorded policy was written with an owner reference."""
    here = namespace == tenant_namespace and kind != NAMESPACE
    return here and policy is DeletionPolicy.DELETE


def tracking(
    resource: TResource, kind: GroupKind, namespace: str, tenant: str, tenant_namespace: str
) -> Tracking:
    """Return the tracking metadata of a resource. Long tenant names are shortened with a digest in labels."""
    chosen = tie(resource, kind, namespace, tenant_namespace)
    labels: dict[str, str] = {}
    if chosen is Tie.LABELS:
        labels = {TENANT: label_value(tenant), TENANT_NAMESPACE: tenant_namespace}
    annotations = {DELETION_POLICY: str(resource.deletion_policy)}
    if resource.creation_policy is CreationPolicy.ONCE:
        annotations[CREATED_ONCE] = "true"
    return Tracking(chosen, labels, annotations)


def deletion_policy(annotations: Mapping[str, str]) -> DeletionPolicy | None:
    """Return the policy recorded on an object; None when it carries none, and is not to be deleted for it."""
    recorded = annotations.get(DELETION_POLICY)
    return DeletionPolicy(recorded) if recorded in set(DeletionPolicy) else None


def is_orphaned(labels: Mapping[str, str]) -> bool:
    """Whether the object carries the orphan marker."""
    return labels.get(ORPHANED) == "true"


def orphan_patch(reason: OrphanReason, now: datetime) -> dict[str, Any]:
    """Return a JSON merge patch that marks a retained object and takes its tracking labels away."""
    at = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "metadata": {
            "labels": {ORPHANED: "true", TENANT: None, TENANT_NAMESPACE: None},
            "annotations": {ORPHANED_AT: at, ORPHANED_REASON: str(reason)},
        }
    }


def adoption_patch() -> dict[str, Any]:
    """Return a JSON merge patch that takes the orphan markers away again; also for `Once` resources."""
    return {
        "metadata": {
            "labels": {ORPHANED: None},
            "annotations": {ORPHANED_AT: None, ORPHANED_REASON: None},
        }
    }
