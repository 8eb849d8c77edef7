"""The kinds that the ClusterRole `edit` of Kubernetes lets an account create, change and delete."""

from __future__ import annotations

from typing import Final

from ctrlruntime.api.kinds import GroupKind

_KINDS: Final = {
    "": (
        "ConfigMap",
        "Event",
        "PersistentVolumeClaim",
        "Pod",
        "ReplicationController",
        "Secret",
        "Service",
        "ServiceAccount",
    ),
    "apps": ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"),
    "autoscaling": ("HorizontalPodAutoscaler",),
    "batch": ("CronJob", "Job"),
    "coordination.k8s.io": ("Lease",),
    "events.k8s.io": ("Event",),
    "networking.k8s.io": ("Ingress", "NetworkPolicy"),
    "policy": ("PodDisruptionBudget",),
    "resource.k8s.io": ("ResourceClaim", "ResourceClaimTemplate"),
}

EDITABLE: Final = frozenset(
    GroupKind(group, kind) for group, kinds in _KINDS.items() for kind in kinds
)
"""What `system:aggregate-to-edit` of the newest supported Kubernetes grants; a test compares the two."""
