"""Value validation of custom resources, in the order and wording of the API server.

The checks of an update leave out what did not change (ratcheting): a value that was invalid before
may stay.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, Final

import orjson

from ctrlruntime.envtest.schema import causes
from ctrlruntime.envtest.schema.causes import Cause
from ctrlruntime.envtest.schema.formats import FORMATS, go_regex
from ctrlruntime.envtest.schema.structural import NO_DEFAULT, Structural
from ctrlruntime.json import Json, equal

ABSENT: Final = object()
NOWHERE = "<nil>"
"""The field of causes that the server cannot place."""

Schema = dict[str, Any]


def validate(value: object, schema: Schema, path: str, old: object = ABSENT) -> list[Cause]:
    """Everything in which ``value`` breaks ``schema``; ``path`` is where it lies."""
    if _sound(value, schema):
        return []
    return list(_problems(value, schema, path, old))


_COMBINING: Final = ("allOf", "anyOf", "oneOf", "not")
_PLAIN: Final = frozenset({"type"})


def _sound(value: Json, schema: Schema) -> bool:
    """Whether there is certainly no problem, whatever was there before: quick, as that is the rule."""
    if value is None:
        return bool(schema.get("nullable")) or not _expected(schema)
    kind = kind_of(value)
    if schema.get("type") != kind and any(_type(value, kind, schema, "")):
        return False
    if any(name in schema for name in _COMBINING) and any(_combined(value, schema, "")):
        return False
    if "enum" in schema and any(_enum(value, schema, "")):
        return False
    if kind == "object":
        return _sound_object(value, schema)
    if kind == "array":
        items = schema.get("items")
        return not any(_length(value, schema, "")) and (
            not isinstance(items, dict) or all(_sound(item, items) for item in value)
        )
    if kind == "string":
        return schema.keys() == _PLAIN or not any(_string(value, schema, ""))
    return kind == "boolean" or not any(_number(value, kind, schema, ""))


def _sound_object(value: dict[str, Any], schema: Schema) -> bool:
    if any(_count(value, schema, "")) or any(
        name not in value for name in schema.get("required") or ()
    ):
        return False
    properties = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    for name, item in value.items():
        child = properties.get(name, others)
        if isinstance(child, dict) and not _sound(item, child):
            return False
    return True


def kind_of(value: object) -> str:
    """Return the JSON type of a value as messages name it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        whole = isinstance(value, int) or value.is_integer()
        return "integer" if whole and -(2**63) <= value < 2**63 else "number"
    return "object" if isinstance(value, dict) else "array"


def _problems(value: Json, schema: Schema, path: str, old: object) -> Iterator[Cause]:
    if old is not ABSENT and equal(value, old):
        return
    kind = kind_of(value)
    if value is None:
        if not schema.get("nullable") and _expected(schema):
            yield _wrong_type(path, _expected(schema), kind)
            yield from _enum(value, schema, path)
        return
    yield from _type(value, kind, schema, path)
    yield from _combined(value, schema, path)
    if isinstance(value, str):
        yield from _string(value, schema, path)
    elif kind in ("integer", "number"):
        yield from _number(value, kind, schema, path)
    yield from _enum(value, schema, path)
    if isinstance(value, list):
        yield from _list(value, schema, path, old)
    elif isinstance(value, dict):
        yield from _object(value, schema, path, old)


def _expected(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "integer,string"
    return str(schema.get("type") or "")


def _wrong_type(path: str, expected: str, found: str) -> Cause:
    detail = f'{path} in body must be of type {expected}: "{found}"'
    return causes.type_invalid(path, found, detail)


def _type(value: object, kind: str, schema: Schema, path: str) -> Iterator[Cause]:
    expected = _expected(schema)
    if not expected or kind in expected.split(",") or (kind, expected) == ("integer", "number"):
        return
    if kind == "number" and expected == "integer" and schema.get("format") in ("int32", "int64"):
        yield _wrong_type(path, schema["format"], "float64")
    else:
        yield _wrong_type(path, expected, kind)


def _string(value: str, schema: Schema, path: str) -> Iterator[Cause]:
    longest = schema.get("maxLength")
    if longest is not None and len(value) > longest:
        yield causes.too_long(path, longest)
    shortest = schema.get("minLength")
    if shortest is not None and len(value) < shortest:
        yield causes.invalid(
            path, value, f"{path} in body should be at least {shortest} chars long"
        )
    pattern = schema.get("pattern")
    if pattern and not _matches(pattern, value):
        yield causes.invalid(path, value, f"{path} in body should match '{pattern}'")
    check = FORMATS.get(schema.get("format") or "")
    if check is not None and not check(value):
        detail = f"{path} in body must be of type {schema['format']}: {causes.shown(value)}"
        yield causes.type_invalid(path, value, detail)


def _matches(pattern: str, value: str) -> bool:
    try:
        return go_regex(pattern).search(value) is not None
    except re.error:
        # A pattern Python cannot express is no reason to refuse what the real server may accept.
        return True


_RANGES = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
}


