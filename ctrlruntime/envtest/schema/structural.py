"""Structural schemas of custom resources, compiled once from ``openAPIV3Schema``."""

from __future__ import annotations

from typing import Any, Final

from ctrlruntime.envtest.merge.typed import (
    BOOLEAN,
    NUMBER,
    STRING,
    UNTYPED,
    ListType,
    MapType,
    TypeNode,
)

NO_DEFAULT: Final = object()


class Structural:
    """One node of a structural schema.

    ``raw`` is the JSON schema it was compiled from and holds the value validations. ``additional``
    is the schema of the keys that are not named, True where any are allowed, None otherwise.
    """

    __slots__ = (
        "additional",
        "default",
        "embedded",
        "has_defaults",
        "has_sets",
        "int_or_string",
        "items",
        "keys",
        "list_type",
        "nullable",
        "preserve",
        "properties",
        "raw",
        "type",
    )

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw
        self.type: str = raw.get("type") or ""
        self.nullable = bool(raw.get("nullable"))
        self.default: Any = raw.get("default", NO_DEFAULT)
        self.preserve = bool(raw.get("x-kubernetes-preserve-unknown-fields"))
        self.embedded = bool(raw.get("x-kubernetes-embedded-resource"))
        self.int_or_string = bool(raw.get("x-kubernetes-int-or-string"))
        self.list_type: str = raw.get("x-kubernetes-list-type") or "atomic"
        self.keys: tuple[str, ...] = tuple(raw.get("x-kubernetes-list-map-keys") or ())
        self.properties: dict[str, Structural] = {
            name: Structural(child) for name, child in (raw.get("properties") or {}).items()
        }
        items = raw.get("items")
        self.items = Structural(items) if isinstance(items, dict) else None
        self.additional = _additional(raw.get("additionalProperties"))
        self.has_defaults: bool = self.default is not NO_DEFAULT or any(
            child.has_defaults for child in self.children()
        )
        self.has_sets: bool = self.list_type in ("set", "map") or any(
            child.has_sets for child in self.children()
        )

    def children(self) -> list[Structural]:
        found = list(self.properties.values())
        if self.items is not None:
            found.append(self.items)
        if isinstance(self.additional, Structural):
            found.append(self.additional)
        return found

    def child(self, name: str) -> Structural | None:
        """Return the schema of one key of an object, where there is one."""
        found = self.properties.get(name)
        if found is None and isinstance(self.additional, Structural):
            return self.additional
        return found


def _additional(raw: object) -> Structural | bool | None:
    if isinstance(raw, dict):
        return Structural(raw)
    return True if raw is True else None


def merge_type(node: Structural, metadata: TypeNode, *, root: bool = False) -> TypeNode:
    """Return the type by which objects of this schema are merged."""
    if node.int_or_string:
        return UNTYPED  # what is neither is left to the validation
    if node.type == "object" or root or (not node.type and node.properties):
        return TypeNode(map_=_merge_map(node, metadata, root))
    if node.type == "array":
        return TypeNode(list_=_merge_list(node, metadata))
    if node.type in ("integer", "number"):
        return NUMBER
    if node.type == "string":
        return STRING
    if node.type == "boolean":
        return BOOLEAN
    return UNTYPED


def _merge_map(node: Structural, metadata: TypeNode, root: bool) -> MapType:
    element: TypeNode | None = None
    if isinstance(node.additional, Structural):
        element = merge_type(node.additional, metadata)
    elif node.preserve or node.additional is True or not (node.properties or root):
        element = UNTYPED
    named = {name: merge_type(child, metadata) for name, child in node.properties.items()}
    if root or node.embedded:
        named.update(apiVersion=STRING, kind=STRING, metadata=metadata)
    atomic = node.raw.get("x-kubernetes-map-type") == "atomic"
    return MapType(named, element=element, atomic=atomic)


def _merge_list(node: Structural, metadata: TypeNode) -> ListType:
    element = UNTYPED if node.items is None else merge_type(node.items, metadata)
    if node.list_type == "map":
        properties = node.items.properties if node.items is not None else {}
        defaults = {
            key: properties[key].default
            for key in node.keys
            if key in properties and properties[key].default is not NO_DEFAULT
        }
        return ListType(element, relation="map", keys=node.keys, key_defaults=defaults)
    return ListType(element, relation="set" if node.list_type == "set" else "atomic")
