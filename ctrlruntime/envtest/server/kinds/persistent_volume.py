"""PersistentVolumes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.errors import FieldError, forbidden_field, not_supported, required
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.kinds.persistent_volume_claim import access_modes, finalizer, phase
from ctrlruntime.envtest.server.printers.column import UNSET, Cells, age, part


def _admit(obj: Manifest) -> None:
    finalizer(obj, "kubernetes.io/pv-protection")


_NO_SOURCE: Final = frozenset(
    {
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    }
)


def _check(spec: Manifest, prefix: str) -> Iterator[FieldError]:
    capacity = spec.get("capacity") or {}
    if "storage" not in capacity or len(capacity) > 1:
        yield not_supported(f"{prefix}capacity", capacity, ("storage",))
    sources = sorted(set(spec) - _NO_SOURCE)
    if not sources:
        yield required(prefix.rstrip("."), "must specify a volume type")
    for each in sources[1:]:
        yield forbidden_field(f"{prefix}{each}", "may not specify more than 1 volume type")
    if "local" in spec and not spec.get("nodeAffinity"):
        yield required(f"{prefix}nodeAffinity", "Local volume requires node affinity")


def _create(obj: Manifest) -> None:
    obj["status"] = {
        "phase": "Pending",
        "lastPhaseTransitionTime": obj["metadata"]["creationTimestamp"],
    }


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
    spec_rules=Rules(
        required={"capacity": "", "accessModes": ""},
        checks=(_check,),
    ),
    columns=(
        "Name | Capacity | Access Modes | Reclaim Policy | Status | Claim | StorageClass | "
        "VolumeAttributesClass | Reason | Age | VolumeMode+"
    ),
    cells=_cells,
    admit=_admit,
    before_create=_create,
)
