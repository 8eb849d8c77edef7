"""Duplicates in lists that are sets or maps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from ctrlruntime.envtest.schema import causes
from ctrlruntime.envtest.schema.causes import Cause
from ctrlruntime.envtest.schema.structural import NO_DEFAULT, Structural


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
