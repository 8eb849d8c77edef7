"""The patch formats of the API: RFC 6902 JSON patch, RFC 7386 merge patch, strategic merge patch.

All functions leave the document they are given unchanged and return a new one that may share
unchanged parts with it. Errors carry the code, reason and wording of the API server.
"""

from __future__ import annotations

import orjson

from ctrlruntime.client.strategic import PatchRefused, strategic_merge
from ctrlruntime.json import Json, PatchError, apply_json_patch

__all__ = ["PatchRefused", "json_patch", "merge_patch", "strategic_merge"]

MAX_OPERATIONS = 10_000

_OPERATIONS = ("add", "remove", "replace", "move", "copy", "test")
_REJECTED = "the server rejected our request due to an error in our request"


def merge_patch(doc: object, patch: object) -> Json:
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


def json_patch(doc: object, ops: object) -> Json:
    """RFC 6902. Raises :class:`PatchRefused` with 422 where an operation fails."""
    if not isinstance(ops, list):
        raise PatchRefused(
            "error decoding patch: json: cannot unmarshal "
            f"{_json_kind(ops)} into Go value of type []handlers.jsonPatchOp",
            code=400,
            reason="BadRequest",
        )
    if len(ops) > MAX_OPERATIONS:
        raise PatchRefused(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(ops)}",
            code=413,
            reason="RequestEntityTooLarge",
        )
    for operation in ops:
        _check_operation(operation)
    try:
        return apply_json_patch(doc, ops)
    except PatchError as error:
        raise PatchRefused(_REJECTED, code=422, reason="Invalid") from error


def _json_kind(value: object) -> str:
    if isinstance(value, dict):
        return "object"
    if isinstance(value, bool):
        return "bool"
    return "string" if isinstance(value, str) else "number"


def _check_operation(operation: object) -> None:
    if not isinstance(operation, dict):
        raise PatchRefused(
            f"error decoding patch: json: cannot unmarshal {_json_kind(operation)} "
            "into Go value of type handlers.jsonPatchOp",
            code=400,
            reason="BadRequest",
        )
    shown = orjson.dumps(operation).decode()
    op = operation.get("op")
    if op not in _OPERATIONS:
        raise PatchRefused(
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
        raise PatchRefused(
            f"invalid operation {shown}: missing {missing[0]}", code=400, reason="BadRequest"
        )
