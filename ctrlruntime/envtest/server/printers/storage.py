"""Rows of volumes, claims and what provides them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.printers.column import (
    UNSET,
    Cells,
    Printer,
    age,
    columns,
    items,
    part,
)

_SHORT: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


def _modes(obj: dict[str, Any]) -> str:
    given = items(obj, "accessModes")
    return ",".join(short for mode, short in _SHORT.items() if mode in given)


def _phase(obj: Manifest) -> str:
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return str(part(obj, "status").get("phase") or "")


def _volume(obj: Manifest, now: datetime) -> Cells:
    spec, claim = part(obj, "spec"), part(part(obj, "spec"), "claimRef")
    return [
        obj["metadata"]["name"],
        part(spec, "capacity").get("storage") or "",
        _modes(spec),
        spec.get("persistentVolumeReclaimPolicy") or "",
        _phase(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or UNSET,
        part(obj, "status").get("reason") or "",
        age(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


def _claim(obj: Manifest, now: datetime) -> Cells:
    spec, status = part(obj, "spec"), part(obj, "status")
    bound = bool(spec.get("volumeName"))
    return [
        obj["metadata"]["name"],
        _phase(obj),
        spec.get("volumeName") or "",
        (part(status, "capacity").get("storage") or "") if bound else "",
        _modes(status) if bound else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or UNSET,
        age(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


def _class(obj: Manifest, now: datetime) -> Cells:
    default = (obj["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
    return [
        obj["metadata"]["name"] + (" (default)" if default else ""),
        obj.get("provisioner") or "",
        obj.get("reclaimPolicy") or "Delete",
        obj.get("volumeBindingMode") or "Immediate",
        bool(obj.get("allowVolumeExpansion")),
        age(obj, now),
    ]


_GROUP: Final = "storage.k8s.io"
STORAGE: Final[dict[tuple[str, str], Printer]] = {
    ("", "PersistentVolume"): Printer(
        columns(
            "Name | Capacity | Access Modes | Reclaim Policy | Status | Claim | StorageClass | "
            "VolumeAttributesClass | Reason | Age | VolumeMode+"
        ),
        _volume,
    ),
    ("", "PersistentVolumeClaim"): Printer(
        columns(
            "Name | Status | Volume | Capacity | Access Modes | StorageClass | "
            "VolumeAttributesClass | Age | VolumeMode+"
        ),
        _claim,
    ),
    (_GROUP, "StorageClass"): Printer(
        columns(
            "Name | Provisioner | ReclaimPolicy | VolumeBindingMode | AllowVolumeExpansion | Age"
        ),
        _class,
    ),
}
