"""Which fields a write to a resource or subresource ignores: spec writes, status writes."""

from __future__ import annotations

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.envtest.merge import fields
from ctrlruntime.envtest.merge.fields import FieldSet

_STATUS = fields.of(("f:status",))
_SPEC = fields.of(("f:spec",))

_STATUS_WRITES: dict[tuple[str, str], FieldSet] = {
    ("apps", "Deployment"): fields.of(("f:spec",), ("f:metadata", "f:labels")),
    ("", "Pod"): fields.of(
        ("f:spec",),
        ("f:metadata", "f:deletionTimestamp"),
        ("f:metadata", "f:ownerReferences"),
    ),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): fields.of(("f:metadata",), ("f:spec",)),
}


def builtin_reset(gvk: GroupVersionKind, *, status: bool) -> dict[str, FieldSet]:
    """By subresource (the empty name: the resource itself); `status`: the kind has that one."""
    if not status:
        return {}
    return {"": _STATUS, "status": _STATUS_WRITES.get((gvk.group, gvk.kind), _SPEC)}


def custom_reset(*, status: bool) -> dict[str, FieldSet]:
    """For a custom kind with or without the status subresource."""
    if not status:
        return {}
    return {"": _STATUS, "status": fields.of(("f:metadata",), ("f:spec",))}
