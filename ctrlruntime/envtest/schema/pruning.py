"""Pruning of custom resources: fields that the schema does not know are removed."""

from __future__ import annotations

from typing import Any

from ctrlruntime.envtest.schema.builtin_fields import FieldNode, unknown
from ctrlruntime.envtest.schema.structural import Structural

_TYPE_META = frozenset({"apiVersion", "kind", "metadata"})


class Pruner:
    """Finds the unknown fields of one value; ``metadata`` is the type of object metadata."""

    def __init__(self, metadata: FieldNode | None, *, remove: bool) -> None:
        self._metadata = metadata
        self._remove = remove
        self.found: list[str] = []

    def clean(self, value: object, node: Structural, *, root: bool = False) -> bool:
        """Whether there is certainly nothing unknown: quick, as that is the rule."""
        if type(value) is list:
            items = node.items
            return items is None or all(
                self.clean(item, items)
                for item in value
                if type(item) is dict or type(item) is list
            )
        if type(value) is not dict:
            return True
        whole = root or node.embedded
        known = self._metadata
        if whole and known is not None and unknown(value.get("metadata"), known):
            return False
        named, others = node.properties, node.additional
        for name, item in value.items():
            if whole and name in _TYPE_META:
                continue
            member = named.get(name)
            if member is None:
                if not isinstance(others, Structural):
                    if node.preserve or others is True:
                        continue
                    return False
                member = others
            if (type(item) is dict or type(item) is list) and not self.clean(item, member):
                return False
        return True

    def visit(self, value: object, node: Structural, path: str, *, root: bool = False) -> None:
        if isinstance(value, dict):
            self._map(value, node, path, root)
        elif isinstance(value, list) and node.items is not None:
            for index, item in enumerate(value):
                if isinstance(item, dict | list):
                    self.visit(item, node.items, f"{path}[{index}]")

    def _map(self, value: dict[str, Any], node: Structural, path: str, root: bool) -> None:
        open_ended = node.preserve or node.additional is True
        whole = root or node.embedded
        unknown_here: list[str] = []
        for name, item in value.items():
            if whole and name in _TYPE_META:
                if name == "metadata" and self._metadata is not None:
                    here = f"{path}.metadata" if path else name
                    self.found += unknown(item, self._metadata, here, remove=self._remove)
                continue
            member = node.child(name)
            if member is not None:
                if isinstance(item, dict | list):
                    self.visit(item, member, f"{path}.{name}" if path else name)
            elif not open_ended:
                unknown_here.append(name)
        for name in unknown_here:
            self.found.append(f"{path}.{name}" if path else name)
            if self._remove:
                del value[name]


def prune(
    value: object,
    node: Structural,
    *,
    root: bool = True,
    remove: bool = True,
    metadata: FieldNode | None = None,
) -> list[str]:
    """Remove unknown fields (changes ``value``) and return their paths, sorted.

    ``root``: the value is a whole object, whose apiVersion, kind and metadata are always known;
    the members of ``metadata`` are held against its type. ``remove=False`` only looks.
    """
    pruner = Pruner(metadata, remove=remove)
    if pruner.clean(value, node, root=root):
        return []
    pruner.visit(value, node, "", root=root)
    return sorted(pruner.found)
