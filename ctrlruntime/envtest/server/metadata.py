"""Validation of `metadata`, with the messages of apimachinery."""

from __future__ import annotations

import re
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.errors import (
    FieldError,
    bad_value,
    forbidden_field,
    required,
    too_long,
)
from ctrlruntime.envtest.server.kinds import Kind

_SUBDOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035: Final = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"

_SUBDOMAIN_RE: Final = re.compile(_SUBDOMAIN, re.ASCII)
_LABEL_RE: Final = re.compile(_LABEL, re.ASCII)
_LABEL_1035_RE: Final = re.compile(_LABEL_1035, re.ASCII)
_QUALIFIED_RE: Final = re.compile(_QUALIFIED, re.ASCII)
_VALUE_RE: Final = re.compile(_VALUE, re.ASCII)

SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character "
    f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character "
    f"(e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
LABEL_1035_TEXT: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character "
    f"(e.g. 'my-name',  or 'abc-123', regex used for validation is '{_LABEL_1035}')"
)
_NAME_PART: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED}')"
)
_VALUE_TEXT: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character "
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_VALUE}')"
)
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


def subdomain(value: str) -> list[str]:
    texts = [] if len(value) <= 253 else ["must be no more than 253 characters"]
    return texts if _SUBDOMAIN_RE.fullmatch(value) else [*texts, SUBDOMAIN_TEXT]


def label(value: str) -> list[str]:
    texts = [] if len(value) <= 63 else ["must be no more than 63 characters"]
    if _LABEL_RE.fullmatch(value):
        return texts
    return [*texts, "must not contain dots" if _SUBDOMAIN_RE.fullmatch(value) else LABEL_TEXT]


def label_1035(value: str) -> list[str]:
    texts = [] if len(value) <= 63 else ["must be no more than 63 characters"]
    return texts if _LABEL_1035_RE.fullmatch(value) else [*texts, LABEL_1035_TEXT]


def path_segment(value: str) -> list[str]:
    if value in {".", ".."}:
        return [f"may not be '{value}'"]
    return [f"may not contain '{sign}'" for sign in "/%" if sign in value]


def qualified_name(value: str) -> list[str]:
    """Return a label key, annotation key or finalizer: `name` or `prefix/name`."""
    return [] if _QUALIFIED_RE.fullmatch(value) and len(value) <= 63 else _unqualified(value)


def _unqualified(value: str) -> list[str]:
    prefix, slash, name = value.partition("/")
    if not slash:
        prefix, name = "", value
    elif "/" in name:
        text = f"a qualified name {_NAME_PART} with an optional DNS subdomain prefix and '/' "
        return [text + "(e.g. 'example.com/MyName')"]
    texts: list[str] = []
    if slash and not prefix:
        texts.append("prefix part must be non-empty")
    elif slash:
        texts += [f"prefix part {text}" for text in subdomain(prefix)]
    if not name:
        texts.append("name part must be non-empty")
    elif len(name) > 63:
        texts.append("name part must be no more than 63 characters")
    if not _QUALIFIED_RE.fullmatch(name):
        texts.append(f"name part {_NAME_PART}")
    return texts


def label_value(value: str) -> list[str]:
    texts = [] if len(value) <= 63 else ["must be no more than 63 characters"]
    return texts if _VALUE_RE.fullmatch(value) else [*texts, _VALUE_TEXT]


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
