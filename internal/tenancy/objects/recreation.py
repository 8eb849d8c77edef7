"""`onImmutable: Recreate`: for which resources it may be asked, and what stays of an object that is made anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from apis.tenancy import CreationPolicy, DeletionPolicy, OnImmutable, TResource
from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.cache.entry import Entry
from ctrlruntime.gate import HOLDS_STATE
from ctrlruntime.resources import Desired

HOW_TO_RECREATE: Final = (
    "put the former value back, or have the object made anew with onImmutable: Recreate"
)
_HOLDING: Final = frozenset(
    {
        GroupKind("", "PersistentVolumeClaim"),
        GroupKind("", "PersistentVolume"),
        GroupKind("", "Namespace"),
        GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"),
    }
)
"""Kinds whose end takes data or other objects along."""
_STATEFUL_SET: Final = GroupKind("apps", "StatefulSet")


def check_recreation(resource: TResource, kind: GroupKind) -> list[str]:
    """Return why a resource may not be recreated, one sentence each."""
    if resource.on_immutable is not OnImmutable.RECREATE:
        return []
    found = []
    if why := _takes_along(kind, resource.spec.get("spec")):
        found.append(f"onImmutable: {why}")
    if resource.deletion_policy is DeletionPolicy.RETAIN:
        found.append("onImmutable: Recreate deletes the object, and deletionPolicy is Retain")
    if resource.creation_policy is CreationPolicy.ONCE:
        found.append(
            "onImmutable: with creationPolicy Once nothing is changed, so nothing is recreated"
        )
    return found


def takes_along(desired: Desired, entry: Entry) -> str:
    """Return why the present object is not deleted to make it anew: data would go along. Empty: none would."""
    kind = desired.mapping.gvk.group_kind
    if "true" in (
        entry.annotations.get(HOLDS_STATE),
        (desired.manifest["metadata"].get("annotations") or {}).get(HOLDS_STATE),
    ):
        return f"an object with the annotation {HOLDS_STATE} is not recreated, since what it holds would go"
    specs = (entry.field("spec"), desired.manifest.get("spec"))
    return next(filter(None, (_takes_along(kind, spec) for spec in specs)), "")


def _takes_along(kind: GroupKind, spec: object) -> str:
    """Return why an object of a kind with such a spec is not recreated; empty: it may be."""
    if kind in _HOLDING:
        return f"a {kind.kind} is not recreated, since what it holds would go"
    if kind != _STATEFUL_SET or not isinstance(spec, Mapping):
        return ""
    policy = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    deleted = policy.get("whenDeleted", "Retain") if isinstance(policy, Mapping) else policy
    if deleted == "Retain":
        return ""
    return (
        "a StatefulSet is not recreated unless persistentVolumeClaimRetentionPolicy.whenDeleted is Retain, since its "
        "PersistentVolumeClaims would go along"
    )


def keeps_pods(desired: Desired, entry: Entry) -> bool:
    """Whether the new object takes over the Pods of the present one, so that these run on."""
    if desired.mapping.gvk.group_kind != _STATEFUL_SET:
        return False
    present = (entry.field("spec") or {}).get("selector")
    wanted = (desired.manifest.get("spec") or {}).get("selector")
    return present is not None and present == wanted
