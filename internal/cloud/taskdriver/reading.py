"""Objects that drive tasks, as typed: also those whose status somebody spoilt."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from apis.cloud import Instance, TaskStatus
from ctrlruntime.api import OwnerReference, Resource
from internal.cloud.marks import INSTANCE

R = TypeVar("R", bound=Resource[Any, TaskStatus])


def typed(kind: type[R], manifest: Mapping[str, Any]) -> R | None:
    """An object as its kind. A status that cannot be read counts as none; None if the spec cannot."""
    try:
        return kind.from_manifest(manifest)
    except ValidationError:
        pass
    try:
        return kind.from_manifest({**manifest, "status": {}})
    except ValidationError:
        return None


def instance_reference(resource: Resource[Any, TaskStatus]) -> OwnerReference | None:
    """The reference to the instance that controls an object."""
    for reference in resource.metadata.owner_references or ():
        if reference.controller and reference.kind == Instance.gvk().kind:
            return reference
    return None


def instance_name(resource: Resource[Any, TaskStatus]) -> str:
    """The name of an object's instance: by owner, else as its spec (`instanceName`) or its label
    says, else its own."""
    reference = instance_reference(resource)
    if reference is not None:
        return reference.name
    named = getattr(resource.spec, "instance_name", None)
    if isinstance(named, str) and named:
        return named
    return (resource.metadata.labels or {}).get(INSTANCE) or resource.metadata.name or ""
