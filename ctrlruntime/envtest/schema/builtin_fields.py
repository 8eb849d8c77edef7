"""Fields of built-in kinds: unknown ones, wrong types, quantities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ctrlruntime.envtest.schema.builtin import Definitions, single_type
from ctrlruntime.envtest.schema.quantity import MILLI, QuantityError, canonical

_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"


class FieldNode:
    """One compiled definition: its members, items, or the scalar it is."""

    __slots__ = ("fields", "item", "kind", "name", "other", "required")

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.kind = kind
        self.fields: dict[str, FieldNode] = {}
        self.other: FieldNode | None = None
        self.item: FieldNode | None = None
        self.required: tuple[str, ...] = ()


class BuiltinFields:
    """Compiled definitions by name, shared between kinds."""

    def __init__(self, source: Definitions) -> None:
        self._source = source
        self._nodes: dict[str, FieldNode] = {}

    def named(self, name: str) -> FieldNode:
        found = self._nodes.get(name)
        if found is None:
            schema = self._source.get(name)
            found = self._nodes[name] = FieldNode(name, _kind(schema))
            self._fill(found, schema)
        return found

    def _of(self, schema: dict[str, Any]) -> FieldNode:
        ref = schema.get("$ref")
        if ref is not None:
            return self.named(ref.rpartition("/")[2])
        node = FieldNode("", _kind(schema))
        self._fill(node, schema)
        return node

    def _fill(self, node: FieldNode, schema: dict[str, Any]) -> None:
        for name, child in (schema.get("properties") or {}).items():
            node.fields[name] = self._of(child)
        others, items = schema.get("additionalProperties"), schema.get("items")
        node.other = self._of(others) if isinstance(others, dict) else None
        node.item = self._of(items) if isinstance(items, dict) else None
        node.required = tuple(schema.get("required") or ())


def _kind(schema: dict[str, Any]) -> str:
    if "oneOf" in schema:
        return "any"
    kind = single_type(schema.get("type"))
    return kind or ("object" if "properties" in schema else "any")


def unknown(value: Any, node: FieldNode, path: str = "", *, remove: bool = False) -> Iterator[str]:
    """Paths of members that no definition declares; ``remove`` takes them out."""
    if isinstance(value, dict):
        if not node.fields and node.other is None:
            return
        for name in list(value):
            child = node.fields.get(name, node.other)
            here = f"{path}.{name}" if path else name
            if child is None:
                yield here
                if remove:
                    del value[name]
            elif isinstance(value[name], dict | list):
                yield from unknown(value[name], child, here, remove=remove)
    elif isinstance(value, list) and node.item is not None:
        for index, item in enumerate(value):
            if isinstance(item, dict | list):
                yield from unknown(item, node.item, f"{path}[{index}]", remove=remove)


def normalize(value: Any, node: FieldNode) -> None:
    """Write quantities in canonical form, in place; texts that are none stay as they are.

    Nulls are left out, as decoding into a Go struct does.
    """
    pairs: Any
    if isinstance(value, dict):
        for name in [name for name, item in value.items() if item is None]:
            del value[name]
        pairs = [(name, node.fields.get(name, node.other)) for name in value]
    elif isinstance(value, list):
        pairs = [(index, node.item) for index in range(len(value))]
    else:
        return
    for key, child in pairs:
        if child is None:
            continue
        item = value[key]
        if isinstance(item, dict | list):
            normalize(item, child)
        elif child.name == _QUANTITY:
            try:
                # Resource lists are maps; the server rounds what is in them up to a thousandth.
                value[key] = canonical(item, MILLI) if child is node.other else canonical(item)
            except QuantityError:
                continue


def mismatches(value: Any, node: FieldNode, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Members of a wrong JSON type: path, the JSON type found, the type declared."""
    if value is None or node.kind == "any":
        if node.name == _INT_OR_STRING and isinstance(value, dict | list | bool):
            yield path, _json_kind(value), "intstr.IntOrString"
        return
    found = _json_kind(value)
    wanted = node.kind
    if found == "number" and wanted in ("integer", "number"):
        if wanted == "integer" and isinstance(value, float) and not value.is_integer():
            yield path, f"number {value:g}", "integer"
        return
    if found != {"boolean": "bool"}.get(wanted, wanted):
        yield path, found, wanted
        return
    if isinstance(value, dict):
        for name, item in value.items():
            child = node.fields.get(name, node.other)
            if child is not None:
                yield from mismatches(item, child, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and node.item is not None:
        for index, item in enumerate(value):
            yield from mismatches(item, node.item, f"{path}[{index}]")


def _json_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        return "number"
    return "object" if isinstance(value, dict) else "array"
