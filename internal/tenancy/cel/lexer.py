"""Splits an expression into tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from internal.tenancy.cel.errors import CelError

Kind: TypeAlias = Literal["name", "number", "text", "sign", "end"]

_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r\n]+|//[^\n]*)
    |(?P<number>0x[0-9a-fA-F]+|\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+)(?P<suffix>[A-Za-z_]\w*)?
    |(?P<prefix>[rRbB]{0,2})(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>\|\||&&|==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE | re.ASCII,
)
_ESCAPE: Final = re.compile(
    r"\\(?:u(?P<u>[0-9a-fA-F]{4})|x(?P<x>[0-9a-fA-F]{2})|(?P<one>[abfnrtv\\'\"`?])|(?P<bad>.))",
    re.DOTALL,
)
_ONE: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True)
class Token:
    """A part of the source with its place, counted from 0; `text` of a text is its value."""

    kind: Kind
    text: str
    place: int


def fault(source: str, place: int, problem: str) -> CelError:
    """Return an error with the place in the source as line:column, both counted from 1."""
    line = source.count("\n", 0, place) + 1
    column = place - (source.rfind("\n", 0, place) + 1) + 1
    return CelError(f"{line}:{column}: {problem}")


def tokens(source: str) -> list[Token]:
    """Return the tokens of an expression, the last of them its end. Raises CelError."""
    found: list[Token] = []
    place = 0
    while place < len(source):
        match = _TOKEN.match(source, place)
        if match is None:
            raise fault(source, place, _no_token(source, place))
        if match.group("space") is None:
            found.append(_token(source, match))
        place = match.end()
    return [*found, Token("end", "", len(source))]


def _no_token(source: str, place: int) -> str:
    character = source[place]
    if character in "'\"":
        return "a text has no end on its line"
    if character == "=":
        return "'=' is no operator; compare with '=='"
    return f"{character!r} is not expected here"


def _token(source: str, match: re.Match[str]) -> Token:
    place = match.start()
    if (number := match.group("number")) is not None:
        if match.group("suffix"):
            raise fault(source, match.start("suffix"), "unsigned numbers are not supported")
        return Token("number", number, place)
    if (text := match.group("text")) is not None:
        return Token("text", _text(source, match, text), place)
    if (name := match.group("name")) is not None:
        return Token("name", name, place)
    return Token("sign", match.group("sign"), place)


def _text(source: str, match: re.Match[str], quoted: str) -> str:
    prefix = match.group("prefix").lower()
    if "b" in prefix:
        raise fault(source, match.start(), "bytes are not supported")
    if source.startswith(quoted[0], match.end()):
        raise fault(source, match.start(), "texts in three quotes are not supported")
    inner = quoted[1:-1]
    if prefix:
        return inner

    def put(escape: re.Match[str]) -> str:
        if escape.group("bad") is not None:
            at = match.start("text") + 1 + escape.start()
            raise fault(source, at, f"{escape.group()!r} is not an escape")
        digits = escape.group("u") or escape.group("x")
        one = escape.group("one") or ""
        return chr(int(digits, 16)) if digits else _ONE.get(one, one)

    return _ESCAPE.sub(put, inner)