def _number(value: float, kind: str, schema: Schema, path: str) -> Iterator[Cause]:
    if not _in_format(value, kind, schema):
        named = schema.get("format")
        how = f"with format {named}" if named else "(default format)"
        text = f"Checked value must be of type {schema['type']} {how} in {path}"
        yield causes.invalid(NOWHERE, "", text)
    divisor = schema.get("multipleOf")
    if divisor is not None and not _divides(value, divisor):
        detail = f"{path} in body should be a multiple of {causes.shown(divisor)}"
        yield causes.invalid(path, value, detail)
    top = schema.get("maximum")
    if top is not None and (value >= top if schema.get("exclusiveMaximum") else value > top):
        relation = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        detail = f"{path} in body should be {relation} {causes.shown(top)}"
        yield causes.invalid(path, value, detail)
    low = schema.get("minimum")
    if low is not None and (value <= low if schema.get("exclusiveMinimum") else value < low):
        relation = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        detail = f"{path} in body should be {relation} {causes.shown(low)}"
        yield causes.invalid(path, value, detail)


def _in_format(value: float, kind: str, schema: Schema) -> bool:
    expected, named = schema.get("type"), schema.get("format") or ""
    if expected == "integer":
        low, high = _RANGES.get(named, _RANGES["int64"])
        return kind == "integer" and low <= value <= high
    if expected == "number" and named == "float":
        return math.isfinite(value) and abs(value) <= 3.4028234663852886e38
    return True


def _divides(value: float, divisor: float) -> bool:
    return divisor != 0 and Decimal(str(value)) % Decimal(str(divisor)) == 0


def _enum(value: object, schema: Schema, path: str) -> Iterator[Cause]:
    allowed = schema.get("enum")
    if allowed and not any(equal(value, each) for each in allowed):
        yield causes.not_supported(
            path,
            value,
            [each if isinstance(each, str) else causes.shown(each) for each in allowed],
        )


def _length(value: list[Any], schema: Schema, path: str) -> Iterator[Cause]:
    fewest, most = schema.get("minItems"), schema.get("maxItems")
    if fewest is not None and len(value) < fewest:
        detail = f"{path} in body should have at least {fewest} items"
        yield causes.invalid(path, len(value), detail)
    if most is not None and len(value) > most:
        yield causes.too_many(path, len(value), most)


def _list(value: list[Any], schema: Schema, path: str, old: object) -> Iterator[Cause]:
    yield from _length(value, schema, path)
    items = schema.get("items")
    if not isinstance(items, dict):
        return
    partners = partner_items(value, schema, old)
    for index, item in enumerate(value):
        yield from _problems(item, items, f"{path}[{index}]", partners[index])


def partner_items(value: list[Any], schema: Schema, old: object) -> list[Any]:
    """For each item the old one it continues; only lists with keys tell which that is."""
    none: list[Any] = [ABSENT] * len(value)
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list):
        return none
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    known = {identity_of(item, keys): item for item in old if isinstance(item, dict)}
    return [
        known.get(identity_of(item, keys), ABSENT) if isinstance(item, dict) else ABSENT
        for item in value
    ]


def identity_of(item: dict[str, Any], keys: Iterable[str]) -> bytes:
    return orjson.dumps({key: item[key] for key in keys if key in item}, option=_SORTED)


_SORTED = orjson.OPT_SORT_KEYS


