"""Items of a list that agree with given keys, found without looking at each of them. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import Any, Final

import orjson

from ctrlruntime.json import Json

Names = tuple[str, ...]
ANY: Final = "*"
"""A value of an item that agrees with each: the uid of an owner is recorded so, so that objects of one template share it."""
MOST_INDEXES: Final = 16
"""Sets of keys by which the items of one list are looked up; items of further ones are not found."""
_FEW: Final = 8
"""Items up to which looking at each is quicker."""


class KeyedItems:
    """The items of a list, by what identifies them. One agrees with keys if it has no other value for a key of both."""

    __slots__ = ("_groups", "_indexes", "_items")

    def __init__(self, items: Sequence[Mapping[str, Any]]) -> None:
        self._items = items
        if len(items) <= _FEW:
            return
        self._groups: dict[Names, list[tuple[int, Mapping[str, Any]]]] = {}
        self._indexes: dict[tuple[Names, Names], dict[Hashable, list[int]]] = {}
        for place, item in enumerate(items):
            given = {name: value for name, value in item.items() if value != ANY}
            self._groups.setdefault(tuple(given), []).append((place, given))

    def first(self, keys: Mapping[str, Any]) -> int | None:
        """Return the place of the first item that agrees with the keys."""
        if len(self._items) > _FEW:
            return next(self.matching(keys), None)
        for place, item in enumerate(self._items):
            if _agree(item, keys):
                return place
        return None

    def matching(self, keys: Mapping[str, Any]) -> Iterator[int]:
        """Return the places of the items that agree with the keys, the first one first."""
        if len(self._items) <= _FEW:
            return (place for place, item in enumerate(self._items) if _agree(item, keys))
        found: list[list[int]] = []
        for names in islice(self._groups, MOST_INDEXES):
            common = tuple(name for name in names if name in keys)
            places = self._index(names, common).get(_values(keys, common))
            if places:
                found.append(places)
        return iter(found[0]) if len(found) == 1 else merge(*found)

    def _index(self, names: Names, common: Names) -> Mapping[Hashable, list[int]]:
        known = self._indexes.get((names, common))
        if known is None:
            known = {}
            if len(self._indexes) < MOST_INDEXES:
                for place, item in self._groups[names]:
                    known.setdefault(_values(item, common), []).append(place)
                self._indexes[names, common] = known
        return known


def _agree(item: Mapping[str, Any], keys: Mapping[str, Any]) -> bool:
    for name, value in item.items():
        if name in keys and keys[name] != value and value != ANY:
            return False
    return True


def _values(item: Mapping[str, Any], names: Names) -> Hashable:
    return tuple([_hashable(item[name]) for name in names])


def _hashable(value: Json) -> Hashable:
    """Return a value of JSON as one that a dict takes; equal ones stay equal."""
    if isinstance(value, str | int):
        return value
    if isinstance(value, Mapping | list):
        return (orjson.dumps(value, option=orjson.OPT_SORT_KEYS),)
    return value if value is None or isinstance(value, float) else repr(value)
