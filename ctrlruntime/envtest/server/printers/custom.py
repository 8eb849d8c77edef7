"""Rows of custom kinds: the name, then what `additionalPrinterColumns` say, else the age."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import orjson

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.printers.column import NAME, Cells, Column, Printer, since
from ctrlruntime.envtest.server.printers.jsonpath import InvalidPath, compile_path

_DEFAULT: Final = (
    {
        "name": "Age",
        "type": "date",
        "jsonPath": ".metadata.creationTimestamp",
        "description": "The time since the object was created.",
    },
)


def custom_printer(entry: Mapping[str, Any]) -> Printer:
    """Return the printer of a version entry of a definition."""
    declared = entry.get("additionalPrinterColumns") or _DEFAULT
    found = tuple(map(_column, declared))
    sources = tuple((each["type"], each["jsonPath"]) for each in declared)

    def cells(obj: Manifest, now: datetime) -> Cells:
        row: Cells = [obj["metadata"]["name"]]
        row += [_cell(kind, path, obj, now) for kind, path in sources]
        return row

    return Printer((NAME, *found), cells)


def _column(declared: Mapping[str, Any]) -> Column:
    path = declared["jsonPath"]
    text = f"Custom resource definition column (in JSONPath format): {path}"
    return Column(
        declared["name"],
        declared["type"],
        declared.get("format") or "",
        declared.get("description") or text,
        int(declared.get("priority") or 0),
    )


def _cell(kind: str, path: str, obj: Manifest, now: datetime) -> str | float | bool | None:
    """Return the first match as the column's type has it; None where it is missing or of another type."""
    try:
        found = compile_path(path).find(obj)
    except InvalidPath:
        return None
    if not found:
        return None
    value = found[0]
    if value is None:
        return "<no value>" if kind == "string" else None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "string":
            return _text(value)
        case "date":
            return since(value, now) if isinstance(value, str) else None
        case "integer":
            return int(value) if is_number else None
        case "number":
            return float(value) if is_number else None
    return value if isinstance(value, bool) else None


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
