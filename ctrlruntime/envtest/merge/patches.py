"""The patch formats of the API: RFC 6902 JSON patch, RFC 7386 merge patch, strategic merge patch.

All functions leave the document they are given unchanged and return a new one that may share
unchanged parts with it. Errors carry the code, reason and wording of the API server.
"""

from __future__ import annotations

import copy
from typing import Any

import orjson

from ctrlruntime.client.strategic import PatchError, strategic_merge
from ctrlruntime.envtest.merge.typed import equal

__all__ = ["PatchError", "json_patch", "merge_patch", "strategic_merge"]

MAX_OPERATIONS = 10_000

_OPERATIONS = ("add", "remove", "replace", "move", "copy", "test")
_REJECTED = "the server rejected our request due to an error in our request"


def merge_patch(doc: Any, patch: Any) -> Any:
    """RFC 7386: null removes a member, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(doc) if isinstance(doc, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = merge_patch(merged.get(key), value)
        else:
            merged[key] = value
    return merged


def json_patch(doc: Any, ops: Any) -> Any:
    """RFC 6902. Raises :class:`PatchError` with 422 where an operation fails."""
    if not isinstance(ops, list):
        raise PatchError(
            "error decoding patch: json: cannot unmarshal "
            f"{_json_kind(ops)} into Go value of type []handlers.jsonPatchOp",
            code=400,
            reason="BadRequest",
        )
    if len(ops) > MAX_OPERATIONS:
        raise PatchError(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(ops)}",
            code=413,
            reason="RequestEntityTooLarge",
        )
    for operation in ops:
        _check_operation(operation)
    root = {"": copy.deepcopy(doc)}
    for operation in ops:
        _run(root, operation)
    return root[""]


def _json_kind(value: Any) -> str:
    if isinstance(value, dict):
        return "object"
    if isinstance(value, bool):
        return "bool"
    return "string" if isinstance(value, str) else "number"


def _check_operation(operation: Any) -> None:
    if not isinstance(operation, dict):
        raise PatchError(
            f"error decoding patch: json: cannot unmarshal {_json_kind(operation)} "
            "into Go value of type handlers.jsonPatchOp",
            code=400,
            reason="BadRequest",
        )
    shown = orjson.dumps(operation).decode()
    op = operation.get("op")
    if op not in _OPERATIONS:
        raise PatchError(
            f"invalid operation {shown}: unsupported operation", code=400, reason="BadRequest"
        )
    missing = [
        name
        for name, needed in (
            ("path", True),
            ("from", op in ("move", "copy")),
            ("value", op in ("add", "replace", "test")),
        )
        if needed and name not in operation
    ]
    if missing:
        raise PatchError(
            f"invalid operation {shown}: missing {missing[0]}", code=400, reason="BadRequest"
        )


def _run(root: dict[str, Any], operation: dict[str, Any]) -> None:
    op, path = operation["op"], _pointer(operation["path"])
    if op == "add":
        _add(root, path, copy.deepcopy(operation["value"]))
    elif op == "remove":
        _take(root, path)
    elif op == "replace":
        _put(root, path, copy.deepcopy(operation["value"]))
    elif op == "test":
        _test(root, path, operation["value"])
    elif op == "copy":
        _add(root, path, copy.deepcopy(_member(root, _pointer(operation["from"]))))
    else:
        _add(root, path, _take(root, _pointer(operation["from"])))


def _failed() -> PatchError:
    return PatchError(_REJECTED, code=422, reason="Invalid")


def _pointer(text: Any) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise _failed()
    return [part.replace("~1", "/").replace("~0", "~") for part in ("" + text).split("/")]


def _index(step: str, length: int) -> int:
    if step == "0" or (step.isascii() and step.isdigit() and not step.startswith("0")):
        index = int(step)
        if index < length:
            return index
    elif step[:1] == "-" and step[1:].isdigit() and 0 < int(step[1:]) <= length:
        return length - int(step[1:])
    raise _failed()


def _child(container: Any, token: str) -> Any:
    if isinstance(container, dict):
        if token in container:
            return container[token]
    elif isinstance(container, list):
        return container[_index(token, len(container))]
    raise _failed()


def _find(root: Any, path: list[str]) -> Any:
    value = root
    for token in path:
        value = _child(value, token)
    return value


def _member(root: Any, path: list[str]) -> Any:
    """Return what is there; an absent member of an object that is there is null."""
    container = _find(root, path[:-1])
    if isinstance(container, dict):
        return container.get(path[-1])
    return _child(container, path[-1])


def _test(root: Any, path: list[str], expected: Any) -> None:
    if not equal(_member(root, path), expected):
        raise _failed()


def _add(root: Any, path: list[str], value: Any) -> None:
    if len(path) == 1:
        raise _failed()  # the whole document is replaced or nothing
    container = _find(root, path[:-1])
    step = path[-1]
    if isinstance(container, dict):
        container[step] = value
    elif isinstance(container, list):
        if step == "-":
            container.append(value)
        else:
            container.insert(_index(step, len(container) + 1), value)
    else:
        raise _failed()


def _put(root: Any, path: list[str], value: Any) -> None:
    """Replace, or add a member that is absent, as the server's library does."""
    container = _find(root, path[:-1])
    if isinstance(container, list):
        container[_index(path[-1], len(container))] = value
    elif isinstance(container, dict):
        container[path[-1]] = value
    else:
        raise _failed()


def _take(root: Any, path: list[str]) -> Any:
    container = _find(root, path[:-1])
    value = _child(container, path[-1])
    if isinstance(container, list):
        del container[_index(path[-1], len(container))]
    else:
        del container[path[-1]]
    return value
