"""Field sets in the form of ``fieldsV1``: nested dicts keyed by path elements.

A path element is the string the wire uses: ``f:name`` (a field), ``k:{...}`` (a list item by its
keys), ``v:value`` (an item of a set), ``i:0`` (an index). A node is a member of the set when it is
empty or holds ``.``; otherwise it only leads to members below it. The root is not a member of
itself, so the empty set is ``{}``.

Every function treats its arguments as values: results may share parts with them, and nothing
handed in is changed. Only :func:`insert` and :func:`insert_at`, for building a new set, mutate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import orjson

FieldSet: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str, ...]

SELF = "."
_LEAF: FieldSet = {}


def is_member(node: FieldSet) -> bool:
    """Whether the path that leads to ``node`` belongs to the set itself."""
    return not node or SELF in node


def _assemble(member: bool, children: FieldSet) -> FieldSet | None:
    if not children:
        return _LEAF if member else None
    if member:
        return {SELF: _LEAF, **children}
    return children


def _below(node: FieldSet) -> FieldSet:
    """Return what lies below a node, without the node's own membership."""
    if SELF not in node:
        return node
    return {element: child for element, child in node.items() if element != SELF}


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """Members of either set."""
    if left is right or not right:
        return left
    if not left:
        return right
    merged = dict(left)
    for element, node in right.items():
        mine = merged.get(element)
        if mine is None:
            merged[element] = node
        elif mine is not node and mine != node:
            merged[element] = _union_node(mine, node)
    return merged


