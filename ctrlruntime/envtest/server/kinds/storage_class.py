"""StorageClasses."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.kinds.immutable import fixed
from ctrlruntime.envtest.server.printers.column import Cells, age

_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


def is_default(obj: Manifest) -> bool:
    """Whether claims that name no class get this one."""
    annotations = obj["metadata"].get("annotations") or {}
    return bool(annotations.get(_DEFAULT_CLASS) == "true")


def _cells(obj: Manifest, now: datetime) -> Cells:
    return [
        obj["metadata"]["name"] + (" (default)" if is_default(obj) else ""),
        obj.get("provisioner") or "",
        obj.get("reclaimPolicy") or "Delete",
        obj.get("volumeBindingMode") or "Immediate",
        bool(obj.get("allowVolumeExpansion")),
        age(obj, now),
    ]


STORAGE_CLASS: Final = builtin_kind(
    "storage.k8s.io",
    "StorageClass",
    "storageclasses",
    "sc",
    namespaced=False,
    defaults=Defaults({"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
    rules=Rules(
        required={"provisioner": ""},
        enums={
            "reclaimPolicy": ("Delete", "Retain"),
            "volumeBindingMode": ("Immediate", "WaitForFirstConsumer"),
        },
    ),
    updates=(fixed("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"),),
    columns=("Name | Provisioner | ReclaimPolicy | VolumeBindingMode | AllowVolumeExpansion | Age"),
    cells=_cells,
)
