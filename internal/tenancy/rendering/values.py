"""Values between templates and manifests: as text, and as plain JSON values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import orjson
from jinja2 import StrictUndefined

from ctrlruntime.json import Json
from internal.tenancy.rendering.errors import TemplateError
from internal.tenancy.rendering.limits import DEEPEST_VALUE
from internal.tenancy.rendering.moments import Moment
from internal.tenancy.rendering.versions import Version

SMALLEST_NUMBER: Final = -(2**63)
LARGEST_NUMBER: Final = 2**64 - 1
"""Bounds of an integer that JSON is written with, for the API server and for the rendering process."""


class Missing(StrictUndefined):
    """An undefined value: an error wherever it is used, except by `default` and its like.

    What is looked up in it is missing too, so that `default` works on `{{ a.b.c | default("x") }}`.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Missing:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, key: object) -> Missing:  # type: ignore[override]  # jinja's fails
        return self


def to_text(value: object) -> str:
    """Return the value as it appears inside a text: `true`, not `True`; nothing for None; JSON for collections."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, Version | Moment):
        return str(value)
    return orjson.dumps(to_plain(value), option=orjson.OPT_SORT_KEYS).decode()


def checked_text(text: str) -> str:
    """Return the text, which can be written; TemplateError for half of a surrogate pair, which UTF-8 does not have."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise TemplateError("the value is not valid Unicode") from None
    return text


def to_plain(value: object, depth: int = 0) -> Json:
    """Return the value as JSON has it: str, int, float, bool, None, list, dict; anything else is an error."""
    if isinstance(value, str):
        return checked_text(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if not SMALLEST_NUMBER <= value <= LARGEST_NUMBER:
            raise TemplateError("a number does not fit 64 bits")
        return value
    if isinstance(value, float):
        return check_finite(value)
    if isinstance(value, Version | Moment):
        return str(value)
    if depth >= DEEPEST_VALUE:
        raise TemplateError(f"a value is nested deeper than {DEEPEST_VALUE} levels")
    if isinstance(value, Mapping):
        return {
            checked_text(to_text(key)): to_plain(item, depth + 1) for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [to_plain(item, depth + 1) for item in value]
    raise TemplateError("the expression yields neither text, number, boolean, list nor mapping")


def is_empty(value: object) -> bool:
    """Whether sprig calls the value empty: undefined, None, false, 0, "", [] or {}."""
    if value is None or value is False:
        return True
    if isinstance(value, str | list | tuple | Mapping):
        return len(value) == 0
    return isinstance(value, int | float) and value == 0


def same(left: object, right: object) -> bool:
    """Whether two values are equal in type and content, as Go's DeepEqual has it."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return len(left) == len(right) and all(
            key in right and same(item, right[key]) for key, item in left.items()
        )
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and bool(left == right)


def check_finite(value: float) -> float:
    """Return the number itself, or TemplateError for an infinite one or NaN."""
    if not math.isfinite(value):
        raise TemplateError("a number is not finite")
    return value


def _float_text(value: float) -> str:
    if check_finite(value).is_integer() and abs(value) < 1e15:
        return str(int(value))
    return repr(value)
