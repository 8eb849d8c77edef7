"""PersistentVolumeClaims."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.schema.quantity import value_of
from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.errors import (
    FieldError,
    bad_value,
    forbidden_field,
    not_supported,
    required,
)
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.kinds.immutable import get_path, without
from ctrlruntime.envtest.server.printers.column import UNSET, Cells, age, items, part

_Object = dict[str, Any]
CLAIM: Final = Defaults(
    {"spec": {}, "status": {}},
    {"spec": Defaults({"volumeMode": "Filesystem"}), "status": Defaults({"phase": "Pending"})},
)


def _sources(obj: Manifest) -> None:
    """Give a claim both names of its source: the older one holds no namespace."""
    spec = obj["spec"]
    old, new = spec.get("dataSource"), spec.get("dataSourceRef")
    if old and not new:
        spec["dataSourceRef"] = dict(old)
    elif new and not old and not new.get("namespace"):
        spec["dataSource"] = dict(new)


_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def _check(spec: _Object, prefix: str) -> Iterator[FieldError]:
    for mode in spec.get("accessModes") or ():
        if mode not in _ACCESS_MODES:
            yield not_supported(f"{prefix}accessModes", mode, _ACCESS_MODES)
    requests = (spec.get("resources") or {}).get("requests") or {}
    if "storage" not in requests:
        yield required(f"{prefix}resources[storage]")
    elif value_of(requests["storage"]) <= 0:
        shown = requests["storage"]
        yield bad_value(f"{prefix}resources[storage]", shown, "must be greater than zero")


def _frozen(new: _Object, old: _Object) -> Iterator[FieldError]:
    free = {"volumeAttributesClassName"}
    if (new.get("status") or {}).get("phase") == "Bound":
        free.add("resources")
    if not old["spec"].get("volumeName"):
        free.add("volumeName")
    if not old["spec"].get("storageClassName"):
        free.add("storageClassName")
    if without(new["spec"], free) != without(old["spec"], free):
        yield forbidden_field(
            "spec",
            "spec is immutable after creation except resources.requests and "
            "volumeAttributesClassName for bound claims",
        )


def _size(new: _Object, old: _Object) -> Iterator[FieldError]:
    path = "spec.resources.requests.storage"
    before, after = get_path(old, path), get_path(new, path)
    if before is not None and (after is None or value_of(after) < value_of(before)):
        yield forbidden_field(path, "field can not be less than status.capacity")


def finalizer(obj: Manifest, name: str) -> None:
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if name not in finalizers:
        finalizers.append(name)


def _admit(obj: Manifest) -> None:
    finalizer(obj, "kubernetes.io/pvc-protection")


_SHORT: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def access_modes(obj: dict[str, Any]) -> str:
    given = items(obj, "accessModes")
    return ",".join(short for mode, short in _SHORT.items() if mode in given)


def phase(obj: Manifest) -> str:
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return str(part(obj, "status").get("phase") or "")


def _cells(obj: Manifest, now: datetime) -> Cells:
    spec, status = part(obj, "spec"), part(obj, "status")
    bound = bool(spec.get("volumeName"))
    return [
        obj["metadata"]["name"],
        phase(obj),
        spec.get("volumeName") or "",
        (part(status, "capacity").get("storage") or "") if bound else "",
        access_modes(status) if bound else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or UNSET,
        age(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


PERSISTENT_VOLUME_CLAIM: Final = builtin_kind(
    "",
    "PersistentVolumeClaim",
    "persistentvolumeclaims",
    "pvc",
    subresources=("status",),
    defaults=CLAIM,
    status={"phase": "Pending"},
    spec_rules=Rules(
        required={"accessModes": "at least 1 access mode is required"},
        enums={"volumeMode": ("Block", "Filesystem")},
        checks=(_check,),
    ),
    updates=(_frozen, _size),
    columns=(
        "Name | Status | Volume | Capacity | Access Modes | StorageClass | "
        "VolumeAttributesClass | Age | VolumeMode+"
    ),
    cells=_cells,
    admit=_admit,
    before_create=_sources,
)
