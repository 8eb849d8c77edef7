"""How a kind prepares objects for storage: what a write may touch, status, generation, checks.

The counterpart of upstream's registry strategies. What differs between built-in kinds is in `kinds`.
"""

from __future__ import annotations

from typing import Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.clock import new_uid
from ctrlruntime.envtest.server import conversion
from ctrlruntime.envtest.server.errors import FieldError, StatusError, bad_value, invalid
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.metadata import validate_metadata, validate_metadata_update
from ctrlruntime.envtest.server.state import State

_OUTSIDE_CONTENT: Final = frozenset({"metadata", "status", "apiVersion", "kind"})
_DELETION: Final = ("deletionTimestamp", "deletionGracePeriodSeconds")
_KEPT: Final = ("uid", "creationTimestamp", *_DELETION)


def counts_generation(kind: Kind) -> bool:
    return kind.custom or kind.generation


def prepare_create(kind: Kind, obj: Manifest, now: str) -> None:
    """System fields of a new object; status is what the server gives it."""
    metadata = obj["metadata"]
    tidy(metadata)
    for name in ("selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
        metadata.pop(name, None)
    metadata["uid"] = new_uid()
    metadata["creationTimestamp"] = now
    if counts_generation(kind):
        metadata["generation"] = 1
    if kind.has_status:
        _initial_status(kind, obj)


def tidy(metadata: Manifest) -> None:
    """Empty lists and maps of metadata are never stored."""
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        if name in metadata and not metadata[name]:
            del metadata[name]


def _initial_status(kind: Kind, obj: Manifest) -> None:
    if kind.custom:
        obj.pop("status", None)
    elif kind.builtin.status is not None:
        obj["status"] = dict(kind.builtin.status)


def prepare_update(kind: Kind, new: Manifest, old: Manifest, subresource: str) -> None:
    """Restore what this write may not touch, and count the generation."""
    metadata, before = new["metadata"], old["metadata"]
    tidy(metadata)
    if not kind.custom and "spec" in old:
        new.setdefault("spec", {})  # in Go it is a struct, and always there
    for name in _KEPT:
        if name == "creationTimestamp" or not metadata.get(name):
            _restore(metadata, before, name)
    metadata.pop("selfLink", None)
    _restore(metadata, before, "generation")
    if subresource == "status":
        _only_status(kind, new, old)
        return
    if kind.has_status and subresource != "binding":
        _restore(new, old, "status")
    if counts_generation(kind) and _content_differs(kind, new, old):
        metadata["generation"] = before.get("generation", 0) + 1


def unsent_deletion(new: Manifest, old: Manifest) -> Manifest:
    """Return what of the mark of a deletion an update does not repeat; to be asked before it is restored."""
    metadata, before = new["metadata"], old["metadata"]
    return {
        name: before[name] for name in _DELETION if name in before and metadata.get(name) is None
    }


def _restore(new: Manifest, old: Manifest, name: str) -> None:
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def _only_status(kind: Kind, new: Manifest, old: Manifest) -> None:
    for name in [key for key in new if key not in _OUTSIDE_CONTENT]:
        if name not in old:
            del new[name]
    for name in old:
        if name not in {"metadata", "status"}:
            new[name] = old[name]
    if kind.custom or kind.kind == "CustomResourceDefinition":
        managed = new["metadata"].get("managedFields")
        version = new["metadata"].get("resourceVersion")
        new["metadata"] = dict(old["metadata"])
        if managed is not None:
            new["metadata"]["managedFields"] = managed
        if version is not None:
            new["metadata"]["resourceVersion"] = version


def _content_differs(kind: Kind, new: Manifest, old: Manifest) -> bool:
    ignored = (
        _OUTSIDE_CONTENT if kind.has_status or not kind.custom else _OUTSIDE_CONTENT - {"status"}
    )
    for name in new.keys() | old.keys():
        if name not in ignored and new.get(name) != old.get(name):
            return True
    if kind.resource == "deployments.apps" and _annotations(new) != _annotations(old):
        return True  # a new generation lets the controller copy them to its replica sets
    deleted = "deletionTimestamp"
    return bool(new["metadata"].get(deleted)) != bool(old["metadata"].get(deleted))


def _annotations(obj: Manifest) -> Manifest:
    found: Manifest = obj["metadata"].get("annotations") or {}
    return found


def validate(
    state: State, kind: Kind, version: str, new: Manifest, old: Manifest | None, subresource: str
) -> None:
    """Raise Invalid with all findings."""
    metadata = new["metadata"]
    errors = validate_metadata(kind, metadata)
    if old is not None:
        # Upstream checks this twice, for all kinds and again for each.
        errors += validate_metadata_update(metadata, old["metadata"]) * 2
    errors += schema_errors(state, kind, version, new, old, subresource)
    if not kind.custom:
        errors += _rule_errors(kind, version, new, old, subresource)
    if errors:
        group = kind.group if kind.bucket == kind.resource else ""  # the one that it is stored in
        raise invalid(group, kind.kind, metadata.get("name", ""), errors)


def _rule_errors(
    kind: Kind, version: str, new: Manifest, old: Manifest | None, subresource: str
) -> list[FieldError]:
    if not conversion.same_in_storage(kind, version):
        new = conversion.to_storage(kind, new, version)
        old = None if old is None else conversion.to_storage(kind, old, version)
    return kind.builtin.errors(new, old, subresource)


def schema_errors(
    state: State,
    kind: Kind,
    version: str,
    new: Manifest,
    old: Manifest | None,
    subresource: str,
) -> list[FieldError]:
    if not kind.custom:
        return []
    found = state.schema(kind, version).validate(new, old, subresource=subresource)
    return [FieldError(cause.field, cause.type, cause.message) for cause in found]


def must_have_version(kind: Kind, name: str) -> StatusError:
    error = bad_value("metadata.resourceVersion", 0, "must be specified for an update")
    return invalid(kind.group, kind.plural, name, [error])
