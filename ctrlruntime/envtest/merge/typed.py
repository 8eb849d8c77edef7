"""The types that merging needs: which maps and lists are merged, and by which keys.

A :class:`TypeNode` describes what a value may be: a scalar, a list, a map, or (untyped) any of them. It
is built from an OpenAPI schema with the ``x-kubernetes-*`` extensions, see ``schema``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal

import orjson

from ctrlruntime.client.strategic import go_value
from ctrlruntime.envtest.merge import fields
from ctrlruntime.envtest.merge.fields import FieldSet

Scalar = Literal["string", "numeric", "boolean", "untyped"]
Relation = Literal["atomic", "set", "map"]
_NAMES: Final = 4096


class MapType:
    """An object: named fields, and ``element`` for the keys that are not named.

    ``fields`` may be given as a function; it is called at the first use, which lets recursive and
    large schemas be built piece by piece.
    """

    __slots__ = ("_named", "atomic", "element")

    def __init__(
        self,
        named: dict[str, TypeNode] | Callable[[], dict[str, TypeNode]],
        *,
        element: TypeNode | None = None,
        atomic: bool = False,
    ) -> None:
        self.atomic = atomic
        self.element = element
        self._named = named

    @property
    def fields(self) -> dict[str, TypeNode]:
        named = self._named
        if callable(named):
            named = self._named = named()
        return named

    def child(self, name: str) -> TypeNode | None:
        """Return the type of one field; ``None`` when the schema does not declare it."""
        return self.fields.get(name, self.element)


class ListType:
    """A list: replaced whole (atomic), a set of scalars, or items identified by ``keys``."""

    __slots__ = ("_names", "element", "key_defaults", "keys", "relation")

    def __init__(
        self,
        element: TypeNode,
        *,
        relation: Relation = "atomic",
        keys: tuple[str, ...] = (),
        key_defaults: dict[str, Any] | None = None,
    ) -> None:
        self.element = element
        self.relation: Relation = relation
        self.keys = keys
        self.key_defaults = key_defaults or {}
        self._names: dict[str, str] = {}
        """Elements of items that one text names, the ones seen lately."""

    def element_of(self, item: object) -> str:
        """Return the path element of one item. Raises :class:`TypeMismatch` when it has no identity."""
        if self.relation == "map":
            return self._keyed(item)
        if isinstance(item, dict):
            raise TypeMismatch("associative list without keys has an element that's a map type")
        if isinstance(item, list):
            raise TypeMismatch("associative list without keys has an element that's a list type")
        return fields.value_element(item)

    def _keyed(self, item: object) -> str:
        if item is None:
            raise TypeMismatch("associative list with keys may not have a null element")
        if not isinstance(item, dict):
            raise TypeMismatch("associative list with keys may not have non-map elements")
        if len(self.keys) == 1:
            value = item.get(self.keys[0])
            if type(value) is str:
                return self._names.get(value) or self._named(value)
        found: dict[str, Any] = {}
        for name in self.keys:
            if name in item:
                found[name] = item[name]
            elif name in self.key_defaults:
                found[name] = self.key_defaults[name]
        if not found:
            names = "[" + " ".join(f'"{name}"' for name in self.keys) + "]"
            raise TypeMismatch(
                f"associative list with keys has an element that omits all key fields {names} "
                "(and doesn't have default values for any key fields)"
            )
        return fields.key_element(found)

    def _named(self, value: str) -> str:
        if len(self._names) >= _NAMES:
            self._names.clear()
        name = f'k:{{"{self.keys[0]}":{orjson.dumps(value).decode()}}}'
        self._names[value] = name
        return name


class TypeNode:
    """What a value may be. Usually exactly one of the three is set; untyped values have all."""

    __slots__ = ("list", "map", "scalar")

    def __init__(
        self,
        *,
        scalar: Scalar | None = None,
        map_: MapType | None = None,
        list_: ListType | None = None,
    ) -> None:
        self.scalar: Scalar | None = scalar
        self.map = map_
        self.list = list_


def _untyped(*, atomic: bool) -> TypeNode:
    node = TypeNode(scalar="untyped")
    node.map = MapType({}, element=node, atomic=atomic)
    node.list = ListType(node)
    return node


STRING = TypeNode(scalar="string")
NUMBER = TypeNode(scalar="numeric")
BOOLEAN = TypeNode(scalar="boolean")
ANY_SCALAR = TypeNode(scalar="untyped")
UNTYPED = _untyped(atomic=False)
"""Anything: maps are merged by key, lists are atomic (preserve-unknown-fields, no schema)."""


class TypeMismatch(ValueError):
    """A value that its type does not allow; ``errors`` holds ``(path, message)`` pairs."""

    def __init__(self, *messages: str) -> None:
        self.messages = messages
        if len(messages) == 1:
            super().__init__(messages[0])
        else:
            super().__init__("\n".join(["errors:", *(f"  {message}" for message in messages)]))


def field_set(value: object, node: TypeNode) -> FieldSet:
    """Return the fields that ``value`` sets, as an apply owns them.

    Scalars, atomic values, empty maps and lists, keys of maps and items of lists are members;
    named fields that lead to other members are not.
    """
    out: FieldSet = {}
    map_type = node.map
    if map_type is not None and isinstance(value, dict):
        _map_fields(value, map_type, out)
    return out


def _collect(value: object, node: TypeNode) -> FieldSet | None:
    """Return the set below one value; ``None``: the value itself is the member.

    An empty list that is merged item by item owns nothing, unlike an empty map.
    """
    if isinstance(value, dict):
        map_type = node.map
        if map_type is None or map_type.atomic or not value:
            return None
        out: FieldSet = {}
        _map_fields(value, map_type, out)
        return out
    if isinstance(value, list):
        list_type = node.list
        if list_type is None or list_type.relation == "atomic":
            return None
        out = {}
        _list_fields(value, list_type, out)
        return out
    return None


def _map_fields(value: dict[str, Any], map_type: MapType, out: FieldSet) -> None:
    named, element = map_type.fields, map_type.element
    for key, item in value.items():
        if type(item) is not dict and type(item) is not list:
            out["f:" + key] = {}
            continue
        child = named.get(key)
        if child is not None:
            below = _collect(item, child)
            if below is None:
                out["f:" + key] = {}
            elif below:
                out["f:" + key] = below
            continue
        below = _collect(item, element) if element is not None else None
        if below:
            below[fields.SELF] = {}
        out["f:" + key] = below or {}


def _list_fields(value: list[Any], list_type: ListType, out: FieldSet) -> None:
    for item in value:
        path_element = list_type.element_of(item)
        if path_element in out:
            out[path_element] = {}
            continue
        below = _collect(item, list_type.element)
        if below:
            below[fields.SELF] = {}
        out[path_element] = below or {}


def check(value: object, node: TypeNode, *, allow_duplicates: bool = False) -> None:
    """Raise :class:`TypeMismatch` with every way in which ``value`` is not of this type."""
    if _fits(value, node, allow_duplicates):
        return
    problems = list(_problems(value, node, (), allow_duplicates))
    if problems:
        raise TypeMismatch(
            *(f"{fields.path_string(path)}: {text}" if path else text for path, text in problems)
        )


def _fits(value: object, node: TypeNode, duplicates: bool) -> bool:
    """Whether there is certainly no problem: quick, since that is the rule."""
    if value is None:
        return True
    if type(value) is dict:
        map_type = node.map
        if map_type is None:
            return False
        named, element = map_type.fields, map_type.element
        for key, item in value.items():
            child = named.get(key, element)
            if child is None:
                return False
            if type(item) is str:
                if child.scalar not in {"string", "untyped"}:
                    return False
            elif not _fits(item, child, duplicates):
                return False
        return True
    if type(value) is list:
        return node.list is not None and _list_fits(value, node.list, duplicates)
    return node.scalar is not None and _scalar_problem(value, node.scalar) is None


def _list_fits(value: list[Any], list_type: ListType, duplicates: bool) -> bool:
    element = list_type.element
    if not all(_fits(item, element, duplicates) for item in value):
        return False
    if list_type.relation == "atomic":
        return True
    try:
        names = {list_type.element_of(item) for item in value}
    except TypeMismatch:
        return False
    return duplicates or len(names) == len(value)


Problem = tuple[tuple[str, ...], str]


def _problems(
    value: object, node: TypeNode, path: tuple[str, ...], duplicates: bool
) -> Iterator[Problem]:
    if value is None:
        return
    if isinstance(value, dict) and node.map is not None:
        yield from _map_problems(value, node.map, path, duplicates)
    elif isinstance(value, list) and node.list is not None:
        yield from _list_problems(value, node.list, path, duplicates)
    elif node.map is not None and node.scalar is None:
        yield path, f"expected map, got &{{{go_value(value)}}}"
    elif node.scalar is not None:
        problem = _scalar_problem(value, node.scalar)
        if problem:
            yield path, problem
    elif node.list is not None:
        yield path, f"expected list, got &{{{go_value(value)}}}"


def _map_problems(
    value: dict[str, Any], map_type: MapType, path: tuple[str, ...], duplicates: bool
) -> Iterator[Problem]:
    """Yield the problems of a map.

    An undeclared field ends its walk: upstream, whose maps have no order, names one of them, beside what it
    happened to find before.
    """
    named, element = map_type.fields, map_type.element
    if element is None:
        for key in value:
            if key not in named:
                yield (*path, "f:" + key), "field not declared in schema"
                return
    for key, item in value.items():
        child = named.get(key, element)
        if child is not None:
            yield from _problems(item, child, (*path, "f:" + key), duplicates)


def _list_problems(
    value: list[Any], list_type: ListType, path: tuple[str, ...], duplicates: bool
) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, item in enumerate(value):
        if list_type.relation == "atomic":
            element = f"i:{index}"
        else:
            try:
                element = list_type.element_of(item)
            except TypeMismatch as error:
                yield path, f"element {index}: {error}"
                continue
            if element in seen and not duplicates:
                yield path, f"duplicate entries for key {fields.path_string((element,))}"
            seen.add(element)
        yield from _problems(item, list_type.element, (*path, element), duplicates)


def _scalar_problem(value: object, scalar: Scalar) -> str | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if scalar == "numeric" and not number:
        return f"expected numeric (int or float), got {_go_type(value)}"
    if scalar == "string" and not isinstance(value, str):
        return f"expected string, got &value.valueUnstructured{{Value:{go_value(value)}}}"
    if scalar == "boolean" and not isinstance(value, bool):
        return f"expected boolean, got &{{{go_value(value)}}}"
    if scalar == "untyped" and isinstance(value, dict | list):
        return f"expected any scalar, got &{{{go_value(value)}}}"
    return None


def _go_type(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int):
        return "int64"
    if isinstance(value, float):
        return "float64"
    return "map[string]interface {}" if isinstance(value, dict) else "[]interface {}"
