"""From JSON schema to the structural schema that a CustomResourceDefinition needs.

Structural means: every field has a type, nothing is referenced, and unions do not exist. Each rule
below either finds the structural form of what pydantic wrote or raises SchemaError with the way out.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ctrlruntime.api.cel_names import cel_name
from ctrlruntime.api.markers import CEL, RULES, ColumnType, PrintColumn

from .errors import SchemaError
from .lint import check_node

__all__ = ["Found", "SchemaOptions", "Structural"]

Schema = dict[str, Any]

REQUIRED = "x-ctrlruntime-required"
IMMUTABLE = "x-ctrlruntime-immutable"
COLUMN = "x-ctrlruntime-column"
SELECTABLE = "x-ctrlruntime-selectable"
INT_OR_STRING = "x-kubernetes-int-or-string"
PRESERVE = "x-kubernetes-preserve-unknown-fields"
LIST_TYPE = "x-kubernetes-list-type"

_INT32_BOUNDS = (("minimum", -(2**31)), ("maximum", 2**31 - 1))
_JSON_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaOptions:
    """How schemas are made.

    ``allow_floats``: accept ``float``; numbers with a fraction do not survive every client, so that
    a Quantity or a string is the better type. ``max_description``: cut descriptions to so many
    characters; 0 leaves them out, None keeps them whole.
    """

    allow_floats: bool = False
    max_description: int | None = None


@dataclass(slots=True)
class Found:
    """What annotations on fields add to the kind itself."""

    columns: list[PrintColumn] = field(default_factory=list)
    selectable: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a node is: for messages, for JSON paths, and for what is allowed there."""

    name: str
    json_path: str | None  # None inside a list or map
    models: tuple[str, ...] = ()  # the $refs on the way here
    defaults: bool = True

    def child(self, key: str) -> _Place:
        path = None if self.json_path is None else f"{self.json_path}.{key}"
        return _Place(f"{self.name}.{key}", path, self.models, self.defaults)

    def element(self, mark: str) -> _Place:
        return _Place(f"{self.name}{mark}", None, self.models, self.defaults)

    def inside(self, ref: str) -> _Place:
        return _Place(self.name, self.json_path, (*self.models, ref), self.defaults)


