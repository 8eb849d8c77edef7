"""Functions on types: names as Go prints them. Whole numbers are `int`, whatever their source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from internal.tenancy.rendering.moments import Moment
from internal.tenancy.rendering.values import same, to_text
from internal.tenancy.rendering.versions import Version

_TYPES = {
    "invalid": "<nil>",
    "slice": "[]interface {}",
    "map": "map[string]interface {}",
    "ptr": "*semver.Version",
    "struct": "time.Time",
}


def kind_of(value: object) -> str:
    """Return the kind: string, int, float64, bool, slice, map, ptr for versions, struct for dates, invalid for nil."""
    if value is None:
        return "invalid"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int):
        return "int"
    if isinstance(value, float):
        return "float64"
    if isinstance(value, Version):
        return "ptr"
    if isinstance(value, Moment):
        return "struct"
    return "map" if isinstance(value, Mapping) else "slice"


def type_of(value: object) -> str:
    """Return the type: like the kind, with what lists and mappings contain."""
    kind = kind_of(value)
    return _TYPES.get(kind, kind)


def type_is_like(name: object, value: object) -> bool:
    """Whether the type has the name, with or without a `*` before it."""
    return type_of(value) in {to_text(name), f"*{to_text(name)}"}


KINDS: dict[str, Callable[..., Any]] = {
    "kindOf": kind_of,
    "kindIs": lambda name, value: to_text(name) == kind_of(value),
    "typeOf": type_of,
    "typeIs": lambda name, value: to_text(name) == type_of(value),
    "typeIsLike": type_is_like,
    "deepEqual": same,
}
