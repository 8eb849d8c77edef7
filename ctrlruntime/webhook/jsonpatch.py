"""The JSON patch between two documents, and changes of a part carried over to the whole."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["PatchError", "carried", "equal", "json_patch", "patched"]

Operation = dict[str, Any]


def equal(a: Any, b: Any) -> bool:
    """Equality of JSON values: ``true`` is not ``1``."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(value, b[key]) for key, value in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)


def json_patch(before: Any, after: Any) -> list[Operation]:
    """The operations (RFC 6902) that turn ``before`` into ``after``; none if they are equal."""
    operations: list[Operation] = []
    _compare(before, after, "", operations)
    return operations


def _compare(before: Any, after: Any, path: str, operations: list[Operation]) -> None:
    if isinstance(before, dict) and isinstance(after, dict):
        gone = [key for key in before if key not in after]
        operations += ({"op": "remove", "path": f"{path}/{_token(key)}"} for key in gone)
        for key, value in after.items():
            place = f"{path}/{_token(key)}"
            if key in before:
                _compare(before[key], value, place, operations)
            else:
                operations.append({"op": "add", "path": place, "value": value})
    elif isinstance(before, list) and isinstance(after, list):
        _compare_lists(before, after, path, operations)
    elif not equal(before, after):
        operations.append({"op": "replace", "path": path, "value": after})


def _compare_lists(
    before: list[Any], after: list[Any], path: str, operations: list[Operation]
) -> None:
    """Items at both ends that did not change stay; those between are compared by position."""
    shortest = min(len(before), len(after))
    start = 0
    while start < shortest and equal(before[start], after[start]):
        start += 1
    end = 0
    while end < shortest - start and equal(before[-1 - end], after[-1 - end]):
        end += 1
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    both = min(len(old), len(new))
    for index in range(both):
        _compare(old[index], new[index], f"{path}/{start + index}", operations)
    removed = reversed(range(both, len(old)))
    operations += [{"op": "remove", "path": f"{path}/{start + index}"} for index in removed]
    operations += [
        {"op": "add", "path": f"{path}/{start + index}", "value": new[index]}
        for index in range(both, len(new))
    ]


def _token(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def carried(raw: Any, before: Any, after: Any) -> Any:
    """``raw`` with the changes that lead from ``before`` to ``after``, two views of a part of it.

    What the views do not show stays as it is, inside list items too: an item is known by its
    ``name``, or else by its position.
    """
    if equal(before, after):
        return raw
    if isinstance(raw, dict) and isinstance(before, dict) and isinstance(after, dict):
        result = {key: value for key, value in raw.items() if key in after or key not in before}
        for key, value in after.items():
            known = key in before and key in raw
            result[key] = carried(raw[key], before[key], value) if known else value
        return result
    if isinstance(raw, list) and isinstance(before, list) and isinstance(after, list):
        return _carried_items(raw, before, after) if len(raw) == len(before) else after
    return after


def _carried_items(raw: list[Any], before: list[Any], after: list[Any]) -> list[Any]:
    names = {name: i for i, item in enumerate(before) if (name := _name(item)) is not None}
    kept = {name for item in after if (name := _name(item)) is not None}
    result: list[Any] = []
    for index, new in enumerate(after):
        item = new
        if index < len(before) and equal(before[index], item):
            result.append(raw[index])
            continue
        origin = names.get(_name(item) or "")
        if origin is None and len(before) == len(after) and _name(before[index]) not in kept:
            origin = index
        if origin is not None:
            item = carried(raw[origin], before[origin], item)
        result.append(item)
    return result


def _name(item: Any) -> str | None:
    name = item.get("name") if isinstance(item, dict) else None
    return name if isinstance(name, str) else None


class PatchError(ValueError):
    """A patch that does not fit the document."""


def patched(document: Any, operations: Iterable[Mapping[str, Any]]) -> Any:
    """``document`` after the operations, itself unchanged. Raises PatchError."""
    root = {"": copy.deepcopy(document)}
    for operation in operations:
        try:
            _apply(root, operation)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise PatchError(f"the patch does not fit: {dict(operation)}") from error
    return root[""]


def _apply(root: dict[str, Any], operation: Mapping[str, Any]) -> None:
    name, path = operation["op"], operation["path"].split("/")
    if name == "test":
        if not equal(_find(root, path), operation["value"]):
            raise ValueError("the test failed")
    elif name == "remove":
        _take(root, path)
    elif name == "replace":
        _find(root, path)
        _put(root, path, operation["value"], replace=True)
    elif name == "add":
        _put(root, path, operation["value"])
    elif name == "copy":
        _put(root, path, copy.deepcopy(_find(root, operation["from"].split("/"))))
    elif name == "move":
        _put(root, path, _take(root, operation["from"].split("/")))
    else:
        raise ValueError(f"unknown operation {name!r}")


def _key(container: Any, token: str) -> Any:
    if isinstance(container, list):
        return len(container) if token == "-" else int(token)  # noqa: S105 - RFC 6901's last item
    return token.replace("~1", "/").replace("~0", "~")


def _find(root: Any, path: list[str]) -> Any:
    for token in path:
        root = root[_key(root, token)]
    return root


def _put(root: Any, path: list[str], value: Any, *, replace: bool = False) -> None:
    container = _find(root, path[:-1])
    key = _key(container, path[-1])
    if isinstance(container, list) and not replace:
        container.insert(key, value)
    else:
        container[key] = value


def _take(root: Any, path: list[str]) -> Any:
    container = _find(root, path[:-1])
    return container.pop(_key(container, path[-1]))
