"""Metadata of manifests and typed objects: names, labels, finalizers, owner references.

Each function takes a plain manifest or a ``Resource`` and changes it in place; the ones that change
say whether they did. They mirror controller-runtime's controllerutil.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from .kinds import GroupKind, GroupVersionKind, Manifest
from .objectmeta import ObjectMeta, OwnerReference
from .resource import Resource

__all__ = [
    "AlreadyOwned",
    "AnyObject",
    "OwnerNotAllowed",
    "add_finalizer",
    "annotations",
    "controller_of",
    "finalizers",
    "group_version_kind",
    "has_controller_reference",
    "has_finalizer",
    "has_owner_reference",
    "is_deleting",
    "labels",
    "name",
    "namespace",
    "namespaced_name",
    "object_meta",
    "owner_references",
    "remove_controller_reference",
    "remove_finalizer",
    "remove_owner_reference",
    "set_annotation",
    "set_controller_reference",
    "set_label",
    "set_owner_reference",
    "uid",
]

AnyObject = Manifest | Resource[Any, Any]


class AlreadyOwned(Exception):
    """The object has another controller already (controllerutil.AlreadyOwnedError)."""

    def __init__(self, obj: str, owner: OwnerReference) -> None:
        super().__init__(
            f"{obj} is already controlled by {owner.kind} {owner.name!r} (uid {owner.uid})"
        )
        self.owner = owner


class OwnerNotAllowed(ValueError):
    """An owner that the garbage collector would not accept for this object."""


def _meta(obj: AnyObject) -> dict[str, Any]:
    """Return the metadata of a manifest, made where it is missing."""
    assert isinstance(obj, dict)  # noqa: S101 - callers have dealt with Resource
    meta: dict[str, Any] | None = obj.get("metadata")
    if meta is None:
        meta = obj["metadata"] = {}
    return meta


def _text(obj: AnyObject, attribute: str) -> str:
    if isinstance(obj, Resource):
        return str(getattr(obj.metadata, attribute))
    return str((obj.get("metadata") or {}).get(attribute) or "")


def name(obj: AnyObject) -> str:
    """Return the name; empty where there is none."""
    return _text(obj, "name")


def namespace(obj: AnyObject) -> str:
    """Return the namespace; empty for a cluster-scoped object."""
    return _text(obj, "namespace")


def uid(obj: AnyObject) -> str:
    """Return the UID; empty for an object that was not created yet."""
    return _text(obj, "uid")


def namespaced_name(obj: AnyObject) -> str:
    """``namespace/name``, or ``name`` for a cluster-scoped object."""
    space = namespace(obj)
    return f"{space}/{name(obj)}" if space else name(obj)


def group_version_kind(obj: AnyObject) -> GroupVersionKind:
    """Return what the object is. Raises ValueError if it does not say so."""
    if isinstance(obj, Resource):
        return GroupVersionKind.parse(obj.api_version, obj.kind)
    return GroupVersionKind.of(obj)


def is_deleting(obj: AnyObject) -> bool:
    """Whether deletion was asked for and waits for finalizers or a grace period."""
    if isinstance(obj, Resource):
        return obj.metadata.deletion_timestamp is not None
    return bool((obj.get("metadata") or {}).get("deletionTimestamp"))


def labels(obj: AnyObject) -> Mapping[str, str]:
    """Return the labels, to read; empty if there are none."""
    return _mapping(obj, "labels")


def annotations(obj: AnyObject) -> Mapping[str, str]:
    """Return the annotations, to read; empty if there are none."""
    return _mapping(obj, "annotations")


def _mapping(obj: AnyObject, attribute: str) -> dict[str, str]:
    if isinstance(obj, Resource):
        value: dict[str, str] = getattr(obj.metadata, attribute)
        return value
    return (obj.get("metadata") or {}).get(attribute) or {}


def set_label(obj: AnyObject, key: str, value: str | None) -> bool:
    """Set a label, or take it away with None; True if that changed anything."""
    return _set_entry(obj, "labels", key, value)


def set_annotation(obj: AnyObject, key: str, value: str | None) -> bool:
    """Set an annotation, or take it away with None; True if that changed anything."""
    return _set_entry(obj, "annotations", key, value)


def _set_entry(obj: AnyObject, attribute: str, key: str, value: str | None) -> bool:
    entries = _mapping(obj, attribute)
    if entries.get(key) == value:
        return False
    if value is None:
        del entries[key]
    else:
        entries[key] = value
    if isinstance(obj, dict):
        _meta(obj)[attribute] = entries
    return True


def finalizers(obj: AnyObject) -> tuple[str, ...]:
    """Return the finalizers, in their order."""
    if isinstance(obj, Resource):
        return tuple(obj.metadata.finalizers)
    return tuple((obj.get("metadata") or {}).get("finalizers") or ())


def has_finalizer(obj: AnyObject, finalizer: str) -> bool:
    """Return whether the object has ``finalizer``."""
    return finalizer in finalizers(obj)


def add_finalizer(obj: AnyObject, finalizer: str) -> bool:
    """Add a finalizer at the end; True if it was not there. Raises ValueError if it has no slash."""
    if "/" not in finalizer:
        raise ValueError(f"finalizer {finalizer!r} needs a domain, for example example.com/cleanup")
    if has_finalizer(obj, finalizer):
        return False
    _set_list(obj, "finalizers", [*finalizers(obj), finalizer])
    return True


def remove_finalizer(obj: AnyObject, finalizer: str) -> bool:
    """Remove a finalizer, repeated ones too; True if it was there."""
    if not has_finalizer(obj, finalizer):
        return False
    _set_list(obj, "finalizers", [item for item in finalizers(obj) if item != finalizer])
    return True


def _set_list(obj: AnyObject, key: str, values: list[str]) -> None:
    if isinstance(obj, Resource):
        setattr(obj.metadata, key, values)
    else:
        _meta(obj)[key] = values


def owner_references(obj: AnyObject) -> list[OwnerReference]:
    """Return the owners, as a new list."""
    if isinstance(obj, Resource):
        return list(obj.metadata.owner_references)
    entries: Iterable[Any] = (obj.get("metadata") or {}).get("ownerReferences") or ()
    return [OwnerReference.model_validate(entry) for entry in entries]


def _set_owner_references(obj: AnyObject, references: list[OwnerReference]) -> None:
    if isinstance(obj, Resource):
        obj.metadata.owner_references = references
    elif references:
        _meta(obj)["ownerReferences"] = [item.to_wire() for item in references]
    else:
        _meta(obj).pop("ownerReferences", None)


def controller_of(obj: AnyObject) -> OwnerReference | None:
    """Return the owner that controls the object, or None."""
    return next((item for item in owner_references(obj) if item.controller), None)


def has_controller_reference(obj: AnyObject, owner: AnyObject | None = None) -> bool:
    """Whether the object has a controller or, given ``owner``, that one (by uid)."""
    controller = controller_of(obj)
    return controller is not None and (owner is None or controller.uid == uid(owner))


def has_owner_reference(obj: AnyObject, owner: AnyObject) -> bool:
    """Whether ``owner`` (by uid) is an owner of the object."""
    return any(item.uid == uid(owner) for item in owner_references(obj))


def set_controller_reference(
    owner: AnyObject, obj: AnyObject, *, block_owner_deletion: bool = True
) -> bool:
    """Make ``owner`` the controller of ``obj``; True if that changed anything.

    Raises AlreadyOwned if something else controls it, and OwnerNotAllowed if the owner is in
    another namespace, is namespaced while the object is not, or has no uid yet.
    """
    reference = _reference(owner, obj)
    reference.controller = True
    reference.block_owner_deletion = block_owner_deletion
    existing = controller_of(obj)
    if existing is not None and existing.uid != reference.uid:
        raise AlreadyOwned(_describe(obj), existing)
    return _put_reference(obj, reference)


def set_owner_reference(
    owner: AnyObject, obj: AnyObject, *, block_owner_deletion: bool | None = None
) -> bool:
    """Make ``owner`` one of the owners of ``obj``; True if that changed anything.

    A reference that already makes it the controller is left so. Raises OwnerNotAllowed as
    set_controller_reference does.
    """
    reference = _reference(owner, obj)
    reference.block_owner_deletion = block_owner_deletion
    for item in owner_references(obj):
        if item.uid == reference.uid:
            reference.controller = item.controller
            if block_owner_deletion is None:
                reference.block_owner_deletion = item.block_owner_deletion
    return _put_reference(obj, reference)


def remove_owner_reference(owner: AnyObject, obj: AnyObject) -> bool:
    """Take ``owner`` (by uid) out of the owners of ``obj``; True if it was one."""
    references = owner_references(obj)
    kept = [item for item in references if item.uid != uid(owner)]
    if len(kept) == len(references):
        return False
    _set_owner_references(obj, kept)
    return True


def remove_controller_reference(owner: AnyObject, obj: AnyObject) -> bool:
    """As remove_owner_reference, but only if ``owner`` is the controller."""
    return has_controller_reference(obj, owner) and remove_owner_reference(owner, obj)


def _reference(owner: AnyObject, obj: AnyObject) -> OwnerReference:
    owner_namespace = namespace(owner)
    if not uid(owner):
        raise OwnerNotAllowed(f"{_describe(owner)} has no uid yet: create it first")
    if owner_namespace and not namespace(obj):
        raise OwnerNotAllowed(
            f"cluster-scoped {_describe(obj)} cannot be owned by namespaced {_describe(owner)}"
        )
    if owner_namespace and owner_namespace != namespace(obj):
        raise OwnerNotAllowed(
            f"{_describe(obj)} cannot be owned across namespaces by {_describe(owner)}"
        )
    gvk = group_version_kind(owner)
    return OwnerReference(
        api_version=gvk.api_version, kind=gvk.kind, name=name(owner), uid=uid(owner)
    )


def _put_reference(obj: AnyObject, reference: OwnerReference) -> bool:
    """Replace the reference to the same owner, or append; True if that changed anything."""
    references = owner_references(obj)
    for index, item in enumerate(references):
        if _same_owner(item, reference):
            if item == reference:
                return False
            references[index] = reference
            break
    else:
        references.append(reference)
    _set_owner_references(obj, references)
    return True


def _same_owner(a: OwnerReference, b: OwnerReference) -> bool:
    return a.uid == b.uid


def _describe(obj: AnyObject) -> str:
    kind: GroupKind | str
    try:
        kind = group_version_kind(obj).group_kind
    except ValueError:
        kind = "object"
    return f"{kind} {namespaced_name(obj)!r}"


def object_meta(obj: AnyObject) -> ObjectMeta:
    """Typed metadata: of a Resource its own, of a manifest a copy."""
    if isinstance(obj, Resource):
        return obj.metadata
    return ObjectMeta.model_validate(obj.get("metadata") or {})