class Structural:
    """Converts the nodes of one model's schema; collects what it finds on the way."""

    def __init__(self, definitions: Mapping[str, Schema], options: SchemaOptions) -> None:
        self._definitions = definitions
        self._options = options
        self.found = Found()

    def convert(
        self, schema: Schema, *, name: str, json_path: str | None, defaults: bool = True
    ) -> Schema:
        """Return the structural form of a field of the root: ``name`` is for messages.

        Without ``defaults`` none are written, as is the custom for a status.
        """
        return self._node(schema, _Place(name, json_path, (), defaults))

    def _node(self, schema: Schema, place: _Place) -> Schema:
        node, place = self._resolve(dict(schema), place)
        node = self._without_unions(node, place)
        node, place = self._resolve(node, place)
        self._scalars(node, place)
        self._array(node, place)
        self._object(node, place)
        self._documentation(node)
        self._marks(node, place)
        if "default" in node and not _keeps_default(node, place):
            del node["default"]
        check_node(node, place.name)
        return node

    def _resolve(self, node: Schema, place: _Place) -> tuple[Schema, _Place]:
        """Inline ``$ref`` and ``allOf``; what is said next to them wins over what they say."""
        while "$ref" in node or "allOf" in node:
            parts: list[Schema] = list(node.pop("allOf", []))
            ref = node.pop("$ref", None)
            if ref is not None:
                if ref in place.models:
                    model = ref.rpartition("/")[2]
                    raise SchemaError(
                        place.name,
                        f"{model} contains itself; a structural schema cannot be recursive: "
                        "bound the depth with separate types, or use RawExtension",
                    )
                place = place.inside(ref)
                parts.append(self._definitions[ref.rpartition("/")[2]])
            for part in parts:
                node = _merge(dict(part), node, place.name)
        return node, place

    def _without_unions(self, node: Schema, place: _Place) -> Schema:
        if node.get(INT_OR_STRING):
            return node
        for key in ("oneOf", "anyOf"):
            if key not in node:
                continue
            branches = [part for part in node.pop(key) if part.get("type") != "null"]
            if len(branches) != 1:
                raise SchemaError(place.name, _union_advice(node, branches))
            node.pop("discriminator", None)
            node = _merge(dict(branches[0]), node, place.name)
        return node

    def _scalars(self, node: Schema, place: _Place) -> None:
        if "const" in node:
            node["enum"] = [node.pop("const")]
        if "enum" in node:
            node["enum"] = [value for value in node["enum"] if value is not None]
            kinds = {_JSON_TYPES.get(type(value), "string") for value in node["enum"]}
            if len(kinds) != 1:
                raise SchemaError(place.name, "the values of an enum must have one type")
            node["type"] = kinds.pop()
        if "enum" not in node:
            self._number(node, place)
        for exclusive, inclusive, stricter in (
            ("exclusiveMinimum", "minimum", max),
            ("exclusiveMaximum", "maximum", min),
        ):
            bound = node.get(exclusive)
            if bound is None or isinstance(bound, bool):
                continue
            other = node.get(inclusive, bound)
            node[inclusive] = stricter(bound, other)
            node[exclusive] = node[inclusive] == bound
            if not node[exclusive]:
                del node[exclusive]
        if node.get("format") == "int32":
            for key, bound in _INT32_BOUNDS:
                if node.get(key) == bound:
                    del node[key]  # the format says so
        _string_format(node, place.name)

    def _number(self, node: Schema, place: _Place) -> None:
        if node.get("type") == "integer":
            node.setdefault("format", "int64")
        elif node.get("type") == "number" and not self._options.allow_floats:
            raise SchemaError(
                place.name,
                "float is not portable between clients: use Quantity, a string or an int in a "
                "smaller unit, or allow floats explicitly (--allow-floats)",
            )

    def _array(self, node: Schema, place: _Place) -> None:
        if node.get("type") != "array":
            return
        if "prefixItems" in node:
            raise SchemaError(place.name, "a tuple has no structural form: use a list or a model")
        if node.pop("uniqueItems", False):
            node.setdefault(LIST_TYPE, "set")
        items = node.get("items")
        if not items:
            raise SchemaError(place.name, "a list needs the type of its items: list[X]")
        node["items"] = self._node(items, place.element("[]"))

    def _object(self, node: Schema, place: _Place) -> None:
        if "patternProperties" in node or "propertyNames" in node:
            raise SchemaError(
                place.name,
                "the keys of a map cannot be constrained in a CRD: use dict[str, X] and, for the "
                "keys, a CEL rule such as self.all(key, key.matches('^[a-z]+$'))",
            )
        extra = node.pop("additionalProperties", None)
        if extra is True:
            node[PRESERVE] = True
        elif isinstance(extra, dict):
            node["additionalProperties"] = self._node(extra, place.element("[*]"))
        if "properties" in node:
            self._properties(node, place)
        if not node.get("type") and not node.get(PRESERVE) and not node.get(INT_OR_STRING):
            node[PRESERVE] = True  # Any

    def _properties(self, node: Schema, place: _Place) -> None:
        required = set(node.get("required", ()))
        properties: Schema = {}
        for key, value in node["properties"].items():
            child = self._node(value, place.child(key))
            if child.pop(REQUIRED, False):
                required.add(key)
                child.pop("default", None)
            message = child.pop(IMMUTABLE, None)
            if message is not None and key not in required and "default" not in child:
                name = cel_name(key)
                rule = f"!has(oldSelf.{name}) || has(self.{name})"
                CEL(rule, message=f"{key}: {message}").extend(node)
            properties[key] = child
        node["properties"] = properties
        if required:
            node["required"] = sorted(required)
        else:
            node.pop("required", None)

    def _documentation(self, node: Schema) -> None:
        if "examples" in node:
            examples = node.pop("examples")
            if examples:
                node.setdefault("example", examples[0])
        limit = self._options.max_description
        if "description" not in node:
            return
        text = _clean(node["description"])
        if limit is not None and len(text) > limit:
            text = text[:limit].rstrip()
        if text:
            node["description"] = text
        else:
            del node["description"]

    def _marks(self, node: Schema, place: _Place) -> None:
        column = node.pop(COLUMN, None)
        if column is not None:
            self.found.columns.append(_column(column, node, place))
        if node.pop(SELECTABLE, False):
            if place.json_path is None:
                raise SchemaError(place.name, "a selectable field cannot be in a list or map")
            self.found.selectable.append(place.json_path)


