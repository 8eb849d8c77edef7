"""Validation of `metadata`, with the messages of apimachinery."""

from __future__ import annotations

from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.name_rules import label, label_value, path_segment, qualified_name, subdomain
from ctrlruntime.envtest.server.errors import (
    FieldError,
    bad_value,
    forbidden_field,
    required,
    too_long,
)
from ctrlruntime.envtest.server.kinds import Kind

_ANNOTATION_LIMIT: Final = 256 * 1024
_FIXED: Final = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_STANDARD_FINALIZERS: Final = frozenset({"foregroundDeletion", "orphan", "kubernetes"})


_RULES: Final = {
    "subdomain": subdomain,
    "label": label,
    "path": path_segment,
}


def validate_name(kind: Kind, value: str, field: str, *, prefix: bool = False) -> list[FieldError]:
    rule = _RULES.get(kind.name_rule)
    if rule is None:
        return []
    tested = value[:-1] + "a" if prefix and value.endswith("-") else value
    return [bad_value(field, value, text) for text in rule(tested)]


def validate_metadata(kind: Kind, metadata: Manifest) -> list[FieldError]:
    """Return what holds for the metadata of every object, created or updated."""
    errors: list[FieldError] = []
    if prefix := metadata.get("generateName"):
        errors += validate_name(kind, prefix, "metadata.generateName", prefix=True)
    name = metadata.get("name")
    if not name:
        errors.append(required("metadata.name", "name or generateName is required"))
    else:
        errors += validate_name(kind, name, "metadata.name")
    errors += _namespace(kind, metadata.get("namespace", ""))
    errors += _named_values(metadata)
    if finalizers := metadata.get("finalizers"):
        errors += _finalizers(kind, finalizers)
    return errors


def _named_values(metadata: Manifest) -> list[FieldError]:
    errors: list[FieldError] = []
    if labels := metadata.get("labels"):
        errors += validate_labels(labels, "metadata.labels")
    if annotations := metadata.get("annotations"):
        errors += _annotations(annotations)
    if owners := metadata.get("ownerReferences"):
        errors += _owners(owners)
    return errors


def _namespace(kind: Kind, namespace: str) -> list[FieldError]:
    if not kind.namespaced:
        if namespace:
            return [forbidden_field("metadata.namespace", "not allowed on this type")]
        return []
    if not namespace:
        return [required("metadata.namespace")]
    return [bad_value("metadata.namespace", namespace, text) for text in label(namespace)]


def validate_labels(labels: dict[str, str], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for key, value in labels.items():
        errors += [bad_value(field, key, text) for text in qualified_name(key)]
        errors += [bad_value(field, value, text) for text in label_value(value)]
    return errors


def _annotations(annotations: dict[str, str]) -> list[FieldError]:
    errors: list[FieldError] = []
    size = 0
    for key, value in annotations.items():
        found = qualified_name(key.lower())
        errors += [bad_value("metadata.annotations", key, text) for text in found]
        size += len(key.encode()) + len(value.encode())
    if size > _ANNOTATION_LIMIT:
        errors.append(too_long("metadata.annotations", _ANNOTATION_LIMIT))
    return errors


def _owners(owners: list[dict[str, Any]]) -> list[FieldError]:
    errors: list[FieldError] = []
    controllers = [owner for owner in owners if owner.get("controller")]
    for owner in owners:
        field = "metadata.ownerReferences"
        if not owner.get("apiVersion"):
            errors.append(bad_value(f"{field}.apiVersion", "", "version must not be empty"))
        errors += [
            bad_value(f"{field}.{part}", "", "must not be empty")
            for part in ("kind", "name", "uid")
            if not owner.get(part)
        ]
        if owner.get("apiVersion") == "v1" and owner.get("kind") == "Event":
            errors.append(bad_value(field, "/v1, Kind=Event", "is disallowed from being an owner"))
    if len(controllers) > 1:
        first, second = controllers[0].get("name"), controllers[1].get("name")
        detail = (
            'Only one reference can have Controller set to true. Found "true" '
            f"in references for {first} and {second}"
        )
        errors.append(bad_value("metadata.ownerReferences", None, detail))
    return errors


def _finalizers(kind: Kind, finalizers: list[str]) -> list[FieldError]:
    # Only the kinds of the core project must qualify their names.
    strict = not kind.custom and kind.kind not in {"CustomResourceDefinition", "Lease"}
    errors: list[FieldError] = []
    for index, name in enumerate(finalizers):
        field = "metadata.finalizers"
        errors += [bad_value(field, name, text) for text in qualified_name(name)]
        if strict and "/" not in name and name not in _STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            errors.append(bad_value(f"{field}[{index}]", name, detail))
    if "foregroundDeletion" in finalizers and "orphan" in finalizers:
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(bad_value("metadata.finalizers", finalizers, detail))
    return errors


def validate_metadata_update(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return what an update may not change: name, namespace, uid, timestamps; no new finalizers while the object is being deleted."""
    errors: list[FieldError] = []
    if old.get("deletionTimestamp"):
        known = set(old.get("finalizers") or ())
        extra = [item for item in new.get("finalizers") or () if item not in known]
        if extra:
            listed = ", ".join(f'"{item}"' for item in extra)
            detail = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}"
            )
            errors.append(forbidden_field("metadata.finalizers", detail))
    errors += [
        bad_value(f"metadata.{part}", new.get(part), "field is immutable")
        for part in _FIXED
        if new.get(part) != old.get(part)
    ]
    return errors + _named_values(new)