def _count(value: dict[str, Any], schema: Schema, path: str) -> Iterator[Cause]:
    fewest, most = schema.get("minProperties"), schema.get("maxProperties")
    if fewest is not None and len(value) < fewest:
        detail = f"{path} in body should have at least {fewest} properties"
        yield causes.invalid(path, len(value), detail)
    if most is not None and len(value) > most:
        yield causes.too_many(path, len(value), most)


def _object(value: dict[str, Any], schema: Schema, path: str, old: object) -> Iterator[Cause]:
    yield from _count(value, schema, path)
    properties = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    before = old if isinstance(old, dict) else {}
    for name, item in value.items():
        child = properties.get(name, others)
        if isinstance(child, dict):
            here = f"{path}.{name}" if path else name
            yield from _problems(item, child, here, before.get(name, ABSENT))
    for name in schema.get("required") or ():
        if name not in value:
            yield causes.required(f"{path}.{name}" if path else name)


def _combined(value: object, schema: Schema, path: str) -> Iterator[Cause]:
    """allOf, anyOf, oneOf and not."""
    every = schema.get("allOf")
    if every:
        found = [cause for each in every for cause in _problems(value, each, path, ABSENT)]
        if found:
            yield from found
            text = f'"{path}" must validate all the schemas (allOf)'
            yield causes.invalid(NOWHERE, "", text)
    some = schema.get("anyOf")
    if some and not (schema.get("x-kubernetes-int-or-string") and _just_types(some)):
        answers = [list(_problems(value, each, path, ABSENT)) for each in some]
        if all(answers):
            text = f'"{path}" must validate at least one schema (anyOf)'
            yield causes.invalid(NOWHERE, "", text)
            yield from min(answers, key=len)
    one = schema.get("oneOf")
    if one:
        yield from _exactly_one(value, one, path)
    refused = schema.get("not")
    if isinstance(refused, dict) and not list(_problems(value, refused, path, ABSENT)):
        yield causes.invalid(NOWHERE, "", f'"{path}" must not validate the schema (not)')


def _just_types(some: list[Schema]) -> bool:
    return all(set(each) == {"type"} for each in some)


def _exactly_one(value: object, one: list[Schema], path: str) -> Iterator[Cause]:
    answers = [list(_problems(value, each, path, ABSENT)) for each in one]
    valid = sum(1 for answer in answers if not answer)
    if valid == 1:
        return
    many = f"Found {valid} valid alternatives" if valid else "Found none valid"
    text = f'"{path}" must validate one and only one schema (oneOf). {many}'
    yield causes.invalid(NOWHERE, "", text)
    if not valid:
        yield from min(answers, key=len)


BLOCKING = frozenset(
    {
        "FieldValueRequired",
        "FieldValueTypeInvalid",
        "FieldValueNotSupported",
        "FieldValueTooLong",
        "FieldValueTooMany",
    }
)
"""Reasons after which CEL rules are not run."""

UNCHECKED = causes.invalid(
    NOWHERE,
    None,
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


def duplicates(value: object, node: Structural, path: str) -> Iterator[Cause]:
    """One cause for each value of a set, or key of a map, that appears again."""
    if not node.has_sets:
        return
    if isinstance(value, list):
        if node.list_type in ("set", "map"):
            yield from _repeated(value, node, path)
        if node.items is not None:
            for index, item in enumerate(value):
                yield from duplicates(item, node.items, f"{path}[{index}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            child = node.child(name)
            if child is not None and isinstance(item, dict | list):
                yield from duplicates(item, child, f"{path}.{name}" if path else name)


def _repeated(value: list[Any], node: Structural, path: str) -> Iterator[Cause]:
    counts: dict[bytes, int] = {}
    for index, item in enumerate(value):
        shown = _keys(item, node) if node.list_type == "map" else item
        name = orjson.dumps(shown, option=orjson.OPT_SORT_KEYS)
        counts[name] = counts.get(name, 0) + 1
        if counts[name] == 2:
            yield causes.duplicate(f"{path}[{index}]", shown)


def _keys(item: object, node: Structural) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if not isinstance(item, dict):
        return found
    for key in node.keys:
        if key in item:
            found[key] = item[key]
        elif node.items is not None and key in node.items.properties:
            default = node.items.properties[key].default
            if default is not NO_DEFAULT:
                found[key] = default
    return found
