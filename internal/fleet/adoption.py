"""Workloads of a data plane that was replaced: which go over to the new one, and how each is written. Pure.

A data plane that was restored as another server has the same objects under another id. What the hub has of the former one is
handed over where the new one has the owner, by kind, namespace and name; nothing of a spec changes, so nothing rolls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from apis.fleet.labels import DATA_PLANE
from ctrlruntime.api.kinds import Manifest, RESTMapping
from ctrlruntime.resources import OWNER, OWNER_UID, OwnerKey
from internal.fleet.pods import WORKLOADS


@dataclass(frozen=True, slots=True)
class HandOver:
    """An object of the hub that gets another data plane, and the patch that does it."""

    mapping: RESTMapping
    metadata: Mapping[str, Any]
    owner: str
    """Key of its owner on the new data plane."""
    patch: Manifest


@dataclass(frozen=True, slots=True)
class Adoption:
    """What the hub has of the former data plane."""

    objects: list[HandOver] = field(default_factory=list)
    """To be handed over."""
    left: Counter[str] = field(default_factory=Counter)
    """Owners that the new data plane does not have, or deletes, and how many objects each has: these stay as they are."""
    unowned: int = 0
    """Objects that record no owner of the former data plane: they stay as they are."""


def owner_kinds(objects: Iterable[tuple[RESTMapping, Mapping[str, Any]]]) -> set[str]:
    """Return the kinds of owners that objects record, each as `Kind.group`."""
    keys = (OwnerKey.parse(_annotation(metadata, OWNER)) for _, metadata in objects)
    return {key.kind for key in keys if key is not None}


def plan_adoption(
    objects: Iterable[tuple[RESTMapping, Mapping[str, Any]]],
    living: Mapping[tuple[str, str, str], str],
    former: str,
    target: str,
) -> Adoption:
    """Return what is handed over from the former data plane to the target.

    `living`: the UIDs of the target's objects that are not being deleted, by kind, namespace and name.
    """
    left: Counter[str] = Counter()
    handed: list[HandOver] = []
    unowned = 0
    for mapping, metadata in objects:
        recorded = _annotation(metadata, OWNER)
        key = OwnerKey.parse(recorded)
        if key is None or key.cluster != former:
            unowned += 1
            continue
        uid = living.get((key.kind, key.namespace, key.name))
        if uid is None:
            left[recorded] += 1
            continue
        owner = f"{recorded.removesuffix(f'@{former}')}@{target}"
        handed.append(HandOver(mapping, metadata, owner, _patch(metadata, owner, uid, target)))
    # One owner after the other, and before workloads what they use: what cuts this short leaves one half done at most.
    handed.sort(key=lambda each: (each.owner, each.mapping.gvk.group_kind in WORKLOADS))
    return Adoption(handed, left, unowned)


def _patch(metadata: Mapping[str, Any], owner: str, uid: str, target: str) -> Manifest:
    """Return the patch of an object as it was read. One that was kept without an owner's UID gets none."""
    annotations = {OWNER: owner}
    if _annotation(metadata, OWNER_UID):
        annotations[OWNER_UID] = uid
    return {
        "metadata": {
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "labels": {DATA_PLANE: target},
            "annotations": annotations,
        }
    }


def _annotation(metadata: Mapping[str, Any], name: str) -> str:
    return str((metadata.get("annotations") or {}).get(name, ""))
