"""Pruning of custom resources: fields that the schema does not know are removed."""

from __future__ import annotations

from typing import Any

from ctrlruntime.envtest.schema.structural import Structural

_TYPE_META = frozenset({"apiVersion", "kind", "metadata"})


def prune(value: Any, node: Structural, *, root: bool = True, remove: bool = True) -> list[str]:
    """Remove unknown fields (changes ``value``) and return their paths, sorted.

    ``root``: the value is a whole object, whose apiVersion, kind and metadata are always known.
    ``remove=False`` only looks.
    """
    found: list[str] = []
    _prune(value, node, "", root, remove, found)
    return sorted(found)


def _prune(
    value: Any, node: Structural, path: str, known_meta: bool, remove: bool, found: list[str]
) -> None:
    if isinstance(value, dict):
        _prune_map(value, node, path, known_meta, remove, found)
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            if isinstance(item, dict | list):
                _prune(item, node.items, f"{path}[{index}]", False, remove, found)


def _prune_map(
    value: dict[str, Any],
    node: Structural,
    path: str,
    known_meta: bool,
    remove: bool,
    found: list[str],
) -> None:
    open_ended = node.preserve or node.additional is True
    known = _TYPE_META if known_meta or node.embedded else frozenset[str]()
    unknown: list[str] = []
    for name, item in value.items():
        if name in known:
            continue
        member = node.child(name)
        if member is not None:
            if isinstance(item, dict | list):
                _prune(item, member, f"{path}.{name}" if path else name, False, remove, found)
        elif not open_ended:
            unknown.append(name)
    for name in unknown:
        found.append(f"{path}.{name}" if path else name)
        if remove:
            del value[name]
