"""Drift, read from metadata alone.

When another manager changes or removes a field that our manager owns, the server takes the field out of
our entry in `managedFields`; a field of another manager leaves the entry alone. So an object has
drifted exactly when a leaf of the desired object is missing from our own entry. Values are never
compared: the server rewrites them (`1000m` becomes `1`, defaults appear).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec
import orjson

from ctrlruntime.json import Json
from ctrlruntime.resources.keyed_items import KeyedItems

_NOT_OWNED_AT_ROOT = frozenset({"apiVersion", "kind", "status"})
_NOT_OWNED_IN_METADATA = frozenset(
    {
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "generation",
        "resourceVersion",
        "managedFields",
        "selfLink",
        "generateName",
    }
)
Location: TypeAlias = tuple[str | int, ...]
"""Keys of maps and places in lists that lead to a field of an object."""


def missing_leaves(
    desired: Mapping[str, Any], owned: bytes | None, before: bytes | None = None
) -> list[str]:
    """Return the paths of `desired` that the fieldsV1 document `owned` does not hold.

    `owned` is our entry's `fieldsV1`, or None when we own nothing; then every leaf is missing.
    Keyed list items are matched by the keys the desired item gives: a key that the server filled
    in by default (`protocol: TCP`) is not compared.

    `before` is an earlier `owned` that was complete. A map owned as such looks like an atomic one
    once all its entries are lost; where it had entries before, they are missing.
    """
    return [dotted(each) for each in missing_locations(desired, owned, before)]


def missing_locations(
    desired: Mapping[str, Any], owned: bytes | None, before: bytes | None = None
) -> list[Location]:
    """Return what `missing_leaves` does, as locations; none is within another."""
    fields = msgspec.json.decode(owned) if owned else {}
    earlier = msgspec.json.decode(before) if before else {}
    missing: list[Location] = []
    for name, value in desired.items():
        if name in _NOT_OWNED_AT_ROOT:
            continue
        if name == "metadata":
            value = {k: v for k, v in value.items() if k not in _NOT_OWNED_IN_METADATA}
            if not value:
                continue
        _walk({name: value}, fields, earlier, (), missing)
    return missing


def not_ignored(missing: Iterable[Location], ignored: Collection[str]) -> Iterator[Location]:
    """Yield the locations that are not, and are not within, one of the paths that `dotted` gives."""
    longest = max(map(len, ignored), default=0)
    names = frozenset(ignored)
    known: dict[Location, tuple[str, bool]] = {(): ("", False)}

    def look(location: Location) -> tuple[str, bool]:
        found = known.get(location)
        if found is None:
            text, within = found = look(location[:-1])
            if (
                not within and len(text) <= longest
            ):  # a longer one is no ignored path, nor is one in it
                text = _joined(text, location[-1])
                found = (text, text in names)
            known[location] = found
        return found

    for location in missing:
        if not names or not look(location)[1]:
            yield location


def dotted(location: Location) -> str:
    """Return a location as a path: `spec.containers[0].image`."""
    text = ""
    for part in location:
        text = _joined(text, part)
    return text


def _joined(text: str, part: str | int) -> str:
    if isinstance(part, int):
        return f"{text}[{part}]"
    return f"{text}.{part}" if text else part


def _walk(
    value: Json, node: dict[str, Any], before: Json, place: Location, missing: list[Location]
) -> None:
    """Note what is missing of a value that is owned, and not as a whole. It runs for every object that is looked at."""
    if isinstance(value, list):
        _walk_list(value, node, place, missing)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            if item is None:
                continue
            key = f"f:{name}"
            child = node.get(key)
            if child is None:
                missing.append((*place, name))
                continue
            earlier = before.get(key) if before else None
            if child or earlier:  # else a leaf of the entry: atomic or scalar, owned whole
                _walk(item, child, earlier, (*place, name), missing)


def _walk_list(
    items: list[Any], node: dict[str, Any], place: Location, missing: list[Location]
) -> None:
    keyed = [(orjson.loads(key[2:]), child) for key, child in node.items() if key[:2] == "k:"]
    known = KeyedItems([keys for keys, _ in keyed]) if keyed else None
    for index, item in enumerate(items):
        if isinstance(item, Mapping):
            found = known.first(item) if known else None
            child = None if found is None else keyed[found][1]
        else:
            child = node.get(f"v:{orjson.dumps(item).decode()}")
        if child is None:
            if item is not None:
                missing.append((*place, index))
        elif child:
            _walk(item, child, None, (*place, index), missing)
