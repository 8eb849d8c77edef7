"""PersistentVolumes."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.kinds.persistent_volume_claim import access_modes, finalizer, phase
from ctrlruntime.envtest.server.printers.column import UNSET, Cells, age, part


def _admit(obj: Manifest) -> None:
    finalizer(obj, "kubernetes.io/pv-protection")


def _cells(obj: Manifest, now: datetime) -> Cells:
    spec, claim = part(obj, "spec"), part(part(obj, "spec"), "claimRef")
    return [
        obj["metadata"]["name"],
        part(spec, "capacity").get("storage") or "",
        access_modes(spec),
        spec.get("persistentVolumeReclaimPolicy") or "",
        phase(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or UNSET,
        part(obj, "status").get("reason") or "",
        age(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


PERSISTENT_VOLUME: Final = builtin_kind(
    "",
    "PersistentVolume",
    "persistentvolumes",
    "pv",
    namespaced=False,
    subresources=("status",),
    spec_defaults=Defaults(
        {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
        {"hostPath": Defaults({"type": ""})},
    ),
    status={"phase": "Pending"},
    columns=(
        "Name | Capacity | Access Modes | Reclaim Policy | Status | Claim | StorageClass | "
        "VolumeAttributesClass | Reason | Age | VolumeMode+"
    ),
    cells=_cells,
    admit=_admit,
)
