"""Whether a CRD's ``openAPIV3Schema`` is structural and sound."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import orjson

from ctrlruntime.envtest.schema import causes
from ctrlruntime.envtest.schema.causes import Cause
from ctrlruntime.envtest.schema.cel import check_rules
from ctrlruntime.envtest.schema.formats import go_regex
from ctrlruntime.envtest.schema.pruning import prune
from ctrlruntime.envtest.schema.structural import Structural
from ctrlruntime.envtest.schema.validation import validate

Schema = dict[str, Any]

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED = (
    "$ref",
    "$schema",
    "id",
    "definitions",
    "dependencies",
    "patternProperties",
    "additionalItems",
)
_NOT_NESTED = (
    "type",
    "default",
    "title",
    "description",
    "nullable",
    "additionalProperties",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
)
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_REMEMBERED = 128
"""Schemas whose check is remembered."""


def validate_crd_schema(
    schema: Schema | None, path: str = "spec.validation.openAPIV3Schema"
) -> list[Cause]:
    """Why the schema cannot be taken, in the server's wording; rules are looked at last.

    ``path`` is where it lies: ``spec.validation.openAPIV3Schema`` where all versions share one
    schema, else ``spec.versions[i].schema.openAPIV3Schema``.
    """
    if not isinstance(schema, dict):
        return [causes.required(path, "schemas are required")]
    return list(_checked(orjson.dumps(schema), path))


@lru_cache(maxsize=_REMEMBERED)
def _checked(encoded: bytes, path: str) -> tuple[Cause, ...]:
    """Check a schema. Test suites install the same ones on server after server."""
    schema: Schema = orjson.loads(encoded)
    found = list(_root(schema, path))
    found.extend(_node(schema, path))
    if not found:
        found.extend(_defaults(Structural(schema), path))
    if not found:
        found.extend(check_rules(schema, path))
    return tuple(found)


def _root(schema: Schema, path: str) -> Iterator[Cause]:
    kind = schema.get("type")
    if not kind:
        yield causes.required(f"{path}.type", "must not be empty at the root")
    elif kind != "object":
        yield causes.invalid(f"{path}.type", kind, "must be object at the root")
    if schema.get("nullable"):
        yield causes.forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    members = schema.get("properties") or {}
    for name, kind in (("apiVersion", "string"), ("kind", "string"), ("metadata", "object")):
        given_type = (members.get(name) or {}).get("type")
        if given_type and given_type != kind:
            yield causes.invalid(f"{path}.properties[{name}].type", given_type, f"must be {kind}")
    metadata = members.get("metadata")
    if isinstance(metadata, dict):
        allowed = {"name", "generateName"}
        given = set(metadata.get("properties") or {})
        if given - allowed or set(metadata) - {"type", "description", "properties"}:
            yield causes.forbidden(
                f"{path}.properties[metadata]",
                "must not specify anything other than name and generateName, "
                "but metadata is implicitly specified",
            )


def _node(schema: Schema, path: str, missing: str = "") -> Iterator[Cause]:
    yield from _supported(schema, path)
    yield from _type(schema, path, missing)
    yield from _values(schema, path)
    yield from _extensions(schema, path)
    if schema.get("x-kubernetes-list-type") is not None:
        yield from _list_type(schema, path)
    elif schema.get("x-kubernetes-list-map-keys"):
        field = f"{path}.x-kubernetes-list-type"
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield causes.required(field, detail)
    for name, child in (schema.get("properties") or {}).items():
        if isinstance(child, dict):
            yield from _node(child, f"{path}.properties[{name}]", "object fields")
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        yield from _node(others, f"{path}.additionalProperties", "object fields")
    items = schema.get("items")
    if isinstance(items, dict):
        yield from _node(items, f"{path}.items", "array items")
    yield from _junctors(schema, path)


def _supported(schema: Schema, path: str) -> Iterator[Cause]:
    for name in _UNSUPPORTED:
        if schema.get(name) is not None:
            yield causes.forbidden(f"{path}.{name}", f"{name} is not supported")
    if schema.get("uniqueItems"):
        yield causes.forbidden(
            f"{path}.uniqueItems",
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        )
    if schema.get("properties") and schema.get("additionalProperties"):
        yield causes.forbidden(
            f"{path}.additionalProperties",
            "additionalProperties and properties are mutual exclusive",
        )
    if isinstance(schema.get("items"), list):
        yield causes.forbidden(f"{path}.items", "items must be a schema object and not an array")


def _type(schema: Schema, path: str, missing: str) -> Iterator[Cause]:
    kind = schema.get("type")
    if kind and kind not in _TYPES:
        yield causes.not_supported(f"{path}.type", kind, _TYPES)
    open_ended = schema.get("x-kubernetes-int-or-string") or schema.get(
        "x-kubernetes-preserve-unknown-fields"
    )
    if missing and not kind and not open_ended and "$ref" not in schema:
        yield causes.required(f"{path}.type", f"must not be empty for specified {missing}")
    if kind == "array" and schema.get("items") is None:
        yield causes.required(f"{path}.items", "must be specified")


def _values(schema: Schema, path: str) -> Iterator[Cause]:
    pattern = schema.get("pattern")
    if pattern:
        try:
            go_regex(pattern)
        except re.error as error:
            reason = "must be a valid regular expression, but isn't: " + _go_error(error, pattern)
            yield causes.invalid(f"{path}.pattern", pattern, reason)


def _go_error(error: re.error, pattern: str) -> str:
    text = str(error)
    if "missing )" in text or "unterminated subpattern" in text:
        text = "missing closing )"
    elif "unbalanced parenthesis" in text:
        text = "unexpected )"
    elif "unterminated character set" in text:
        text, pattern = "missing closing ]", pattern[error.pos or 0 :]
    elif "nothing to repeat" in text:
        text = "missing argument to repetition operator"
    return f"error parsing regexp: {text}: `{pattern}`"


def _extensions(schema: Schema, path: str) -> Iterator[Cause]:
    preserve = schema.get("x-kubernetes-preserve-unknown-fields")
    if preserve is False:
        field = f"{path}.x-kubernetes-preserve-unknown-fields"
        yield causes.invalid(field, False, "must be true or undefined")
    if schema.get("x-kubernetes-embedded-resource"):
        if schema.get("type") != "object":
            yield causes.invalid(
                f"{path}.type",
                schema.get("type") or "",
                "must be object if x-kubernetes-embedded-resource is true",
            )
        if not preserve and not schema.get("properties"):
            yield causes.required(
                f"{path}.properties",
                "must not be empty if x-kubernetes-embedded-resource is true "
                "without x-kubernetes-preserve-unknown-fields",
            )
    map_type = schema.get("x-kubernetes-map-type")
    if map_type is not None:
        if map_type not in ("atomic", "granular"):
            field = f"{path}.x-kubernetes-map-type"
            yield causes.not_supported(field, map_type, ("atomic", "granular"))
        if schema.get("type") != "object":
            yield causes.invalid(
                f"{path}.type",
                schema.get("type") or "",
                "must be object if x-kubernetes-map-type is specified",
            )


def _list_type(schema: Schema, path: str) -> Iterator[Cause]:
    kind = schema["x-kubernetes-list-type"]
    field = f"{path}.x-kubernetes-list-type"
    if kind not in ("atomic", "set", "map"):
        yield causes.not_supported(field, kind, ("atomic", "set", "map"))
        return
    if schema.get("type") != "array":
        yield causes.invalid(
            f"{path}.type",
            schema.get("type") or "",
            "must be array if x-kubernetes-list-type is specified",
        )
    items = schema.get("items")
    if kind == "map":
        yield from _list_map(schema, items if isinstance(items, dict) else {}, path)
    elif kind == "set" and isinstance(items, dict):
        yield from _list_set(items, f"{path}.items")


def _list_set(items: Schema, path: str) -> Iterator[Cause]:
    for kind, member in (("object", "x-kubernetes-map-type"), ("array", "x-kubernetes-list-type")):
        if items.get("type") == kind and items.get(member) != "atomic":
            yield causes.invalid(
                f"{path}.{member}",
                items.get(member),
                "must be atomic as item of a list with x-kubernetes-list-type=set",
            )


def _list_map(schema: Schema, items: Schema, path: str) -> Iterator[Cause]:
    field = f"{path}.x-kubernetes-list-map-keys"
    keys = schema.get("x-kubernetes-list-map-keys") or []
    if not keys:
        yield causes.required(field, "must not be empty if x-kubernetes-list-type is map")
        return
    if items.get("type") != "object":
        yield causes.invalid(
            f"{path}.items.type",
            items.get("type") or "",
            "must be object if parent array's x-kubernetes-list-type is map",
        )
        return
    properties = items.get("properties") or {}
    required = items.get("required") or ()
    for key in keys:
        here = f"{path}.items.properties[{key}]"
        member = properties.get(key)
        if member is None:
            yield causes.invalid(field, keys, "entries must all be names of item properties")
            continue
        if member.get("type") in ("array", "object"):
            yield causes.invalid(
                f"{here}.type",
                member["type"],
                "must be a scalar type if parent array's x-kubernetes-list-type is map",
            )
        if member.get("default") is None and key not in required:
            yield causes.required(
                f"{here}.default",
                "this property is in x-kubernetes-list-map-keys, "
                "so it must have a default or be a required property",
            )
        if member.get("nullable"):
            yield causes.forbidden(
                f"{here}.nullable",
                "this property is in x-kubernetes-list-map-keys, so it cannot be nullable",
            )
    if len(set(keys)) != len(keys):
        yield causes.invalid(field, keys, "must not contain duplicate entries")


def _junctors(schema: Schema, path: str) -> Iterator[Cause]:
    int_or_string = bool(schema.get("x-kubernetes-int-or-string"))
    for name in _JUNCTORS:
        for index, each in enumerate(schema.get(name) or ()):
            if int_or_string and _is_int_or_string(schema[name], each):
                continue
            yield from _nested(each, f"{path}.{name}[{index}]")
    refused = schema.get("not")
    if isinstance(refused, dict):
        yield from _nested(refused, f"{path}.not")


def _is_int_or_string(junctor: Sequence[Schema], each: Schema) -> bool:
    if [branch.get("type") for branch in junctor] == ["integer", "string"]:
        return True
    inner = each.get("anyOf") or ()
    return [branch.get("type") for branch in inner] == ["integer", "string"]


def _nested(schema: Schema, path: str) -> Iterator[Cause]:
    for name, child in (schema.get("properties") or {}).items():
        yield from _nested(child, f"{path}.properties[{name}]")
    items = schema.get("items")
    if isinstance(items, dict):
        yield from _nested(items, f"{path}.items")
    yield from _junctors(schema, path)
    for name in _NOT_NESTED:
        if schema.get(name):
            state = "false" if schema[name] is True else "empty"
            yield causes.forbidden(f"{path}.{name}", f"must be {state} to be structural")


def _defaults(node: Structural, path: str) -> Iterator[Cause]:
    if node.raw.get("default") is not None:
        yield from _default(node, f"{path}.default")
    for name, child in node.properties.items():
        yield from _defaults(child, f"{path}.properties[{name}]")
    if node.items is not None:
        yield from _defaults(node.items, f"{path}.items")
    if isinstance(node.additional, Structural):
        yield from _defaults(node.additional, f"{path}.additionalProperties")


def _default(node: Structural, path: str) -> Iterator[Cause]:
    value = copy.deepcopy(node.raw["default"])
    if prune(value, node, root=False):
        detail = "must not have unknown fields"
        yield causes.invalid(path, node.raw["default"], detail)
        return
    for cause in validate(value, node.raw, ""):
        place = f"{path}{'.' if cause.field and cause.field[0] != '[' else ''}{cause.field}"
        yield Cause(place, cause.type, cause.message)