def _union_node(left: FieldSet, right: FieldSet) -> FieldSet:
    if not left:
        return right if SELF in right else {SELF: _LEAF, **right}
    if not right:
        return left if SELF in left else {SELF: _LEAF, **left}
    return union(left, right)


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """Members of both sets."""
    if left is right:
        return left
    if len(right) < len(left):
        left, right = right, left
    found: FieldSet = {}
    for element, node in left.items():
        other = right.get(element)
        if other is None or element == SELF:
            continue
        if node == other:
            found[element] = node
            continue
        common = _assemble(is_member(node) and is_member(other), intersection(_below(node), other))
        if common is not None:
            found[element] = common
    return found


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Members of ``left`` that are not members of ``right``; children are judged on their own."""
    return _difference(left, right, recursive=False)


def recursive_difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """As :func:`difference`, and a member of ``right`` also removes all that lies below it."""
    return _difference(left, right, recursive=True)


def _difference(left: FieldSet, right: FieldSet, *, recursive: bool) -> FieldSet:
    if not right:
        return left
    rest: FieldSet = {}
    for element, node in left.items():
        if element == SELF:
            continue
        other = right.get(element)
        if other is None:
            rest[element] = node
            continue
        if is_member(other) if recursive else node == other:
            continue
        member = is_member(node) and not is_member(other)
        kept = _assemble(member, _difference(_below(node), other, recursive=recursive))
        if kept is not None:
            rest[element] = kept
    return rest


def has(fields: FieldSet, path: Sequence[str]) -> bool:
    """Whether ``path`` itself is a member."""
    node = fields
    for element in path:
        child = node.get(element)
        if child is None:
            return False
        node = child
    return bool(path) and is_member(node)


def insert(fields: FieldSet, path: Sequence[str]) -> None:
    """Make ``path`` a member of a set under construction (mutates ``fields``)."""
    node = fields
    for element in path[:-1]:
        child = node.get(element)
        if child is None:
            child = node[element] = {}
        elif not child:
            child[SELF] = {}
        node = child
    insert_at(node, path[-1])


def insert_at(node: FieldSet, element: str) -> None:
    """Make ``element`` a member directly below ``node`` (mutates ``node``)."""
    child = node.get(element)
    if child is None:
        node[element] = {}
    elif child:
        child[SELF] = {}


def of(*paths: Sequence[str]) -> FieldSet:
    """Return the set of these paths."""
    fields: FieldSet = {}
    for path in paths:
        insert(fields, path)
    return fields


def leaves(fields: FieldSet) -> FieldSet:
    """Members without members below them."""
    found: FieldSet = {}
    for element, node in fields.items():
        if element == SELF:
            continue
        below = leaves(node)
        kept = _assemble(not below and is_member(node), below)
        if kept is not None:
            found[element] = kept
    return found


def paths(fields: FieldSet, prefix: Path = ()) -> Iterator[Path]:
    """All members in canonical order."""
    for element in sorted(fields, key=_order):
        if element == SELF:
            continue
        here = (*prefix, element)
        node = fields[element]
        if is_member(node):
            yield here
        yield from paths(node, here)


def paths_by_level(fields: FieldSet, prefix: Path = ()) -> Iterator[Path]:
    """All members, those of a level before those below it: the order in which conflicts show."""
    ordered = [element for element in sorted(fields, key=_order) if element != SELF]
    for element in ordered:
        if is_member(fields[element]):
            yield (*prefix, element)
    for element in ordered:
        if fields[element]:
            yield from paths_by_level(fields[element], (*prefix, element))


# --- path elements -------------------------------------------------------------------------------


def key_element(keys: Mapping[str, Any]) -> str:
    """Return the element of a list item that its keys identify: ``k:{"name":"x"}``."""
    return "k:" + orjson.dumps(keys, option=orjson.OPT_SORT_KEYS).decode()


def value_element(value: object) -> str:
    """Return the element of a set item: ``v:"x"``."""
    return "v:" + orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


_KIND_ORDER = {"f": 0, "k": 1, "v": 2, "i": 3}


@lru_cache(maxsize=8192)
def _order(element: str) -> tuple[int, Any]:
    if element == SELF:
        return (-1, "")
    kind = _KIND_ORDER.get(element[0], 4)
    if kind in (0, 4):
        return (kind, element)
    if kind == 3:
        return (kind, int(element[2:]))
    value = orjson.loads(element[2:])
    if kind == 1:
        return (kind, tuple((name, _value_order(value[name])) for name in sorted(value)))
    return (kind, _value_order(value))


def _value_order(value: object) -> tuple[int, Any]:
    """Numbers, strings, booleans, lists, maps, null: the order of the Go implementation."""
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, int | float):
        return (0, value)
    if isinstance(value, str):
        return (1, value)
    if isinstance(value, list):
        return (3, tuple(_value_order(item) for item in value))
    if isinstance(value, dict):
        return (4, tuple((name, _value_order(value[name])) for name in sorted(value)))
    return (5, 0)


class FieldsError(ValueError):
    """``fieldsV1`` that the server could not read."""


@lru_cache(maxsize=8192)
def _canonical(element: str) -> str:
    kind, colon, rest = element[:1], element[1:2], element[2:]
    if kind not in _KIND_ORDER or colon != ":":
        raise FieldsError(f"unable to parse path element {element!r}")
    if kind == "f":
        return element
    try:
        value = orjson.loads(rest)
    except orjson.JSONDecodeError as error:
        raise FieldsError(f"unable to parse path element {element!r}: {error}") from error
    if kind == "k":
        if not isinstance(value, dict):
            raise FieldsError(f"unable to parse path element {element!r}: keys are not an object")
        return key_element(value)
    if kind == "i":
        if not isinstance(value, int):
            raise FieldsError(f"unable to parse path element {element!r}: no index")
        return f"i:{value}"
    return value_element(value)


def from_json(tree: object) -> FieldSet:
    """Read decoded ``fieldsV1``. Raises :class:`FieldsError` where an element is malformed."""
    if not isinstance(tree, dict):
        raise FieldsError(f"fieldsV1 must be an object, got {type(tree).__name__}")
    fields: FieldSet = {}
    for element, node in tree.items():
        if element == SELF:
            fields[SELF] = _LEAF
            continue
        name = element if element[:2] == "f:" else _canonical(element)
        fields[name] = from_json(node) if node else _LEAF
    return fields


def to_json(fields: FieldSet) -> FieldSet:
    """Return a fresh tree in canonical order, ready to be encoded as ``fieldsV1``."""
    names = sorted(fields)
    if names and not (names[0][0] in ".f" and names[-1][0] in ".f"):
        names.sort(key=_order)  # what is no field has an order of its own
    return {name: to_json(node) if (node := fields[name]) else {} for name in names}


def path_string(path: Sequence[str]) -> str:
    """Return a path as the server prints it: ``.spec.ports[port=80,protocol="TCP"].name``."""
    return "".join(map(_element_string, path))


def _element_string(element: str) -> str:
    kind, rest = element[0], element[2:]
    if kind == "f":
        return "." + rest
    if kind == "k":
        keys = orjson.loads(rest)
        inner = ",".join(f"{name}={value_string(keys[name])}" for name in sorted(keys))
        return f"[{inner}]"
    if kind == "v":
        return f"[={value_string(orjson.loads(rest))}]"
    return f"[{rest}]"


def value_string(value: object) -> str:
    """Return a value as the server prints it inside a path."""
    if isinstance(value, list):
        return "[" + ",".join(map(value_string, value)) + "]"
    if isinstance(value, dict):
        inner = ";".join(f"{name}={value_string(value[name])}" for name in sorted(value))
        return "{" + inner + "}"
    return orjson.dumps(value).decode()
