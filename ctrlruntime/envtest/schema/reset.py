"""Which fields a write to a resource or subresource ignores: spec writes, status writes."""

from __future__ import annotations

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.envtest.merge import fields
from ctrlruntime.envtest.merge.fields import FieldSet

_STATUS = fields.of(("f:status",))
_SPEC = fields.of(("f:spec",))

_WITH_STATUS = frozenset(
    {
        ("", "Namespace"),
        ("", "Node"),
        ("", "PersistentVolume"),
        ("", "PersistentVolumeClaim"),
        ("", "Pod"),
        ("", "ReplicationController"),
        ("", "ResourceQuota"),
        ("", "Service"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("apps", "DaemonSet"),
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("autoscaling", "HorizontalPodAutoscaler"),
        ("batch", "CronJob"),
        ("batch", "Job"),
        ("networking.k8s.io", "Ingress"),
        ("policy", "PodDisruptionBudget"),
        ("storage.k8s.io", "VolumeAttachment"),
    }
)

_STATUS_WRITES: dict[tuple[str, str], FieldSet] = {
    ("apps", "Deployment"): fields.of(("f:spec",), ("f:metadata", "f:labels")),
    ("", "Pod"): fields.of(
        ("f:spec",),
        ("f:metadata", "f:deletionTimestamp"),
        ("f:metadata", "f:ownerReferences"),
    ),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): fields.of(("f:metadata",), ("f:spec",)),
}


def builtin_reset(gvk: GroupVersionKind) -> dict[str, FieldSet]:
    """By subresource (the empty name: the resource itself)."""
    kind = (gvk.group, gvk.kind)
    if kind not in _WITH_STATUS:
        return {}
    return {"": _STATUS, "status": _STATUS_WRITES.get(kind, _SPEC)}


def custom_reset(*, status: bool) -> dict[str, FieldSet]:
    """For a custom kind with or without the status subresource."""
    if not status:
        return {}
    return {"": _STATUS, "status": fields.of(("f:metadata",), ("f:spec",))}
