"""In which order objects are applied; they are pruned in the reverse one."""

from collections.abc import Sequence
from typing import Final

_FIRST: Final[Sequence[frozenset[str]]] = (
    frozenset({"Namespace"}),
    frozenset({"CustomResourceDefinition"}),
    frozenset({"PriorityClass", "StorageClass", "IngressClass", "RuntimeClass"}),
    frozenset({"ResourceQuota", "LimitRange", "NetworkPolicy"}),
    frozenset({"ServiceAccount", "ClusterRole", "Role"}),
    frozenset({"ClusterRoleBinding", "RoleBinding"}),
    frozenset({"ConfigMap", "Secret"}),
    frozenset({"PersistentVolume", "PersistentVolumeClaim"}),
    frozenset({"Service"}),
    frozenset({"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Pod", "Job", "CronJob"}),
    frozenset({"PodDisruptionBudget", "HorizontalPodAutoscaler", "Ingress"}),
)
_WEBHOOKS: Final = frozenset({"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"})

AWAITED: Final = frozenset({"Namespace", "CustomResourceDefinition"})
"""Kinds that must be ready before anything of a later rank is applied."""


def rank(kind: str) -> int:
    """Lower ranks first. Kinds of one's own come after the known ones, webhooks last of all."""
    if kind in _WEBHOOKS:
        return len(_FIRST) + 1
    for number, kinds in enumerate(_FIRST):
        if kind in kinds:
            return number
    return len(_FIRST)
