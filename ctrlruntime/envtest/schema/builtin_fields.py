"""Fields of built-in kinds: unknown ones, wrong types, quantities."""

from __future__ import annotations

import contextlib
import re
import string
from collections.abc import Callable
from typing import Any, TypeAlias

from ctrlruntime.envtest.schema.builtin import Definitions, single_type
from ctrlruntime.envtest.schema.quantity import MILLI, QuantityError, canonical, value_of
from ctrlruntime.envtest.schema.zero import omitted
from ctrlruntime.json import Json

_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_TIME, _MICRO_TIME = f"{_META}.Time", f"{_META}.MicroTime"
_BYTES = "bytes"
_BITS = {"int32": 32, "int64": 64}
"""Integers by their format, which is also Go's name of the type."""
_READERS = frozenset({_QUANTITY, _INT_OR_STRING, _TIME, _MICRO_TIME, _BYTES, *_BITS})


class _Never:
    """The type of no JSON value: objects and lists are always looked into."""


_PLAIN: dict[str, type] = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": float,
    "object": _Never,
    "array": _Never,
}


_SCALARS = frozenset({str, bool, int, float})


class FieldNode:
    """One compiled definition: its members, items, or the scalar it is."""

    __slots__ = ("fields", "item", "kind", "name", "omitted", "other", "plain", "required")

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.kind = kind
        self.fields: dict[str, FieldNode] = {}
        self.other: FieldNode | None = None
        self.item: FieldNode | None = None
        self.required: tuple[str, ...] = ()
        self.omitted = omitted(name)
        self.plain: type | None = None if name in _READERS else _PLAIN.get(kind)
        """The Python type of values that need no further look; None: the definition has a reader of
        its own or takes anything."""


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
        node = FieldNode(_reader(schema.get("format", "")), _kind(schema))
        self._fill(node, schema)
        return node

    def _fill(self, node: FieldNode, schema: dict[str, Any]) -> None:
        for name, child in (schema.get("properties") or {}).items():
            node.fields[name] = self._of(child)
        others, items = schema.get("additionalProperties"), schema.get("items")
        node.other = self._of(others) if isinstance(others, dict) else None
        node.item = self._of(items) if isinstance(items, dict) else None
        node.required = tuple(schema.get("required") or ())


def _reader(form: str) -> str:
    """Return the name of what reads values of a format."""
    return _BYTES if form == "byte" else form if form in _BITS else ""


def _kind(schema: dict[str, Any]) -> str:
    if "oneOf" in schema:
        return "any"
    kind = single_type(schema.get("type"))
    return kind or ("object" if "properties" in schema else "any")


def unknown(value: object, node: FieldNode, path: str = "", *, remove: bool = False) -> list[str]:
    """Paths of members that no definition declares; ``remove`` takes them out."""
    found: list[str] = []
    _find_unknown(value, node, path, remove, found)
    return found


def _find_unknown(
    value: object, node: FieldNode, path: str, remove: bool, found: list[str]
) -> None:
    if type(value) is list:
        if node.item is not None:
            for index, item in enumerate(value):
                if type(item) is dict or type(item) is list:
                    _find_unknown(item, node.item, f"{path}[{index}]", remove, found)
        return
    if type(value) is not dict or (not node.fields and node.other is None):
        return
    strange: list[str] = []
    for name, item in value.items():
        child = node.fields.get(name, node.other)
        if child is None:
            strange.append(name)
        elif type(item) is dict or type(item) is list:
            _find_unknown(item, child, f"{path}.{name}" if path else name, remove, found)
    for name in strange:
        found.append(f"{path}.{name}" if path else name)
        if remove:
            del value[name]


def normalize(value: object, node: FieldNode) -> None:
    """Write quantities in canonical form, in place; texts that are none stay as they are.

    Nulls and zeros are left out, as a Go struct leaves them out.
    """
    if type(value) is list:
        if node.item is not None and node.item.plain not in _SCALARS:
            for item in value:
                normalize(item, node.item)
    elif type(value) is dict:
        if not node.fields and node.other is not None and node.other.plain in _SCALARS:
            gone = [name for name, item in value.items() if item is None]
        else:
            gone = _normalize_members(value, node)
        for name in gone:
            del value[name]


def _normalize_members(value: dict[str, Any], node: FieldNode) -> list[str]:
    """Return the same for the members of an object; the names of those to be left out."""
    gone: list[str] = []
    zeros, named, other = node.omitted, node.fields, node.other
    for name, item in value.items():
        if item is None or (not item and name in zeros):
            gone.append(name)
            continue
        child = named.get(name, other)
        if child is None:
            continue
        if type(item) is dict or type(item) is list:
            normalize(item, child)
        elif child.name == _QUANTITY:
            with contextlib.suppress(QuantityError):
                # Resource lists are maps; the server rounds what is in them up to a thousandth.
                value[name] = canonical(item, MILLI) if child is other else canonical(item)
    return gone


