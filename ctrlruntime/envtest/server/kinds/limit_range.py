"""LimitRanges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ctrlruntime.envtest.schema.quantity import value_of
from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.errors import FieldError, bad_value
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.printers.column import CREATED_AT

_Object = dict[str, Any]


def _limit_range(item: _Object) -> None:
    if item.get("type") != "Container":
        return
    for name, amount in (item.get("max") or {}).items():
        item.setdefault("default", {}).setdefault(name, amount)
    for name, amount in (item.get("default") or {}).items():
        item.setdefault("defaultRequest", {}).setdefault(name, amount)
    for name, amount in (item.get("min") or {}).items():
        item.setdefault("defaultRequest", {}).setdefault(name, amount)


_ORDER: Final = (
    ("min", "min", "max", "max", "min", "min"),
    ("min", "min", "defaultRequest", "default request", "defaultRequest", "defaultRequest"),
    ("min", "min", "default", "default", "default", "min"),
    ("defaultRequest", "default request", "max", "max", "defaultRequest", "defaultRequest"),
    (
        "defaultRequest",
        "default request",
        "default",
        "default limit",
        "defaultRequest",
        "defaultRequest",
    ),
    ("default", "default", "max", "max", "default", "default"),
)
"""Which amount may not be above which, with their words; the field and the value that are named."""


def _check(item: _Object, prefix: str) -> Iterator[FieldError]:
    for low, low_word, high, high_word, field, shown in _ORDER:
        for name, least in (item.get(low) or {}).items():
            most = (item.get(high) or {}).get(name)
            if most is not None and value_of(least) > value_of(most):
                text = f"{low_word} value {least} is greater than {high_word} value {most}"
                yield bad_value(f"{prefix}{field}[{name}]", item[shown][name], text)


LIMIT_RANGE: Final = builtin_kind(
    "",
    "LimitRange",
    "limitranges",
    "limits",
    create_on_update=True,
    spec_defaults=Defaults(within={"limits": Defaults(rules=(_limit_range,))}),
    spec_rules=Rules(within={"limits": Rules(checks=(_check,))}),
    printer=CREATED_AT,
)
