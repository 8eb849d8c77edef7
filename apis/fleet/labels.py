"""Names that the operator, the stacks and their users share: labels, annotations, objects."""

from __future__ import annotations

from typing import Final

from .common import GROUP

__all__ = [
    "ADMISSION_SECRET",
    "ADMISSION_URL",
    "APPROVE_ORPHANS",
    "DATA_PLANE",
    "DATA_PLANE_ID",
    "KUBECONFIG_KEY",
    "KUBECONFIG_MOUNT",
    "KUBECONFIG_PATH",
    "KUBECONFIG_SECRET",
    "LEASE",
    "MOVED_FROM",
    "MOVED_TO",
    "MOVING_TO",
    "ORPHAN_RECORD",
    "PARALLEL_PREFIX",
    "PLANE",
    "PLANE_NAMESPACE",
    "ROW",
    "ROW_GONE",
    "ROW_PRESENT",
    "TARGET_NAMESPACE",
    "WORKERS_LEASE",
]

DATA_PLANE: Final = f"{GROUP}/data-plane"
"""Label. On a namespace of the hub with the value `true`, set by its owner: deploy a stack there. On every
other object of the hub that belongs to a plane: that plane's id."""
TARGET_NAMESPACE: Final = f"{GROUP}/target-namespace"
"""Label `true` that the operator sets before it deploys to a namespace, and removes last."""
DATA_PLANE_ID: Final = f"{GROUP}/data-plane-id"
"""Annotation of a target namespace: the UID of the namespace `kube-system` of its data plane."""
ADMISSION_URL: Final = f"{GROUP}/admission-url"
"""Annotation of a target namespace: the URL at which the data plane's API server reaches its admission webhooks."""
APPROVE_ORPHANS: Final = f"{GROUP}/allow-delete"
"""Annotation of a target namespace: the digest of the objects on the hub, of owners that are gone from the data plane,
that may be deleted although they wait. It counts once."""
ORPHAN_RECORD: Final = "fleet-orphans"
"""ConfigMap of a target namespace: what its stack let go within 24 hours, and what waits for an approval."""
MOVING_TO: Final = f"{GROUP}/moving-to"
"""Annotation of a Tenant that `manager fleet move` moves: the id of the data plane that it goes to."""
MOVED_FROM: Final = f"{GROUP}/moved-from"
"""Annotation of a Tenant that was moved: the id of the data plane that it came from."""
MOVED_TO: Final = f"{GROUP}/moved-to"
"""Annotation of the Lease on a data plane: the ids of the data planes that Tenants were moved to from there, separated by
commas. It outlives a hub that is restored from before."""
ROW: Final = f"{GROUP}/row"
"""Annotation of a Tenant that moves and that a registry made: whether that registry still has its row. It is
written by the registry, which does not delete the Tenant from then on."""
ROW_PRESENT: Final = "present"
"""Value of ROW: the row is active, so the Tenant is as it would be without the move."""
ROW_GONE: Final = "gone"
"""Value of ROW: without the move the Tenant would be deleted."""
PARALLEL_PREFIX: Final = f"parallel.{GROUP}/"
"""Prefix of the label on a hub namespace that lets the stack of a target namespace write there; the
target namespace's name follows."""
PLANE: Final = f"{GROUP}/plane"
"""Annotation of an object of a Tenant: `hub` or `data`, the server that it goes to."""
KUBECONFIG_SECRET: Final = "data-plane-kubeconfig"  # noqa: S105 - a name
"""Secret of a target namespace, made by its owner."""
KUBECONFIG_KEY: Final = "kubeconfig"
"""Key of the Secret."""
KUBECONFIG_MOUNT: Final = "/etc/data-plane"
"""Directory of the Secret in every Pod of a stack."""
KUBECONFIG_PATH: Final = f"{KUBECONFIG_MOUNT}/{KUBECONFIG_KEY}"
"""File of the kubeconfig in every Pod of a stack."""
PLANE_NAMESPACE: Final = "fleet-system"
"""Namespace on a data plane, part of what is installed there; it holds the Lease."""
LEASE: Final = "fleet-controllers"
"""Lease on a data plane, of the elected controllers of its stack."""
ADMISSION_SECRET: Final = "fleet-admission-certificates"  # noqa: S105 - a name
"""Secret on a data plane, of the certificates that the admission Pods of its stack make."""
WORKERS_LEASE: Final = "fleet-workers"
"""Lease on a data plane, of the elected worker of its stack."""
