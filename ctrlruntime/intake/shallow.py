"""Takes JSON apart without recursion, for documents that are nested too deep for the decoders."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec
import orjson

from ctrlruntime.intake.limits import Malformed

_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_OPENINGS: Final = rb'(?:[{\[](?:\s*+"[^"\\{}\[\]]{0,64}+"\s*+:)?\s*+){1,64}'
"""Brackets that open one in the other, with short keys between them, at once: deep nesting has many."""
_TOKEN: Final = re.compile(_STRING.pattern + rb"|" + _OPENINGS + rb"|[}\]]++", re.DOTALL)
_SPACE: Final = re.compile(rb"[ \t\r\n]*+")
_SCALAR: Final = re.compile(rb"[^\s,\]}]++")


def split_members(body: bytes) -> dict[str, bytes]:
    """Return the members of an object, undecoded, in linear time. Raises Malformed."""
    return dict(_elements(body, b"{", b"}"))


def split_members_or_fail(body: bytes) -> dict[str, bytes]:
    """Return the same. Raises msgspec.DecodeError, as the decoder does for what is not an object."""
    try:
        return split_members(body)
    except Malformed as error:
        raise msgspec.DecodeError(str(error)) from None


def first_member(body: bytes, name: str, otherwise: bytes) -> bytes:
    """Return a member of an object, undecoded. What follows it is not looked at. Raises Malformed."""
    at = _member(body, name)
    return otherwise if at is None else body[at : _end(body, at)]


def items_of(body: bytes, name: str) -> Iterator[bytes]:
    """Yield the items of an array in an object, each once its end is found; none of null. Raises Malformed."""
    at = _member(body, name)
    if at is not None and body[at : at + 4] != b"null":
        yield from (value for _, value in _elements(body, b"[", b"]", at))


def _member(body: bytes, name: str) -> int | None:
    """Return where the value of a member starts."""
    at = _expected(body, _after_space(body, 0), b"{")
    while body[at : at + 1] != b"}":
        key, at = _key(body, at)
        if key == name:
            return at
        at = _after_comma(body, _end(body, at), b"}")
    return None


def _elements(
    body: bytes, opening: bytes, closing: bytes, at: int = 0
) -> Iterator[tuple[str, bytes]]:
    at = _expected(body, _after_space(body, at), opening)
    while body[at : at + 1] != closing:
        key, at = _key(body, at) if opening == b"{" else ("", at)
        end = _end(body, at)
        yield key, body[at:end]
        at = _after_comma(body, end, closing)


def _key(body: bytes, at: int) -> tuple[str, int]:
    """Return a key, and where its value starts."""
    end = _end(body, at)
    return _text(body[at:end]), _expected(body, _after_space(body, end), b":")


def _after_comma(body: bytes, end: int, closing: bytes) -> int:
    """Return where the next element starts after one that has ended, or where the closing bracket is."""
    at = _after_space(body, end)
    return at if body[at : at + 1] == closing else _expected(body, at, b",")


def _end(body: bytes, start: int) -> int:
    """Return where the value ends that starts at ``start``."""
    if body[start : start + 1] in (b"{", b"["):
        depth = 0
        for token in _TOKEN.finditer(body, start):
            first = body[token.start()]
            if first in b"{[":
                depth += token[0].count(b"{") + token[0].count(b"[")
            elif first in b"}]":
                if depth <= token.end() - token.start():
                    return token.start() + depth
                depth -= token.end() - token.start()
        raise Malformed("the JSON is cut off")
    pattern = _STRING if body[start : start + 1] == b'"' else _SCALAR
    found = pattern.match(body, start)
    if found is None:
        raise Malformed("the JSON has no value where one is expected")
    return found.end()


def _expected(body: bytes, at: int, mark: bytes) -> int:
    if body[at : at + 1] != mark:
        raise Malformed(f"the JSON has no {mark.decode()} where one is expected")
    return _after_space(body, at + 1)


def _after_space(body: bytes, at: int) -> int:
    found = _SPACE.match(body, at)
    return at if found is None else found.end()


def _text(raw: bytes) -> str:
    try:
        return str(orjson.loads(raw))
    except orjson.JSONDecodeError:
        raise Malformed("the JSON has a key that is not a string") from None
