"""Annotations that say what pydantic alone cannot: list topology, CEL rules, columns, nullability.

A marker goes into ``Annotated``::

    ports: Annotated[list[Port], ListMap("name", "protocol"), Field(max_length=16)] = []
    registry_id: Annotated[str, Immutable()]

and adds its ``x-kubernetes-*`` keys to the JSON schema, from which the CRD is made. The API server
enforces them; nothing is checked in Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from .cel_names import cel_name

__all__ = [
    "CEL",
    "Atomic",
    "Immutable",
    "ListMap",
    "ListSet",
    "MapAtomic",
    "Nullable",
    "PreserveUnknown",
    "PrintColumn",
    "SelectableField",
    "at_least_one_of",
    "at_most_one_of",
    "exactly_one_of",
]

T = TypeVar("T")

RULES = "x-kubernetes-validations"
NULLABLE = "nullable"


class _SchemaMarker:
    """A marker that adds keys to the schema of the value it annotates."""

    __slots__ = ()

    def extend(self, schema: JsonSchemaValue) -> None:
        raise NotImplementedError

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = dict(handler(core_schema))
        if "$ref" in schema:  # siblings of a $ref are kept, and merged when it is inlined
            schema = {"allOf": [{"$ref": schema.pop("$ref")}], **schema}
        self.extend(schema)
        return schema


@dataclass(frozen=True)
class CEL(_SchemaMarker):
    """A validation rule in the Common Expression Language, on a field or a whole object.

    ``self`` is the value and ``oldSelf`` the value before an update (a transition rule, which is not
    evaluated on creation unless ``optional_old_self``). ``reason`` is one of FieldValueInvalid,
    FieldValueForbidden, FieldValueRequired, FieldValueDuplicate. ``field_path`` is relative to the
    value, for example ``.spec.minReplicas``.
    """

    rule: str
    message: str | None = None
    message_expression: str | None = None
    reason: str | None = None
    field_path: str | None = None
    optional_old_self: bool | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the rule as an entry of ``x-kubernetes-validations``."""
        values = {
            "rule": self.rule,
            "message": self.message,
            "messageExpression": self.message_expression,
            "reason": self.reason,
            "fieldPath": self.field_path,
            "optionalOldSelf": self.optional_old_self,
        }
        return {key: value for key, value in values.items() if value is not None}

    def extend(self, schema: JsonSchemaValue) -> None:
        schema[RULES] = [*schema.get(RULES, []), self.as_dict()]


@dataclass(frozen=True)
class Immutable(_SchemaMarker):
    """The value cannot be changed once set.

    An optional field can still be set later; once set, it can be neither changed nor removed.
    """

    message: str = "field is immutable"

    def extend(self, schema: JsonSchemaValue) -> None:
        CEL("self == oldSelf", message=self.message).extend(schema)
        schema["x-ctrlruntime-immutable"] = self.message


@dataclass(frozen=True, init=False)
class ListMap(_SchemaMarker):
    """A list whose items are identified by the given keys (wire names): merged item by item."""

    keys: tuple[str, ...]

    def __init__(self, *keys: str) -> None:
        if not keys:
            raise ValueError('a list map needs its keys, for example ListMap("name")')
        object.__setattr__(self, "keys", keys)

    def extend(self, schema: JsonSchemaValue) -> None:
        schema["x-kubernetes-list-type"] = "map"
        schema["x-kubernetes-list-map-keys"] = list(self.keys)


@dataclass(frozen=True)
class ListSet(_SchemaMarker):
    """A list of distinct scalars, each owned on its own."""

    def extend(self, schema: JsonSchemaValue) -> None:
        schema["x-kubernetes-list-type"] = "set"


@dataclass(frozen=True)
class Atomic(_SchemaMarker):
    """A list that is replaced as a whole."""

    def extend(self, schema: JsonSchemaValue) -> None:
        schema["x-kubernetes-list-type"] = "atomic"


@dataclass(frozen=True)
class MapAtomic(_SchemaMarker):
    """An object or map that is replaced as a whole."""

    def extend(self, schema: JsonSchemaValue) -> None:
        schema["x-kubernetes-map-type"] = "atomic"


@dataclass(frozen=True)
class PreserveUnknown(_SchemaMarker):
    """Fields that the schema does not name are kept instead of pruned."""

    def extend(self, schema: JsonSchemaValue) -> None:
        schema["x-kubernetes-preserve-unknown-fields"] = True


@dataclass(frozen=True)
class Nullable_(_SchemaMarker):  # noqa: N801 - the public name is the alias below
    def extend(self, schema: JsonSchemaValue) -> None:
        schema[NULLABLE] = True


Nullable = Annotated[T | None, Nullable_()]
"""``Nullable[X]``: null is a value of its own, kept on the wire, apart from the field being absent."""


@dataclass(frozen=True)
class RequiredOnWire(_SchemaMarker):
    """A field with a Python default that the CRD requires and that is therefore always written."""

    def extend(self, schema: JsonSchemaValue) -> None:
        schema["x-ctrlruntime-required"] = True


ColumnType = Literal["integer", "number", "string", "boolean", "date"]


@dataclass(frozen=True)
class PrintColumn(_SchemaMarker):
    """A column of ``kubectl get``.

    As a class keyword (``print_columns=``) it needs ``name`` and ``json_path``; on a field both are
    derived: the path from where the field is, the name from its own, the type from its schema.
    Columns with a ``priority`` above 0 appear only with ``-o wide``. ``format`` is a hint such as
    int32, date-time, byte, password.
    """

    name: str | None = None
    json_path: str | None = None
    type: ColumnType | None = None
    description: str | None = None
    format: str | None = None
    priority: int = 0

    def extend(self, schema: JsonSchemaValue) -> None:
        schema["x-ctrlruntime-column"] = self


@dataclass(frozen=True)
class SelectableField(_SchemaMarker):
    """The field can be used in field selectors; at most eight of a kind."""

    def extend(self, schema: JsonSchemaValue) -> None:
        schema["x-ctrlruntime-selectable"] = True


def _count(fields: tuple[str, ...]) -> str:
    if len(fields) < 2:
        raise ValueError("at least two fields (wire names) are needed")
    listed = ", ".join(f"has(self.{cel_name(field)})" for field in fields)
    return f"[{listed}].filter(x, x == true).size()"


def at_most_one_of(*fields: str) -> CEL:
    """Return an object rule: at most one of these fields (wire names) is set."""
    return CEL(f"{_count(fields)} <= 1", message=f"at most one of {', '.join(fields)} may be set")


def exactly_one_of(*fields: str) -> CEL:
    """Return an object rule: one of these fields (wire names) is set, and no other of them."""
    return CEL(f"{_count(fields)} == 1", message=f"exactly one of {', '.join(fields)} must be set")


def at_least_one_of(*fields: str) -> CEL:
    """Return an object rule: one or more of these fields (wire names) are set."""
    return CEL(f"{_count(fields)} >= 1", message=f"at least one of {', '.join(fields)} must be set")
