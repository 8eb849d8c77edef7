"""The annotation of client-side apply, and how kubectl moves from it to server-side apply."""

from __future__ import annotations

from typing import Any

import orjson

from ctrlruntime.envtest.merge import fields
from ctrlruntime.envtest.merge.comparing import compare
from ctrlruntime.envtest.merge.fields import FieldSet
from ctrlruntime.envtest.merge.typed import TypeMismatch, TypeNode, check, field_set

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
MANAGER = "kubectl"
"""The one manager for which the annotation is honoured and kept up to date."""


def _annotations(obj: dict[str, Any]) -> dict[str, Any]:
    return (obj.get("metadata") or {}).get("annotations") or {}


def present(obj: dict[str, Any]) -> bool:
    return ANNOTATION in _annotations(obj)


def settled_fields(live: dict[str, Any], node: TypeNode) -> FieldSet:
    """Return the fields that client-side apply set to the values they still have."""
    text = _annotations(live).get(ANNOTATION)
    if not text:
        return {}
    try:
        before = orjson.loads(text)
        if not isinstance(before, dict):
            return {}
        check(before, node)
    except (orjson.JSONDecodeError, TypeMismatch):
        return {}
    difference = compare(before, live, node)
    settled = fields.difference(field_set(before, node), difference.modified)
    return fields.difference(settled, difference.removed)


def record(obj: dict[str, Any], applied: dict[str, Any]) -> dict[str, Any]:
    """``obj`` with the annotation set to what was applied now."""
    metadata = dict(applied.get("metadata") or {})
    metadata.pop("managedFields", None)
    annotations = dict(metadata.get("annotations") or {})
    annotations.pop(ANNOTATION, None)
    if annotations:
        metadata["annotations"] = annotations
    else:
        metadata.pop("annotations", None)
    text = orjson.dumps({**applied, "metadata": metadata}, option=orjson.OPT_SORT_KEYS).decode()
    mine = obj.get("metadata") or {}
    with_text = {**_annotations(obj), ANNOTATION: text + "\n"}
    return {**obj, "metadata": {**mine, "annotations": with_text}}