def _keeps_default(node: Schema, place: _Place) -> bool:
    """Return whether a default stays: an empty list, map or text does not, which servers would store in each object.

    An empty object stays if properties inside have defaults.
    """
    if node["default"] in ([], {}, ""):
        return any("default" in child for child in node.get("properties", {}).values())
    return place.defaults


def _merge(base: Schema, over: Schema, name: str) -> Schema:
    """Return ``base`` with what ``over`` adds; CEL rules add up, types must agree."""
    if "type" in base and "type" in over and base["type"] != over["type"]:
        raise SchemaError(name, f"is both {base['type']} and {over['type']}")
    merged = {**base, **over}
    rules = [*base.get(RULES, []), *over.get(RULES, [])]
    if rules:
        merged[RULES] = rules
    return merged


def _union_advice(node: Schema, branches: list[Schema]) -> str:
    if "discriminator" in node:
        return (
            "a discriminated union has no structural form: use one object with an optional field "
            'for each variant and the rule exactly_one_of("a", "b")'
        )
    types = {branch.get("type") for branch in branches}
    if types == {"integer", "string"}:
        return "int | str has no structural form: use IntOrString"
    if types == {"number", "string"}:
        return "Decimal has no structural form: use Quantity or a string with a pattern"
    return (
        "a union has no structural form: use one object with an optional field for each variant "
        "and a rule such as exactly_one_of, or RawExtension"
    )


_FORMATS = {"base64": "byte", "base64url": "byte"}
_REFUSED_FORMATS = {
    "binary": "bytes are not valid JSON: use pydantic.Base64Bytes",
    "duration": "timedelta is written as ISO 8601, which Kubernetes does not read: use Duration",
}


def _string_format(node: Schema, name: str) -> None:
    if node.get("type") != "string" or "format" not in node:
        return
    if node["format"] in _REFUSED_FORMATS:
        raise SchemaError(name, _REFUSED_FORMATS[node["format"]])
    node["format"] = _FORMATS.get(node["format"], node["format"])


_TODO = re.compile(r"^\s*(TODO|FIXME|XXX)\b")


def _clean(text: str) -> str:
    lines = inspect.cleandoc(text).splitlines()
    return "\n".join(line.rstrip() for line in lines if not _TODO.match(line)).strip()


def _column(column: PrintColumn, node: Schema, place: _Place) -> PrintColumn:
    if place.json_path is None:
        raise SchemaError(
            place.name, "a column needs one value: give the kind a print column with a JSON path"
        )
    key = place.name.rpartition(".")[2]
    return PrintColumn(
        name=column.name or key[:1].upper() + key[1:],
        json_path=column.json_path or place.json_path,
        type=column.type or _column_type(node),
        description=column.description or node.get("description"),
        format=column.format,
        priority=column.priority,
    )


def _column_type(node: Schema) -> ColumnType:
    if node.get("format") == "date-time":
        return "date"
    kind = node.get("type")
    return kind if kind in ("integer", "number", "boolean") else "string"
