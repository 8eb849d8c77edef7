"""Annotations of people that keep the manager from working on an object: pausing, extraction, superseded upgrades."""

from collections.abc import Mapping

from ctrlruntime.controller import annotations as annotation_keys
from internal.cloud.labels import CONTROL_PLANE_MODE, PAUSED, SUPERSEDED


def pausing_annotation(annotations: Mapping[str, str]) -> str:
    """Return the annotation that keeps new work on the object from starting, or an empty text."""
    if annotations.get(PAUSED, "").lower() == "true":
        return PAUSED
    return annotation_keys.PAUSED if annotation_keys.is_paused(annotations) else ""


def is_paused(annotations: Mapping[str, str]) -> bool:
    """Whether no new work may start for the object."""
    return bool(pausing_annotation(annotations))


def is_superseded_upgrade(annotations: Mapping[str, str]) -> bool:
    """Whether the object is an upgrade to what is no longer wanted."""
    return annotations.get(SUPERSEDED, "").lower() == "true"


def is_extracted(annotations: Mapping[str, str]) -> bool:
    """Whether nothing at all may be written for the instance and its subresources."""
    return annotations.get(CONTROL_PLANE_MODE, "").lower() == "false"
