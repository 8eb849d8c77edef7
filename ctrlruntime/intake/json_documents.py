"""JSON from outside: size, depth and number of values are checked before anything is decoded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

import orjson

from ctrlruntime.intake.limits import OBJECT_DEPTH, LimitExceeded, Limits, Malformed
from ctrlruntime.json import Json

_STRINGS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_ONE_KIND: Final = bytes.maketrans(b"[]", b"{}")
_BRACKETS: Final = b"{}[]"
_VALUES: Final = b"{[,"
_OTHERS: Final = {
    marks: bytes(byte for byte in range(256) if byte not in marks)
    for marks in (_BRACKETS, _BRACKETS + b'"', _VALUES, _VALUES + b'"')
}
_STEP: Final = [1 if byte == ord("{") else -1 for byte in range(256)]
_HEAD: Final = (
    64 * 1024
)  # bytes that are looked at first: what is much too deep is so from its beginning
_ROUNDS: Final = 16  # of removing innermost pairs: a usual document is empty after ten


def read_json(data: bytes | str, limits: Limits, what: str = "the document") -> Json:
    """Return the decoded document. Raises LimitExceeded and Malformed; ``what`` names it in their messages."""
    body = encoded(data, what)
    limits.check_bytes(len(body), what)
    if is_deeper(body, limits.depth):
        raise LimitExceeded(what, "depth", limits.depth)
    if len(body) > limits.items and _values(body) > limits.items:
        raise LimitExceeded(what, "items", limits.items)
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise Malformed(f"{what} is not JSON: {error.msg} ({place})") from None


def encode_json(value: object, what: str = "the document", *, option: int = 0) -> bytes:
    """Return a document as bytes, with orjson's ``option``.

    Raises LimitExceeded for one that is nested too deep, Malformed for values that JSON does not have.
    """
    try:
        return orjson.dumps(value, option=option)
    except orjson.JSONEncodeError as error:
        if value_depth(value, OBJECT_DEPTH) > OBJECT_DEPTH:
            raise LimitExceeded(what, "depth", OBJECT_DEPTH) from None
        raise Malformed(f"{what} cannot be written as JSON: {error}") from error


def json_depth(body: bytes) -> int:
    """Return how deeply a document is nested: 0 for a scalar. It is not decoded; the time is linear."""
    return max(_levels(_outside_strings(body, _BRACKETS).translate(_ONE_KIND)), default=0)


def is_deeper(body: bytes, depth: int) -> bool:
    """Return whether a document is nested more than ``depth`` levels deep.

    One quick pass answers it for nearly every object: so many levels need as many brackets.
    """
    if len(body) <= 2 * depth or len(_only(body, _BRACKETS)) <= 2 * depth:
        return False
    if len(body) > _HEAD and is_deeper(body[:_HEAD], depth):
        return True
    brackets = _outside_strings(body, _BRACKETS).translate(_ONE_KIND)
    for _ in range(min(_ROUNDS, depth)):
        brackets = brackets.replace(b"{}", b"")
        depth -= 1
        if len(brackets) <= 2 * depth:
            return False
    return any(level > depth for level in _levels(brackets))


def value_depth(value: object, limit: int) -> int:
    """Return how deeply a decoded value is nested, at most ``limit`` + 1, as for one that contains itself."""
    depth = 0
    level = [value] if isinstance(value, dict | list | tuple) else []
    while level and depth <= limit:
        depth += 1
        inner = (
            child for each in level for child in (each.values() if isinstance(each, dict) else each)
        )
        level = list(
            {id(child): child for child in inner if isinstance(child, dict | list | tuple)}.values()
        )
    return depth


def encoded(data: bytes | str, what: str) -> bytes:
    """Return text as UTF-8. Raises Malformed for text that has none."""
    try:
        return data.encode() if isinstance(data, str) else data
    except UnicodeEncodeError:
        raise Malformed(f"{what} is not UTF-8") from None


def _only(body: bytes, marks: bytes) -> bytes:
    return body.translate(None, _OTHERS[marks])


def _outside_strings(body: bytes, marks: bytes) -> bytes:
    """Return these marks alone, without those in strings.

    Where no quote is escaped, a mark is in a string if the number of quotes before it is odd. Two quotes
    side by side change that for no mark, so that strings without marks go at once and not one by one.
    """
    if b"\\" not in body:
        body = _only(body, marks + b'"').replace(b'""', b"")
    return _only(_STRINGS.sub(b"", body), marks)


def _levels(brackets: bytes) -> Iterator[int]:
    return accumulate(map(_STEP.__getitem__, brackets))


def _values(body: bytes) -> int:
    """Return the number of values, or a little more."""
    return len(_outside_strings(body, _VALUES)) + 1
