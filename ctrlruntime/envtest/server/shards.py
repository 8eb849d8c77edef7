"""Shard selectors: which objects fall into ranges of a hash, as 1.36 has it with the gate ShardedListAndWatch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NoReturn

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.errors import StatusError

_FIELDS: Final = {"object.metadata.uid": "uid", "object.metadata.namespace": "namespace"}
_END: Final = 1 << 64
_DIGITS: Final = 16
_BASIS: Final = 0xCBF29CE484222325
_PRIME: Final = 0x100000001B3
_TOKENS: Final = re.compile(
    r"\s*(?:(?P<text>'[^']*'|\"[^\"]*\")|(?P<number>\d+)|(?P<name>[A-Za-z_][\w.]*)|(?P<mark>\|\||&&|[!(),])|(?P<bad>\S))"
)
_ONLY: Final = "only shardRange() and || are allowed"


@dataclass(frozen=True, slots=True)
class ShardRanges:
    """Hashes of one field, each range from its first to before its last. ``text``: what a list echoes."""

    field: str
    ranges: tuple[tuple[int, int], ...]
    text: str

    def matches(self, obj: Manifest) -> bool:
        found = fnv1a(str(obj["metadata"].get(self.field) or ""))
        return any(first <= found < last for first, last in self.ranges)


def fnv1a(text: str) -> int:
    """Return the 64-bit FNV-1a hash of a text."""
    found = _BASIS
    for byte in text.encode():
        found = ((found ^ byte) * _PRIME) % _END
    return found


def parse_shards(text: str) -> ShardRanges:
    """Return the ranges of a shard selector. Raises StatusError 500 for one that is wrong, as kube-apiserver does."""
    if not text.strip():
        _refuse("empty shard selector is not allowed; omit the parameter for unfiltered lists")
    calls = _Parser(text).calls()
    ranges = [_range(*arguments) for arguments in calls]
    path = ranges[0][0]
    for other, _, _ in ranges:
        if other != path:
            _refuse(f'all shard ranges must use the same field, got "{path}" and "{other}"')
    echo = " || ".join(
        f"shardRange({path}, '0x{first:016x}', '0x{last:016x}')" for _, first, last in ranges
    )
    return ShardRanges(_FIELDS[path], tuple((first, last) for _, first, last in ranges), echo)


def _range(path: _Token, start: _Token, end: _Token) -> tuple[str, int, int]:
    if path.kind != "name":
        _refuse(
            "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind 5"
        )
    if path.text not in _FIELDS:
        _refuse(f'unsupported field path "{path.text}"; supported: {", ".join(_FIELDS)}')
    first, last = _bound("hexStart", start), _bound("hexEnd", end)
    if first >= last:
        _refuse(f"shard range start 0x{first:016x} must be less than end 0x{last:016x}")
    return path.text, first, last


def _bound(name: str, given: _Token) -> int:
    if given.kind != "text":
        kind = "int64" if given.kind == "number" else "expression kind 3"
        _refuse(f"{name} must be a string literal, got {kind}")
    value = given.text[1:-1]
    if not value.startswith("0x"):
        _refuse(f"{name} must have '0x' prefix, got \"{value}\"")
    digits = value[2:]
    if not digits:
        _refuse(f"{name}: hex value is required after '0x'")
    for digit in digits:
        if digit not in "0123456789abcdef":
            _refuse(f'{name}: invalid hex character "{digit}" in "{value}"')
    if len(digits) == _DIGITS + 1:
        if int(digits, 16) != _END:
            _refuse(
                f"{name}: 17-digit hex value must be '0x10000000000000000' (2^64), got \"{value}\""
            )
    elif len(digits) != _DIGITS:
        meant = f' (did you mean "0x{digits:0>16}"?)' if len(digits) < _DIGITS else ""
        _refuse(f'{name} must be a 0x-prefixed 16-digit hex value, got "{value}"{meant}')
    return int(digits, 16)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str


class _Parser:
    """Calls of shardRange joined by ``||``, in parentheses or without."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0

    def calls(self) -> list[tuple[_Token, _Token, _Token]]:
        """Return the arguments of every call, from left to right."""
        found = self._any()
        if self._next.kind != "end":
            _unreadable(self._next)
        return found

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self, *texts: str) -> bool:
        if self._next.kind != "mark" or self._next.text not in texts:
            return False
        self._at += 1
        return True

    def _any(self) -> list[tuple[_Token, _Token, _Token]]:
        found = self._one()
        while self._take("||"):
            found += self._one()
        if self._take("&&"):
            _refuse(f'unsupported function "_&&_"; {_ONLY}')
        return found

    def _one(self) -> list[tuple[_Token, _Token, _Token]]:
        if self._take("!"):
            _refuse(f'unsupported function "!_"; {_ONLY}')
        if self._take("("):
            found = self._any()
            self._close()
            return found
        first = self._next
        self._at += 1
        if first.kind not in {"name", "text", "number"}:
            _unreadable(first)
        if self._take("&&"):
            _refuse(f'unsupported function "_&&_"; {_ONLY}')
        if first.kind != "name" or not self._take("("):
            _refuse("unexpected expression kind 5; expected shardRange() call or || operator")
        return [self._call(first.text)]

    def _call(self, function: str) -> tuple[_Token, _Token, _Token]:
        arguments: list[_Token] = []
        while not self._take(")"):
            if arguments and not self._take(","):
                _unreadable(self._next)
            if self._next.kind not in {"name", "text", "number"}:
                _unreadable(self._next)
            arguments.append(self._next)
            self._at += 1
        if function.rpartition(".")[2] != "shardRange":
            _refuse(f'unsupported function "{function}"; {_ONLY}')
        if len(arguments) != 3:
            _refuse(f"shardRange() requires exactly 3 arguments, got {len(arguments)}")
        path, start, end = arguments
        return path, start, end

    def _close(self) -> None:
        if not self._take(")"):
            _unreadable(self._next)


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKENS.finditer(text.rstrip()):
        kind = found.lastgroup or "bad"
        yield _Token(kind, found[kind])
    yield _Token("end", "<EOF>")


def _unreadable(token: _Token) -> NoReturn:
    _refuse(f"CEL parse error: Syntax error: mismatched input '{token.text}'")


def _refuse(why: str) -> NoReturn:
    raise StatusError(500, "", f"invalid shard selector: {why}")
