"""Merging two typed values, the applied one over the live one."""

from __future__ import annotations

from typing import Any

from ctrlruntime.envtest.merge.typed import ListType, MapType, TypeNode
from ctrlruntime.json import Json


def merge(live: object, applied: object, node: TypeNode) -> Json:
    """Return ``live`` with every field of ``applied``; nothing is removed.

    Returns ``live`` itself where nothing changes, so an unchanged part is recognised by identity.
    List items keep the order of ``applied`` as far as it has one. Neither argument is changed.
    """
    if live is applied:
        return live
    if isinstance(applied, dict) and node.map is not None:
        return _merge_maps(live, applied, node.map)
    if isinstance(applied, list) and node.list is not None:
        return _merge_lists(live, applied, node.list)
    if applied is None:
        return _keep_under_null(live, node)
    if live == applied and type(live) is type(applied):
        return live
    return applied


def _keep_under_null(live: object, node: TypeNode) -> Json:
    """Return what a null leaves of the value: the items of a map or list that is merged item by item."""
    if isinstance(live, dict) and node.map is not None:
        return live if live and not node.map.atomic else None
    if isinstance(live, list) and node.list is not None and node.map is None:
        return live if live and node.list.relation != "atomic" else None
    return None


def _merge_maps(live: object, applied: dict[str, Any], map_type: MapType) -> Json:
    if not isinstance(live, dict):
        return applied
    if map_type.atomic or (not live and not applied):
        return live if live == applied else applied
    merged: dict[str, Any] | None = None
    named, element = map_type.fields, map_type.element
    for key, value in applied.items():
        if key in live:
            mine = live[key]
            if type(value) is str:
                if type(mine) is str and mine == value:
                    continue
                result: Any = value
            else:
                child = named.get(key, element)
                result = value if child is None else merge(mine, value, child)
                if result is mine:
                    continue
        else:
            result = value
        if merged is None:
            merged = dict(live)
        merged[key] = result
    return live if merged is None else merged


def _merge_lists(live: object, applied: list[Any], list_type: ListType) -> list[Any]:
    if not isinstance(live, list):
        return applied
    if list_type.relation == "atomic" or (not live and not applied):
        return live if live == applied else applied
    merged = _ListMerge(live, applied, list_type).run()
    if len(merged) == len(live) and all(a is b for a, b in zip(merged, live, strict=True)):
        return live
    return merged


class _ListMerge:
    """Two lists of identified items walked side by side.

    Items that both have appear in the order of the applied list; items of the live list alone stay
    behind the neighbour they had.
    """

    def __init__(self, live: list[Any], applied: list[Any], list_type: ListType) -> None:
        self.type = list_type
        self.live = live
        self.live_names = [list_type.element_of(item) for item in live]
        self.names = [list_type.element_of(item) for item in applied]
        self.applied_by = dict(zip(self.names, applied, strict=True))
        self.live_by: dict[str, Any] = {}
        doubled: set[str] = set()
        for name, item in zip(self.live_names, live, strict=True):
            if name in self.live_by:
                doubled.add(name)
            self.live_by[name] = item
        for name in doubled:
            del self.live_by[name]
        known = set(self.live_names)
        self.shared = iter([name for name in self.names if name in known])
        self.next_shared = next(self.shared, None)
        self.done: set[str] = set()
        self.out: list[Any] = []

    def run(self) -> list[Any]:
        left = right = 0
        while left < len(self.live) or right < len(self.names):
            if left < len(self.live) and right < len(self.names):
                name = self.live_names[left]
                if name == self.names[right]:
                    self._take(name)
                    left, right = left + 1, right + 1
                    self.next_shared = next(self.shared, None)
                    continue
                if name in self.applied_by and self.next_shared not in (None, name):
                    left += 1
                    continue
            if left < len(self.live):
                name = self.live_names[left]
                if name not in self.applied_by:
                    self.out.append(self.live[left])
                    left += 1
                    continue
                if name in self.done:
                    left += 1
            if right < len(self.names):
                name = self.names[right]
                self._take(name)
                right += 1
                if self.next_shared == name:
                    self.next_shared = next(self.shared, None)
        return self.out

    def _take(self, name: str) -> None:
        self.done.add(name)
        item = self.applied_by[name]
        if name in self.live_by:
            item = merge(self.live_by[name], item, self.type.element)
        self.out.append(item)
