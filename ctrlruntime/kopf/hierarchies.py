"""Children of objects, and events about them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, Literal, cast

from ctrlruntime.kopf.bodies import FieldPath, field_path, resolve
from ctrlruntime.kopf.handling import current_invocation

__all__ = [
    "adjust_namespace",
    "adopt",
    "append_owner_reference",
    "event",
    "exception",
    "harmonize_naming",
    "info",
    "label",
    "remove_owner_reference",
    "warn",
]

Object = MutableMapping[str, Any]
Objects = Object | Iterable[Object]


def _each(objs: Objects) -> list[Object]:
    return [cast("Object", objs)] if isinstance(objs, Mapping) else list(objs)


def _owner(owner: Mapping[str, Any] | None) -> Mapping[str, Any]:
    found = owner if owner is not None else current_invocation().body
    if found is None:
        raise LookupError("there is no owner: name it, as kopf.adopt(child, owner=body)")
    return found


def adopt(
    objs: Objects,
    owner: Mapping[str, Any] | None = None,
    *,
    forced: bool = False,
    strict: bool = False,
    nested: str | FieldPath | Iterable[str | FieldPath] | None = None,
) -> None:
    """Make manifests children of the object that is handled, or of `owner`: owner reference, name, namespace, labels."""
    parent = _owner(owner)
    meta = parent.get("metadata") or {}
    append_owner_reference(objs, parent)
    harmonize_naming(objs, meta.get("name"), forced=forced, strict=strict)
    adjust_namespace(objs, meta.get("namespace"), forced=forced)
    label(objs, meta.get("labels") or {}, forced=forced, nested=nested)


def _reference(owner: Mapping[str, Any]) -> dict[str, Any]:
    meta = owner.get("metadata") or {}
    return {
        "apiVersion": owner.get("apiVersion"),
        "kind": owner.get("kind"),
        "name": meta.get("name"),
        "uid": meta.get("uid"),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def append_owner_reference(
    objs: Objects,
    owner: Mapping[str, Any] | None = None,
    *,
    controller: bool = True,
    block_owner_deletion: bool = True,
) -> None:
    """Add an owner reference to manifests that have none to this owner."""
    options = {"controller": controller, "blockOwnerDeletion": block_owner_deletion}
    reference = _reference(_owner(owner)) | options
    for obj in _each(objs):
        references = obj.setdefault("metadata", {}).setdefault("ownerReferences", [])
        if all(each.get("uid") != reference["uid"] for each in references):
            references.append(dict(reference))


def remove_owner_reference(objs: Objects, owner: Mapping[str, Any] | None = None) -> None:
    """Take the owner references to an owner away."""
    uid = _reference(_owner(owner))["uid"]
    for obj in _each(objs):
        meta = obj.setdefault("metadata", {})
        kept = [each for each in meta.get("ownerReferences") or () if each.get("uid") != uid]
        meta["ownerReferences"] = kept


def harmonize_naming(
    objs: Objects, name: str | None = None, *, forced: bool = False, strict: bool = False
) -> None:
    """Name manifests without a name after the owner: exactly if `strict`, otherwise with a suffix of the server's."""
    name = name or (_owner(None).get("metadata") or {}).get("name")
    for obj in _each(objs):
        meta = obj.setdefault("metadata", {})
        if forced or not (meta.get("name") or meta.get("generateName")):
            meta.pop("name", None)
            meta.pop("generateName", None)
            meta["name" if strict else "generateName"] = name if strict else f"{name}-"


def adjust_namespace(objs: Objects, namespace: str | None = None, *, forced: bool = False) -> None:
    """Put manifests without a namespace into that of the owner."""
    namespace = namespace or (_owner(None).get("metadata") or {}).get("namespace")
    for obj in _each(objs):
        meta = obj.setdefault("metadata", {})
        if namespace and (forced or "namespace" not in meta):
            meta["namespace"] = namespace


def label(
    objs: Objects,
    labels: Mapping[str, str | None] | None = None,
    *,
    forced: bool = False,
    nested: str | FieldPath | Iterable[str | FieldPath] | None = None,
) -> None:
    """Add labels, those of the owner by default; also in the templates that `nested` names, where they exist."""
    if labels is None:
        labels = (_owner(None).get("metadata") or {}).get("labels") or {}
    fields = [nested] if isinstance(nested, str) else list(nested or ())
    for obj in _each(objs):
        inner = [resolve(obj, field_path(field)) for field in fields]
        for each in [obj, *(found for found in inner if isinstance(found, MutableMapping))]:
            present = each.setdefault("metadata", {}).setdefault("labels", {})
            new = labels if forced else {key: present.get(key, labels[key]) for key in labels}
            present.update(new)


def event(
    objs: Mapping[str, Any] | Iterable[Mapping[str, Any]],
    *,
    type: str,  # noqa: A002 - kopf's name
    reason: str,
    message: str = "",
) -> None:
    """Record an Event about objects. It is sent in the background; from threads too."""
    current = current_invocation()
    if current.recorder is None:
        raise LookupError("events can be recorded in handlers of objects alone")
    kind: Literal["Normal", "Warning"] = "Warning" if type in ("Warning", "Error") else "Normal"
    for obj in [objs] if isinstance(objs, Mapping) else objs:
        args = (obj, kind, reason, "Handle", message)
        current.loop.call_soon_threadsafe(current.recorder.event, *args)


def info(
    objs: Mapping[str, Any] | Iterable[Mapping[str, Any]], *, reason: str, message: str = ""
) -> None:
    """Record a normal Event."""
    event(objs, type="Normal", reason=reason, message=message)


def warn(
    objs: Mapping[str, Any] | Iterable[Mapping[str, Any]], *, reason: str, message: str = ""
) -> None:
    """Record a warning."""
    event(objs, type="Warning", reason=reason, message=message)


def exception(
    objs: Mapping[str, Any] | Iterable[Mapping[str, Any]],
    *,
    reason: str = "",
    message: str = "",
    exc: BaseException | None = None,
) -> None:
    """Record the exception that is being handled, or `exc`, as a warning."""
    error = exc if exc is not None else sys.exc_info()[1]
    name = type(error).__name__ if error is not None else ""
    event(objs, type="Warning", reason=reason or name, message=f"{message} {error}".strip())
