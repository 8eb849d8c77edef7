"""What of a template's manifest the server's OpenAPI schemas cannot accept. Pure.

A string with a template in it is unknown and fits everywhere; so does whatever the schema leaves
open. Keys are never rendered, so they are checked in any case. See docs/decisions/template-bodies.md.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import chain, islice
from typing import Any, Final

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.openapi import Schema, Schemas
from ctrlruntime.schedule import BadSchedule, parse
from internal.tenancy.rendering.limits import DEEPEST_VALUE
from internal.tenancy.rendering.manifests import Path, locate
from internal.tenancy.rendering.templates import is_template
from internal.tenancy.shared.similar_names import similar_name

MOST_PROBLEMS: Final = 20
MOST_LISTED: Final = 8
_QUANTITY: Final = re.compile(
    r"[+-]?(\d+\.?\d*|\.\d+)(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?\d+)?"
)
_INT_OR_STRING: Final = "int-or-string"
_UNQUOTED: Final = re.compile(r"-?\d+(\.\d+)?|true|false")
_NAMES: Final = {
    "object": "an object with fields",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
}
_SCALARS: Final = frozenset({_NAMES["integer"], _NAMES["number"], _NAMES["boolean"]})


class Flaw(Enum):
    """What kind of mistake it is."""

    UNKNOWN_FIELD = "unknown field"
    WRONG_TYPE = "wrong type"
    WRONG_VALUE = "wrong value"
    MISSING_FIELD = "missing field"


@dataclass(frozen=True, slots=True)
class BodyProblem:
    """One mistake: the path within the manifest, and what is wrong and what to write."""

    path: str
    flaw: Flaw
    text: str


def body_problems(
    manifest: Mapping[str, Any], kind: GroupVersionKind, schemas: Schemas
) -> list[BodyProblem]:
    """Return what of the manifest cannot be accepted; nothing for a kind without a schema."""
    schema = schemas.of(kind)
    if schema is None:
        return []
    problems = chain(_Walk(schemas, kind).check(manifest, schema, ()), _schedule(manifest, kind))
    return list(islice(problems, MOST_PROBLEMS))  # each may take a search for similar names


@dataclass(frozen=True, slots=True)
class _Walk:
    schemas: Schemas
    kind: GroupVersionKind

    def check(self, value: object, schema: Schema, path: Path) -> Iterator[BodyProblem]:
        """Yield what is wrong with a value and everything in it."""
        if value is None or len(path) > DEEPEST_VALUE:
            return
        if isinstance(value, str) and is_template(value):
            return
        name, schema = self.schemas.resolve(schema)
        if name.endswith(".resource.Quantity"):
            yield from _quantity(value, path)
        elif schema.int_or_string or schema.format == _INT_OR_STRING:
            if isinstance(value, bool) or not isinstance(value, int | str):
                yield _wrong_type(path, "a whole number or text", value)
        elif schema.type == "object":
            yield from self._object(value, schema, path)
        elif schema.type == "array":
            yield from self._list(value, schema, path)
        elif schema.type in _NAMES:
            yield from _scalar(value, schema, path)

    def _object(self, value: object, schema: Schema, path: Path) -> Iterator[BodyProblem]:
        if not isinstance(value, Mapping):
            yield _wrong_type(path, _NAMES["object"], value)
            return
        properties, others = schema.properties, schema.additional
        closed = bool(properties) and others is None and not schema.open and not schema.embedded
        for key, item in value.items():
            if key in properties:
                yield from self.check(item, properties[key], (*path, key))
            elif isinstance(others, Schema):
                yield from self.check(item, others, (*path, key))
            elif closed and not (path == () and key in ("apiVersion", "kind", "metadata")):
                yield self._unknown((*path, key), properties)
        for key in schema.required:
            if key not in value and properties.get(key, Schema()).default is None:
                text = "it is required and not there; add it, unless something else sets it"
                yield BodyProblem(locate((*path, key)), Flaw.MISSING_FIELD, text)

    def _list(self, value: object, schema: Schema, path: Path) -> Iterator[BodyProblem]:
        if not isinstance(value, list):
            yield _wrong_type(path, _NAMES["array"], value)
            return
        if schema.items is not None:
            for place, item in enumerate(value):
                yield from self.check(item, schema.items, (*path, place))

    def _unknown(self, path: Path, properties: Mapping[str, Schema]) -> BodyProblem:
        key, where = str(path[-1]), f"{self.kind.api_version} {self.kind.kind}"
        folded = {each.lower(): each for each in properties}
        near = folded.get(key.lower()) or similar_name(key, properties, cutoff=0.7)
        if near is not None:
            fix = f"write {near!r}"
        else:
            known = sorted(properties)
            more = ", …" if len(known) > MOST_LISTED else ""
            fix = f"remove it; there are {', '.join(known[:MOST_LISTED])}{more}"
        text = f"{where} has no field {key!r} here: {fix}"
        return BodyProblem(locate(path), Flaw.UNKNOWN_FIELD, text)


def _scalar(value: object, schema: Schema, path: Path) -> Iterator[BodyProblem]:
    fits = {
        "string": isinstance(value, str),
        "boolean": isinstance(value, bool),
        "number": isinstance(value, int | float) and not isinstance(value, bool),
        "integer": (isinstance(value, int) and not isinstance(value, bool))
        or (isinstance(value, float) and value.is_integer()),
    }
    if not fits[schema.type]:
        yield _wrong_type(path, _NAMES[schema.type], value)
    elif schema.enum and value not in schema.enum and value != "":
        allowed = ", ".join(str(each) for each in schema.enum[:MOST_LISTED])
        yield BodyProblem(locate(path), Flaw.WRONG_VALUE, f"it has to be one of {allowed}")
    elif schema.format == "byte" and isinstance(value, str) and not _is_base64(value):
        text = "it has to be base64; write the text itself under stringData, or {{ … | b64enc }}"
        yield BodyProblem(locate(path), Flaw.WRONG_TYPE, text)


def _quantity(value: object, path: Path) -> Iterator[BodyProblem]:
    if isinstance(value, str) and _QUANTITY.fullmatch(value):
        return
    if isinstance(value, int | float) and not isinstance(value, bool):
        return
    text = "it is no quantity; write for example 500m, 1, 256Mi or 1Gi"
    yield BodyProblem(locate(path), Flaw.WRONG_TYPE, text)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(re.sub(r"[\r\n]", "", text), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _schedule(manifest: Mapping[str, Any], kind: GroupVersionKind) -> Iterator[BodyProblem]:
    """Yield what is wrong with the schedule of a CronJob that is written out."""
    spec = manifest.get("spec")
    if kind.group_kind.kind != "CronJob" or kind.group != "batch" or not isinstance(spec, Mapping):
        return
    text = spec.get("schedule")
    if not isinstance(text, str) or is_template(text) or text.strip().startswith("@"):
        return
    try:
        parse(text.replace("?", "*"))
    except BadSchedule as error:
        problem = str(error).removeprefix("spec.schedule ")
        yield BodyProblem("spec.schedule", Flaw.WRONG_VALUE, problem)


def _wrong_type(path: Path, wanted: str, value: object) -> BodyProblem:
    text = f"it has to be {wanted}, not {_kind_of(value)}{_quotes(wanted, value)}"
    return BodyProblem(locate(path), Flaw.WRONG_TYPE, text)


def _kind_of(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "text"
    if isinstance(value, int | float):
        return "a number"
    return _NAMES["array"] if isinstance(value, list) else _NAMES["object"]


def _quotes(wanted: str, value: object) -> str:
    """Return the fix where the quotes make the difference."""
    if wanted == _NAMES["string"] and isinstance(value, bool | int | float):
        return "; put it into quotes"
    if isinstance(value, str) and _UNQUOTED.fullmatch(value) and wanted in _SCALARS:
        return "; remove the quotes"
    return ""
