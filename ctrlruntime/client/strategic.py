"""Strategic merge patch: a merge patch that merges the lists of built-in kinds.

The document and the patch are plain; the schema decides which lists are merged (``patchStrategy:
merge``), by which key (``patchMergeKey``), and which maps are replaced. Directives: ``$patch:
delete|replace|merge``, ``$retainKeys``, ``$deleteFromPrimitiveList/<field>``,
``$setElementOrder/<field>``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Any, Protocol

import orjson


class PatchRefused(Exception):
    """A patch that cannot be carried out; ``code`` and ``reason`` are those of the server's answer."""

    def __init__(self, message: str, *, code: int, reason: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


_PATCH = "$patch"
_RETAIN = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


class PatchSchema(Protocol):
    """The patch view of a schema node."""

    @property
    def strategies(self) -> frozenset[str]:
        """``merge``, ``replace``, ``retainKeys`` of the field."""

    @property
    def merge_key(self) -> str:
        """The key of a merged list of objects; empty: a list of scalars."""

    def field(self, name: str) -> PatchSchema | None:
        """Return the schema of a member; None where it is not declared."""

    def item(self) -> PatchSchema | None:
        """Return the schema of the items of a list."""


def strategic_merge(
    doc: dict[str, Any], patch: dict[str, Any], schema: PatchSchema | None
) -> dict[str, Any]:
    """``doc`` patched. Raises :class:`PatchRefused` for a patch that does not fit."""
    if not isinstance(patch, dict):
        raise PatchRefused("Invalid JSON Patch", code=500, reason="")
    return _merge_maps(doc, patch, schema)


def _bad(message: str) -> PatchRefused:
    return PatchRefused(message, code=500, reason="")


def _merge_maps(
    doc: dict[str, Any] | None, patch: dict[str, Any], schema: PatchSchema | None
) -> dict[str, Any]:
    directive = patch.get(_PATCH)
    if directive == "delete":
        return {}
    if directive == "replace":
        return _cleaned_map(patch)
    if directive not in (None, "merge"):
        raise _bad(f"unknown $patch type found: {directive}")
    merged = dict(doc or {})
    _retain_keys(merged, patch)
    deletions, orders = _parallel(patch)
    for key, values in deletions.items():
        if isinstance(merged.get(key), list):
            merged[key] = _without(merged[key], values)
    for key, value in patch.items():
        if key in (_PATCH, _RETAIN) or key.startswith((_DELETE_FROM, _ORDER)):
            continue
        if value is None:
            merged.pop(key, None)
            continue
        child = schema.field(key) if schema is not None else None
        merged[key] = _merge_member(merged.get(key), value, child)
    for key, order in orders.items():
        child = schema.field(key) if schema is not None else None
        if isinstance(merged.get(key), list):
            before = (doc or {}).get(key)
            known = before if isinstance(before, list) else []
            merged[key] = _ordered(merged[key], order, known, child.merge_key if child else "")
    return merged


def _retain_keys(merged: dict[str, Any], patch: dict[str, Any]) -> None:
    if _RETAIN not in patch:
        return
    kept = patch[_RETAIN]
    if not isinstance(kept, list):
        raise _bad("invalid patch format of $retainKeys list")
    names = {_comparable(each) for each in kept}
    for key, value in patch.items():
        if value is not None and not key.startswith("$") and key not in names:
            raise _bad("patch contains fields that are not in the $retainKeys list")
    for key in [key for key in merged if key not in names]:
        del merged[key]


def _parallel(patch: dict[str, Any]) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    deletions: dict[str, list[Any]] = {}
    orders: dict[str, list[Any]] = {}
    for key, value in patch.items():
        for prefix, target in ((_DELETE_FROM, deletions), (_ORDER, orders)):
            if key.startswith(prefix):
                if not isinstance(value, list):
                    raise _bad(f"invalid patch format of {prefix.rstrip('/')} list")
                target[key.removeprefix(prefix)] = value
    return deletions, orders


def _merge_member(mine: object, value: object, schema: PatchSchema | None) -> object:
    strategies = schema.strategies if schema is not None else frozenset[str]()
    if isinstance(value, dict):
        if isinstance(mine, dict) and "replace" not in strategies:
            return _merge_maps(mine, value, schema)
        return _cleaned(_merge_maps({}, value, schema))
    if isinstance(value, list):
        if "merge" not in strategies or schema is None:
            return [_cleaned(item) for item in value]
        return _merge_lists(mine if isinstance(mine, list) else [], value, schema)
    return value


def _merge_lists(mine: list[Any], patch: list[Any], schema: PatchSchema) -> list[Any]:
    key = schema.merge_key
    if not key:
        values: dict[Hashable, Any] = {}
        for item in [*mine, *patch]:
            values.setdefault(_comparable(item), item)
        return _ordered([*values.values()], patch, mine, "")
    for item in patch:
        if not isinstance(item, dict):
            raise _bad(f"expected a list of objects with the merge key {key}, got {go_value(item)}")
    if any(item.get(_PATCH) == "replace" for item in patch):
        return [_cleaned(item) for item in patch if item.get(_PATCH) != "replace"]
    return _ordered(_merge_items(mine, patch, schema), patch, mine, key)


def _merge_items(mine: list[Any], patch: list[dict[str, Any]], schema: PatchSchema) -> list[Any]:
    """Return the items of both, those of one key merged. Each is found by its key: there may be 10,000."""
    key, child = schema.merge_key, schema.item()
    merged: list[Any] = list(mine)
    places: dict[Hashable, list[int]] = {}
    for place, each in enumerate(mine):
        if isinstance(each, dict):
            places.setdefault(_comparable(each.get(key)), []).append(place)
    gone: set[int] = set()
    for item in patch:
        if key not in item:
            raise _bad(f"map: {go_value(item)} does not contain declared merge key: {key}")
        name = _comparable(item[key])
        found = places.get(name)
        if item.get(_PATCH) == "delete":
            gone.update(places.pop(name, ()))
        elif found:
            merged[found[0]] = _merge_maps(merged[found[0]], item, child)
        else:
            places[name] = [len(merged)]
            merged.append(_cleaned(_merge_maps({}, item, child)))
    return [item for place, item in enumerate(merged) if place not in gone]


def _ordered(items: list[Any], order: list[Any], before: list[Any], key: str) -> list[Any]:
    """Items that ``order`` names come in its order.

    The others come where the list before had them: in front of the first named item that was
    behind them there, else at the end.
    """

    def name(item: object) -> Hashable:
        return _comparable(item.get(key) if key and isinstance(item, dict) else item)

    wanted = {name(entry): place for place, entry in enumerate(order)}
    position = {name(entry): place for place, entry in enumerate(before)}
    named = sorted((i for i in items if name(i) in wanted), key=lambda item: wanted[name(item)])
    others = [item for item in items if name(item) not in wanted]
    others.sort(key=lambda item: position.get(name(item), len(before)))
    waiting = deque(others)
    out: list[Any] = []
    for item in named:
        mark = position.get(name(item))
        while mark is not None and waiting and position.get(name(waiting[0]), mark) < mark:
            out.append(waiting.popleft())
        out.append(item)
    return [*out, *waiting]


def _without(items: list[Any], gone: list[Any]) -> list[Any]:
    names = {_comparable(item) for item in gone}
    return [item for item in items if _comparable(item) not in names]


def _comparable(value: Any) -> Hashable:  # noqa: ANN401
    """Return a value as one that a dict takes: equal ones are equal, objects and lists too."""
    if isinstance(value, dict | list):
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    made: Hashable = value
    return made


def _cleaned_map(value: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _cleaned(item)
        for key, item in value.items()
        if item is not None
        and key not in (_PATCH, _RETAIN)
        and not key.startswith((_DELETE_FROM, _ORDER))
    }


def _cleaned(value: object) -> object:
    """Return a new part of the document: without directives and without nulls."""
    if isinstance(value, dict):
        return _cleaned_map(value)
    if isinstance(value, list):
        return [
            _cleaned(item)
            for item in value
            if not (isinstance(item, dict) and item.get(_PATCH) == "delete")
        ]
    return value


def go_value(value: object) -> str:
    """Return a value as Go's ``%v`` prints it: ``map[a:1 b:[x y]]``."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_value(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(go_value, value)) + "]"
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)
