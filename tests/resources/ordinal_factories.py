"""Numbered Pods and claims, as desired and as the cache has them."""

from collections.abc import Iterable, Mapping
from typing import TypedDict, Unpack

import orjson

from ctrlruntime.api import BUILTIN, GroupVersionKind
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.resources import Desired, Diff, Owner, diff
from ctrlruntime.resources.desired import ObjectKey

POD = BUILTIN[GroupVersionKind("", "v1", "Pod")]
CLAIM = BUILTIN[GroupVersionKind("", "v1", "PersistentVolumeClaim")]
MANAGER = "numbers"
OWNER = Owner(
    gvk=GroupVersionKind("", "v1", "ConfigMap"), namespace="default", name="set", uid="uid-of-set"
)


class DesiredSettings(TypedDict, total=False):
    """Fields of `Desired` that tests set."""

    ordinal: int
    once: bool
    reference: bool
    labels: Mapping[str, str]
    ignored: tuple[str, ...]
    inputs: str
    roll_on_builder_change: bool


def pod(number: int, image: str = "app:1", **settings: Unpack[DesiredSettings]) -> Desired:
    manifest: Manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"set-{number}",
            "namespace": "default",
            "labels": {"app": "set"},
        },
        "spec": {"containers": [{"name": "app", "image": image}]},
    }
    return Desired(mapping=POD, manifest=manifest, instance=number, **settings)


def claim(
    number: int,
    size: str = "10Gi",
    spec: Manifest | None = None,
    **settings: Unpack[DesiredSettings],
) -> Desired:
    manifest: Manifest = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"data-set-{number}", "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "resources": {"requests": {"storage": size}},
            **(spec or {}),
        },
    }
    return Desired(mapping=CLAIM, manifest=manifest, instance=number, **settings)


def existing(item: Desired, *, owner: Owner = OWNER, **more: object) -> Entry:
    """What the cache holds after `item` was applied for `owner`; `more` replaces metadata, or is a status."""
    status = more.pop("status", None)
    body = item.body(owner)
    body["metadata"] |= {
        "uid": f"uid-of-{item.name}",
        "resourceVersion": "5",
        "managedFields": [
            {"manager": MANAGER, "operation": "Apply", "fieldsV1": _all_of(body)},
        ],
        **more,
    }
    if status is not None:
        body["status"] = status
    return EntryDecoder(item.mapping.gvk, track_manager=MANAGER).decode(orjson.dumps(body))


def _all_of(body: Manifest) -> Manifest:
    """Managed fields that own each part whole."""
    metadata: Manifest = {f"f:{name}": {} for name in ("labels", "annotations", "ownerReferences")}
    return {"f:metadata": metadata, "f:spec": {}}


def differences(desired: Iterable[Desired], entries: Iterable[Entry]) -> Diff:
    found = {
        ObjectKey(each.gvk.group_kind, each.name, namespace=each.namespace): each
        for each in entries
    }
    return diff(found, desired, OWNER)