def wrap_integers(value: object, node: FieldNode) -> None:
    """Cut integers to the bits of their type, in place, as the server's converter does.

    It does so in strategic merge patches and applies; everywhere else it refuses them.
    """
    if type(value) is list and node.item is not None:
        for index, item in enumerate(value):
            value[index] = _wrapped(item, node.item)
    elif type(value) is dict:
        for name, item in value.items():
            child = node.fields.get(name, node.other)
            if child is not None:
                value[name] = _wrapped(item, child)


def _wrapped(value: object, node: FieldNode) -> Json:
    if type(value) is int and node.name in _BITS:
        half = 1 << (_BITS[node.name] - 1)
        return (value + half) % (2 * half) - half
    wrap_integers(value, node)
    return value


Mismatch: TypeAlias = tuple[str, str, str]
"""Where a member is of a wrong JSON type, the type found, the type declared."""


def mismatch(value: object, node: FieldNode) -> Mismatch | None:
    """Return the first member of a wrong JSON type.

    A text that its type cannot read is of type "text", and what is wrong with it in the last place.
    """
    if value is None or type(value) is node.plain:
        return None
    if node.plain is None:
        return _unreadable(value, node)
    if type(value) is dict and node.kind == "object":
        named, other = node.fields, node.other
        for name, item in value.items():
            child = named.get(name, other)
            if child is not None and type(item) is not child.plain:
                inner = mismatch(item, child)
                if inner is not None:
                    return _within(name, inner)
        return None
    if type(value) is list and node.kind == "array":
        if node.item is not None:
            for index, item in enumerate(value):
                inner = mismatch(item, node.item)
                if inner is not None:
                    return _within(f"[{index}]", inner)
        return None
    return _scalar_mismatch(value, node.kind)


def _within(step: str, inner: Mismatch) -> Mismatch:
    path = inner[0]
    dot = "." if path and not path.startswith("[") else ""
    return f"{step}{dot}{path}", inner[1], inner[2]


def _scalar_mismatch(value: object, wanted: str) -> Mismatch | None:
    found = _json_kind(value)
    if found == "number" and wanted in ("integer", "number"):
        if wanted == "integer" and isinstance(value, float) and not value.is_integer():
            return "", f"number {value:g}", "integer"
        return None
    return None if found == {"boolean": "bool"}.get(wanted, wanted) else ("", found, wanted)


def _unreadable(value: Json, node: FieldNode) -> Mismatch | None:
    """Return what types with a reader of their own do not take."""
    found = _json_kind(value)
    if node.name in _BITS:
        return _beyond(value, node.name) if found == "number" else ("", found, node.name)
    if node.name == _INT_OR_STRING:
        if found == "number":
            return _beyond(value, "int32")
        return None if found == "string" else ("", found, "intstr.IntOrString")
    read = _TEXTS.get(node.name)
    wrong = None if read is None else read(value)
    return None if wrong is None else ("", "text", wrong)


def _beyond(value: float, name: str) -> Mismatch | None:
    """Return a number that the integer type cannot hold."""
    half = 1 << (_BITS[name] - 1)
    if -half <= value < half and value == int(value):
        return None
    shown = f"{value:g}" if type(value) is float else str(value)
    return "", f"number {shown}", name


def _quantity(value: object) -> str | None:
    try:
        value_of(value)
    except QuantityError as error:
        return str(error)
    return None


def _base64(value: object) -> str | None:
    if not isinstance(value, str):
        return f"json: cannot unmarshal {_json_kind(value)} into Go value of type []uint8"
    body = value.rstrip("=")
    for place, char in enumerate(body):
        if char not in _ALPHABET:
            return f"illegal base64 data at input byte {place}"
    whole = len(value) % 4 == 0 and len(value) - len(body) <= 2 and len(body) % 4 != 1
    return None if whole else f"illegal base64 data at input byte {len(body) // 4 * 4}"


def _time(value: object) -> str | None:
    return _moment(value, "2006-01-02T15:04:05Z07:00")


def _micro_time(value: object) -> str | None:
    return _moment(value, "2006-01-02T15:04:05.000000Z07:00")


def _moment(value: object, layout: str) -> str | None:
    if not isinstance(value, str):
        return f"Time.UnmarshalJSON: input is not a JSON string: {_json_kind(value)}"
    if not value or _MOMENT.fullmatch(value):
        return None
    return f'parsing time "{value}" as "{layout}": cannot parse "{value}" as "2006"'


_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_ALPHABET = frozenset(string.ascii_letters + string.digits + "+/\r\n")
_TEXTS: dict[str, Callable[[Any], str | None]] = {
    _QUANTITY: _quantity,
    _TIME: _time,
    _MICRO_TIME: _micro_time,
    _BYTES: _base64,
}


def _json_kind(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        return "number"
    return "object" if isinstance(value, dict) else "array"
