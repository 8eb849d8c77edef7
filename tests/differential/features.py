"""What of a schema a body of a custom kind makes use of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

PROMISED: Final = (
    "set",
    "map",
    "atomic list",
    "atomic map",
    "nested",
    "int-or-string",
    "preserve-unknown",
)
"""What the custom kinds are there for."""


def touched(value: object, schema: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    """Names of the features of all fields that the value sets, `PROMISED` and others."""
    if isinstance(value, list):
        yield str(schema.get("x-kubernetes-list-type", "atomic list"))
    if schema.get("x-kubernetes-map-type") == "atomic":
        yield "atomic map"
    for name in ("int-or-string", "preserve-unknown-fields", "embedded-resource", "validations"):
        if schema.get(f"x-kubernetes-{name}"):
            yield name.removesuffix("-fields")
    items = schema.get("items")
    if isinstance(value, list) and items is not None:
        for item in value:
            yield from touched(item, items, depth + 1)
    elif isinstance(value, dict):
        yield from _members(value, schema, depth)


def _members(value: dict[str, Any], schema: Mapping[str, Any], depth: int) -> Iterator[str]:
    named, others = schema.get("properties", {}), schema.get("additionalProperties")
    if named and depth > 1:  # below spec or status
        yield "nested"
    for name, item in value.items():
        child = named.get(name, others)
        if child is not None:
            yield from touched(item, child, depth + 1)
