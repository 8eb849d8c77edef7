"""Causes of an ``Invalid`` answer, in the API server's wording."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of ``details.causes``: ``type`` is its reason, e.g. ``FieldValueRequired``."""

    field: str
    type: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A value whose members are shown in their own order."""

    members: dict[str, Any]


def required(field: str, detail: str = "") -> Cause:
    return Cause(field, "FieldValueRequired", _text("Required value", detail))


def invalid(field: str, value: object, detail: str) -> Cause:
    return Cause(field, "FieldValueInvalid", _text(f"Invalid value: {shown(value)}", detail))


def type_invalid(field: str, value: object, detail: str) -> Cause:
    return Cause(field, "FieldValueTypeInvalid", _text(f"Invalid value: {shown(value)}", detail))


def forbidden(field: str, detail: str) -> Cause:
    return Cause(field, "FieldValueForbidden", _text("Forbidden", detail))


def duplicate(field: str, value: object) -> Cause:
    return Cause(field, "FieldValueDuplicate", f"Duplicate value: {shown(value)}")


def not_supported(field: str, value: object, allowed: Iterable[Any]) -> Cause:
    supported = ", ".join(quoted(str(each)) for each in allowed)
    text = f"Unsupported value: {shown(value)}: supported values: {supported}"
    return Cause(field, "FieldValueNotSupported", text)


def too_long(field: str, limit: int) -> Cause:
    unit = "byte" if limit == 1 else "bytes"
    return Cause(field, "FieldValueTooLong", f"Too long: may not be more than {limit} {unit}")


def too_many(field: str, actual: int, limit: int) -> Cause:
    items = "item" if limit == 1 else "items"
    text = f"Too many: {actual}: must have at most {limit} {items}"
    return Cause(field, "FieldValueTooMany", text)


def _text(head: str, detail: str) -> str:
    return f"{head}: {detail}" if detail else head


def quoted(text: str) -> str:
    """Return a string in double quotes, as Go's ``%q`` prints it."""
    return orjson.dumps(text).decode()


def shown(value: object) -> str:
    """Return a value as the messages print it: strings quoted, objects as JSON."""
    if isinstance(value, Verbatim):
        return orjson.dumps(value.members).decode()
    if isinstance(value, float):
        return f"{value:.17g}" if float(f"{value:g}") != value else f"{value:g}"
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
