"""What differs between two typed values, as three field sets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from ctrlruntime.envtest.merge import fields
from ctrlruntime.envtest.merge.fields import FieldSet, Path
from ctrlruntime.envtest.merge.typed import ListType, MapType, TypeNode
from ctrlruntime.json import Json, equal

_MISSING: Final = object()


@dataclass(slots=True)
class Comparison:
    """Paths that the newer value has added, changed or removed."""

    added: FieldSet = field(default_factory=dict)
    modified: FieldSet = field(default_factory=dict)
    removed: FieldSet = field(default_factory=dict)

    def written(self) -> FieldSet:
        """Return what was added or modified."""
        return fields.union(self.modified, self.added)

    def without(self, ignored: FieldSet) -> Comparison:
        """Return the comparison without what lies at or below ``ignored``."""
        if not ignored:
            return self
        return Comparison(
            fields.recursive_difference(self.added, ignored),
            fields.recursive_difference(self.modified, ignored),
            fields.recursive_difference(self.removed, ignored),
        )


def compare(old: dict[str, Any], new: dict[str, Any], node: TypeNode) -> Comparison:
    """Compare two objects of the type ``node``."""
    result = Comparison()
    _differences(old, new, node, (), result)
    return result


def _differences(old: object, new: object, node: TypeNode, path: Path, result: Comparison) -> None:
    if old is new:
        return
    old_map = isinstance(old, dict) and node.map is not None
    new_map = isinstance(new, dict) and node.map is not None
    if (old_map or new_map) and node.map is not None:
        if (old_map and new_map) or old is None or new is None:
            _compare_maps(old, new, node.map, path, result)
            return
    elif node.list is not None and (isinstance(old, list) or isinstance(new, list)):
        old_list, new_list = isinstance(old, list), isinstance(new, list)
        if (old_list and new_list) or old is None or new is None:
            _compare_lists(old, new, node.list, path, result)
            return
    elif not equal(old, new):
        fields.insert(result.modified, path)
        return
    else:
        return
    _compare_kinds(old, new, node, path, result)


def _compare_kinds(
    old: object, new: object, node: TypeNode, path: Path, result: Comparison
) -> None:
    """Compare an untyped value that changed from one kind to another."""
    if isinstance(old, dict) and old and node.map is not None and not node.map.atomic:
        for key, value in old.items():
            _graft(result.removed, path, "f:" + key, value, node.map.child(key))
    else:
        fields.insert(result.modified, path)
    if isinstance(new, dict) and new and node.map is not None and not node.map.atomic:
        for key, value in new.items():
            _graft(result.added, path, "f:" + key, value, node.map.child(key))
    else:
        fields.insert(result.modified, path)


def _compare_maps(old: Json, new: Json, map_type: MapType, path: Path, result: Comparison) -> None:
    if map_type.atomic or not (old or new):
        if not equal(old, new):
            fields.insert(result.modified, path)
        return
    old, new = old or {}, new or {}
    named, others = map_type.fields, map_type.element
    for key, value in new.items():
        before = old.get(key, _MISSING)
        if before is value:
            continue
        element = "f:" + key
        child = named.get(key, others)
        if before is _MISSING:
            _graft(result.added, path, element, value, child)
        elif child is None:
            if not equal(before, value):
                fields.insert(result.modified, (*path, element))
        else:
            _differences(before, value, child, (*path, element), result)
    for key, value in old.items():
        if key not in new:
            _graft(result.removed, path, "f:" + key, value, map_type.child(key))


def _compare_lists(
    old: Json, new: Json, list_type: ListType, path: Path, result: Comparison
) -> None:
    if list_type.relation == "atomic" or not (old or new):
        if not equal(old, new):
            fields.insert(result.modified, path)
        return
    before, after = _by_element(old or [], list_type), _by_element(new or [], list_type)
    child = list_type.element
    for element, items in after.items():
        others = before.get(element)
        if others is None:
            if len(items) > 1:
                fields.insert(result.added, (*path, element))
            else:
                _graft(result.added, path, element, items[0], child)
        elif len(items) == 1 and len(others) == 1:
            _differences(others[0], items[0], child, (*path, element), result)
        elif not equal(others, items):
            fields.insert(result.modified, (*path, element))
    for element, items in before.items():
        if element not in after:
            if len(items) > 1:
                fields.insert(result.removed, (*path, element))
            else:
                _graft(result.removed, path, element, items[0], child)


def _by_element(items: list[Any], list_type: ListType) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in items:
        found.setdefault(list_type.element_of(item), []).append(item)
    return found


def _graft(
    target: FieldSet, path: Path, element: str, value: object, node: TypeNode | None
) -> None:
    """Put everything that ``value`` holds into ``target`` at ``path`` and ``element``."""
    for step in path:
        below = target.get(step)
        if below is None:
            below = target[step] = {}
        elif not below:
            below[fields.SELF] = {}
        target = below
    target[element] = _whole(value, node)


def _whole(value: object, node: TypeNode | None) -> FieldSet:
    """Every path in ``value``, containers included; a leaf is ``{}``."""
    if not value or node is None:
        return {}
    if isinstance(value, dict):
        map_type = node.map
        if map_type is None or map_type.atomic:
            return {}
        out: FieldSet = {fields.SELF: {}}
        for key, item in value.items():
            out["f:" + key] = _whole(item, map_type.child(key)) if item else {}
        return out
    if isinstance(value, list):
        list_type = node.list
        if list_type is None or list_type.relation == "atomic":
            return {}
        out = {fields.SELF: {}}
        for element, items in _by_element(value, list_type).items():
            out[element] = _whole(items[0], list_type.element) if len(items) == 1 else {}
        return out
    return {}
