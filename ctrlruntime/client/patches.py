"""Kinds of patches, and the merge patch that separates two versions of an object."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.resource import Resource


class PatchType(StrEnum):
    """The content types of PATCH."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON merge patch (RFC 7386) that turns ``old`` into ``new``; empty if they are equal.

    Lists are replaced whole. What ``old`` has and ``new`` lacks becomes null. Values are compared as
    Python does (1, 1.0 and true are equal), which no field's schema can tell apart.
    """
    patch: dict[str, Any] = {}
    for key, value in new.items():
        if key not in old:
            patch[key] = value
            continue
        before = old[key]
        if before == value:
            continue
        if type(value) is dict and type(before) is dict:
            patch[key] = difference(before, value)
        else:
            patch[key] = value
    for key in old:
        if key not in new:
            patch[key] = None
    return patch


def add_zeros(patch: Manifest, wanted: Manifest, stored: Manifest) -> None:
    """Add to a patch the counts of `wanted` that are zero and not stored: kubectl shows nothing for an absent one."""
    for name, value in wanted.items():
        if isinstance(value, dict):
            inner = patch.get(name) or {}
            add_zeros(inner, value, stored.get(name) or {})
            if inner:
                patch[name] = inner
        elif type(value) is int and value == 0 and name not in stored:
            patch.setdefault(name, value)


def merge_patch(
    old: Manifest | Resource[Any, Any],
    new: Manifest | Resource[Any, Any],
    *,
    optimistic_lock: bool = False,
) -> dict[str, Any]:
    """Return the merge patch from ``old`` to ``new``, two versions of one object.

    With ``optimistic_lock`` the server refuses it with Conflict if the object has changed since
    ``old`` was read; ValueError if ``old`` has no resourceVersion. An empty patch stays empty.
    """
    before, after = manifest_of(old), manifest_of(new)
    patch = difference(before, after)
    if metadata := patch.get("metadata"):
        metadata.pop("managedFields", None)
        metadata.pop("resourceVersion", None)
        if not metadata:
            del patch["metadata"]
    if optimistic_lock:
        version = before.get("metadata", {}).get("resourceVersion")
        if not version:
            raise ValueError(
                "an optimistic lock needs the resourceVersion of the object as it was read"
            )
        if patch:
            patch.setdefault("metadata", {})["resourceVersion"] = version
    return patch


def manifest_of(obj: Manifest | Resource[Any, Any]) -> Manifest:
    """Return an object as it is sent; a manifest is returned as it is."""
    return obj if isinstance(obj, dict) else obj.to_manifest()
