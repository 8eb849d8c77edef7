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
    if isinstance(value, list):
        if node.items is None:
            return
        for index, item in enumerate(value):
            if isinstance(item, dict | list):
                _prune(item, node.items, f"{path}[{index}]", node.items.embedded, remove, found)
        return
    if not isinstance(value, dict):
        return
    open_ended = node.preserve or node.additional is True
    known_meta = known_meta or node.embedded
    unknown: list[str] = []
    for name, item in value.items():
        if known_meta and name in _TYPE_META:
            continue
        member = node.child(name)
        if member is None:
            if not open_ended:
                unknown.append(name)
        elif isinstance(item, dict | list):
            here = f"{path}.{name}" if path else name
            _prune(item, member, here, member.embedded, remove, found)
    for name in unknown:
        found.append(f"{path}.{name}" if path else name)
        if remove:
            del value[name]
