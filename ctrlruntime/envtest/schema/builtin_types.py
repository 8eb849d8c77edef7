"""Built-in kinds as the merge and patch code sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ctrlruntime.envtest.merge.typed import (
    ANY_SCALAR,
    BOOLEAN,
    NUMBER,
    STRING,
    UNTYPED,
    ListType,
    MapType,
    TypeNode,
)
from ctrlruntime.envtest.schema.builtin import Definitions, single_type

_KEY_DEFAULTS: dict[str, dict[str, Any]] = {
    "io.k8s.api.core.v1.ContainerPort": {"protocol": "TCP"},
    "io.k8s.api.core.v1.ServicePort": {"protocol": "TCP"},
}
"""Defaults of list keys: the data of the release leaves defaults out."""
_RAW = "io.k8s.apimachinery.pkg.runtime.RawExtension"
"""Content that only its owner can read: one value."""


class BuiltinTypes:
    """Merge types by definition name; shared between kinds and built at the first use."""

    def __init__(self, source: Definitions) -> None:
        self._source = source
        self._types: dict[str, TypeNode] = {}

    def named(self, name: str) -> TypeNode:
        found = self._types.get(name)
        if found is None:
            found = self._types[name] = self._build(self._source.get(name))
            if name == _RAW:
                found = self._types[name] = TypeNode(map_=MapType({}, element=UNTYPED, atomic=True))
        return found

    def of(self, schema: dict[str, Any]) -> TypeNode:
        name, _ = self._source.resolve(schema) if "$ref" in schema else ("", schema)
        found = self.named(name) if name else self._build(schema)
        atomic = schema.get("x-kubernetes-map-type") == "atomic"
        if name and atomic and found.map is not None and not found.map.atomic:
            return TypeNode(
                map_=MapType(lambda: found.map.fields if found.map else {}, atomic=True)
            )
        if name and schema.get("x-kubernetes-map-type") == "granular" and found.map is not None:
            return TypeNode(map_=MapType(lambda: found.map.fields if found.map else {}))
        return found

    def _build(self, schema: dict[str, Any]) -> TypeNode:
        if "oneOf" in schema:
            return ANY_SCALAR
        kind = single_type(schema.get("type"))
        if kind == "object" or "properties" in schema:
            return TypeNode(map_=self._map(schema))
        if kind == "array":
            return TypeNode(list_=self._list(schema))
        if kind in ("integer", "number"):
            return NUMBER
        if kind == "string":
            return STRING
        return BOOLEAN if kind == "boolean" else UNTYPED

    def _map(self, schema: dict[str, Any]) -> MapType:
        atomic = schema.get("x-kubernetes-map-type") == "atomic"
        properties = schema.get("properties")
        additional = schema.get("additionalProperties")
        if properties:
            return MapType(self._loader(properties), atomic=atomic)
        element = self.of(additional) if isinstance(additional, dict) else UNTYPED
        return MapType({}, element=element, atomic=atomic)

    def _loader(self, properties: dict[str, Any]) -> Callable[[], dict[str, TypeNode]]:
        return lambda: {name: self.of(child) for name, child in properties.items()}

    def _list(self, schema: dict[str, Any]) -> ListType:
        items = schema.get("items") or {}
        element = self.of(items)
        relation = schema.get("x-kubernetes-list-type", "atomic")
        if relation == "map":
            name = items.get("$ref", "").rpartition("/")[2]
            return ListType(
                element,
                relation="map",
                keys=tuple(schema.get("x-kubernetes-list-map-keys") or ()),
                key_defaults=_KEY_DEFAULTS.get(name),
            )
        return ListType(element, relation="set" if relation == "set" else "atomic")


class PatchNode:
    """The strategic-merge view of one field of a built-in kind."""

    __slots__ = ("_body", "_field", "_source")

    def __init__(self, source: Definitions, schema: dict[str, Any]) -> None:
        self._source = source
        self._field = schema
        self._body = source.resolve(schema)[1]

    @property
    def strategies(self) -> frozenset[str]:
        text = self._field.get("x-kubernetes-patch-strategy", "")
        return frozenset(filter(None, text.split(",")))

    @property
    def merge_key(self) -> str:
        return str(self._field.get("x-kubernetes-patch-merge-key", ""))

    def field(self, name: str) -> PatchNode | None:
        child = (self._body.get("properties") or {}).get(name)
        if child is None:
            child = self._body.get("additionalProperties")
        return PatchNode(self._source, child) if isinstance(child, dict) else None

    def item(self) -> PatchNode | None:
        items = self._body.get("items")
        return PatchNode(self._source, items) if isinstance(items, dict) else None
