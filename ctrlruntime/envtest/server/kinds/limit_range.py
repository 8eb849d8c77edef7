"""LimitRanges."""

from __future__ import annotations

from typing import Any, Final

from ctrlruntime.envtest.server.defaulting import Defaults
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


LIMIT_RANGE: Final = builtin_kind(
    "",
    "LimitRange",
    "limitranges",
    "limits",
    create_on_update=True,
    spec_defaults=Defaults(within={"limits": Defaults(rules=(_limit_range,))}),
    printer=CREATED_AT,
)
