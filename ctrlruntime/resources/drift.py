"""Drift, read from metadata alone.

When another manager changes or removes a field that our manager owns, the server takes the field out of
our entry in `managedFields`; a field of another manager leaves the entry alone. So an object has
drifted exactly when a leaf of the desired object is missing from our own entry. Values are never
compared: the server rewrites them (`1000m` becomes `1`, defaults appear).
"""

from collections.abc import Mapping
from typing import Any

import msgspec
import orjson

from ctrlruntime.json import Json

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
    fields = msgspec.json.decode(owned) if owned else {}
    earlier = msgspec.json.decode(before) if before else {}
    missing: list[str] = []
    for name, value in desired.items():
        if name in _NOT_OWNED_AT_ROOT:
            continue
        if name == "metadata":
            value = {k: v for k, v in value.items() if k not in _NOT_OWNED_IN_METADATA}
            if not value:
                continue
        _walk(value, fields.get(f"f:{name}"), earlier.get(f"f:{name}"), name, missing)
    return missing


def _walk(value: object, node: Json, before: Json, path: str, missing: list[str]) -> None:
    if value is None:
        return
    if node is None:
        missing.append(path)
    elif not node and not before:
        return  # a leaf of the entry: atomic or scalar, owned whole
    elif isinstance(value, Mapping):
        for name, item in value.items():
            key = f"f:{name}"
            _walk(item, node.get(key), (before or {}).get(key), f"{path}.{name}", missing)
    elif isinstance(value, list):
        _walk_list(value, node, path, missing)


def _walk_list(items: list[Any], node: dict[str, Any], path: str, missing: list[str]) -> None:
    keyed = [(orjson.loads(key[2:]), child) for key, child in node.items() if key[:2] == "k:"]
    for index, item in enumerate(items):
        if isinstance(item, Mapping):
            child = next((child for keys, child in keyed if _same_item(keys, item)), None)
        else:
            child = node.get(f"v:{orjson.dumps(item).decode()}")
        _walk(item, child, None, f"{path}[{index}]", missing)


def _same_item(keys: dict[str, Any], item: Mapping[str, Any]) -> bool:
    return all(name not in item or _is_same(item[name], value) for name, value in keys.items())


def _is_same(given: object, recorded: object) -> bool:
    # An owner's uid is recorded as "*" so that objects of one template share their entry.
    return bool(recorded in ("*", given))
