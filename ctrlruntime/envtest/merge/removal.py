"""Taking fields out of a value, and the pruning of fields that are no longer applied."""

from __future__ import annotations

from typing import Any

from ctrlruntime.envtest.merge import fields
from ctrlruntime.envtest.merge.fields import FieldSet
from ctrlruntime.envtest.merge.typed import ListType, MapType, TypeNode, field_set
from ctrlruntime.json import Json


def remove(value: object, node: TypeNode, taken: FieldSet) -> Json:
    """``value`` without the members of ``taken``; ``value`` itself when it holds none of them.

    A list from which all is taken becomes null and a map becomes empty, as in the reference
    implementation.
    """
    if isinstance(value, dict) and node.map is not None:
        return _remove_from_map(value, node.map, taken)
    if isinstance(value, list) and node.list is not None:
        return _remove_from_list(value, node.list, taken)
    return value


def _remove_from_map(
    value: dict[str, Any], map_type: MapType, taken: FieldSet
) -> dict[str, Any] | None:
    if not value or map_type.atomic:
        return None
    out: dict[str, Any] | None = None
    emptied = False
    for element, below in taken.items():
        if element[:2] != "f:":
            continue
        key = element[2:]
        if key not in value:
            continue
        if fields.is_member(below):
            out = dict(value) if out is None else out
            del out[key]
            continue
        child = map_type.child(key)
        if child is None:
            continue
        item = value[key]
        rest = remove(item, child, below)
        if rest is not item:
            out = dict(value) if out is None else out
            out[key] = rest
            if rest is None and item:
                del out[key]
                emptied = True
    if emptied and not out:
        return None
    return value if out is None else out


def _remove_from_list(value: list[Any], list_type: ListType, taken: FieldSet) -> list[Any] | None:
    if not value or list_type.relation == "atomic":
        return None
    out: list[Any] = []
    changed = False
    for item in value:
        below = taken.get(list_type.element_of(item))
        if below is None:
            out.append(item)
            continue
        if fields.is_member(below):
            changed = True
            continue
        rest = remove(item, list_type.element, below)
        changed = changed or rest is not item
        out.append(rest)
    if not changed:
        return value
    return out or None


def with_named(fields_: FieldSet, node: TypeNode | None) -> FieldSet:
    """Return the set with every declared field that leads to a member made a member itself."""
    if node is None:
        return fields_
    named = node.map.fields if node.map is not None else {}
    out = dict(fields_)
    for element, below in fields_.items():
        if not below:
            continue
        inner = with_named(below, _step(node, element))
        if element[:2] == "f:" and element[2:] in named and fields.SELF not in inner:
            inner[fields.SELF] = {}
        out[element] = inner
    return out


def _step(node: TypeNode | None, element: str) -> TypeNode | None:
    if node is None:
        return None
    if element[:2] == "f:":
        return node.map.child(element[2:]) if node.map is not None else None
    return node.list.element if node.list is not None else None


def without(merged: object, node: TypeNode, last: FieldSet) -> Json:
    """Return ``merged`` without all that ``last`` has: what is owned elsewhere comes back afterwards."""
    return _object(remove(merged, node, with_named(last, node)))


def with_owned(
    merged: object, pruned: object, node: TypeNode, owned: FieldSet, everything: FieldSet
) -> Json:
    """``pruned`` with those parts of ``merged`` (``everything`` in it) that someone owns."""
    kept = fields.union(named_fields(pruned, node), with_named(owned, node))
    return _object(remove(merged, node, fields.difference(everything, kept)))


def with_dangling(
    merged: object, pruned: object, node: TypeNode, last: FieldSet, everything: FieldSet
) -> Json:
    """``pruned`` with what was lost although ``last`` does not have it."""
    lost = fields.difference(everything, named_fields(pruned, node))
    gone = fields.intersection(lost, with_named(last, node))
    return _object(remove(merged, node, gone))


def named_fields(value: object, node: TypeNode) -> FieldSet:
    """All fields of a value, those declared fields included that only lead to others."""
    return with_named(field_set(value, node), node)


def _object(value: object) -> Json:
    return {} if value is None else value
