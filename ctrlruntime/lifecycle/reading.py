"""Objects that cannot be read as their kind: what of them can be, and what is wrong with the rest. Pure."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from pydantic import ValidationError

from ctrlruntime.api.resource import ObjectMeta, Resource
from ctrlruntime.cache.entry import Entry

KindT = TypeVar("KindT", bound=Resource[Any, Any])


def without_spec(entry: Entry, kind: type[KindT]) -> KindT:
    """Return an object whose spec cannot be read, so it has none; its status, or an empty one, and its names."""
    model: Any = kind.model_fields["status"].annotation
    try:
        status = model.model_validate(entry.field("status") or {})
    except ValidationError:
        status = model()
    gvk, untyped = kind.gvk(), cast("Any", kind)  # the plugin of the type checker forgets KindT
    names = ObjectMeta(name=entry.name, namespace=entry.namespace, uid=entry.uid)
    bare: KindT = untyped.model_construct(
        api_version=gvk.api_version, kind=gvk.kind, metadata=names, spec=None, status=status
    )
    return bare
