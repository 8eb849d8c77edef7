"""Tokens of one `{{ ... }}` action, and whether it is spelled as Go or as Jinja."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import pairwise

from internal.tenancy.rendering.errors import TemplateError
from internal.tenancy.rendering.functions import FUNCTIONS

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)
  | (?P<number>0[xXoObB][0-9A-Fa-f_]+|(?:\d[\d_]*(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<declare>:=)
  | (?P<variable>\$\w*)
  | (?P<field>(?:\.[A-Za-z_]\w*)+)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<punct>.)
    """,
    re.VERBOSE | re.DOTALL,
)

KEYWORDS = frozenset(
    {"if", "else", "end", "range", "with", "define", "template", "block", "break", "continue"}
)
_JINJA_WORDS = frozenset({"if", "else", "and", "or", "not", "in", "is"})
_OPERANDS = frozenset({"string", "number", "variable", "field", "word"})


@dataclass(frozen=True, slots=True)
class Token:
    """One token; `spaced`: blanks come before it."""

    kind: str
    text: str
    spaced: bool

    def number(self) -> str:
        """Return the number token as Jinja writes it: decimal, hexadecimal, octal and binary numbers of Go."""
        text = self.text.replace("_", "")
        try:
            if text[:1] == "0" and text[1:].isdecimal():
                return str(int(text, 8))
            return (
                str(int(text, 0)) if text[1:2].isalpha() and text[0] == "0" else str(_decimal(text))
            )
        except (ValueError, OverflowError):
            raise TemplateError("a number is not written as Go writes numbers") from None

    def literal(self) -> str:
        """Return the value of a string token."""
        if self.text[0] == "`":
            return self.text[1:-1]
        try:
            if self.text[0] == '"':
                return str(json.loads(_GO_ESCAPE.sub(_as_json, self.text), strict=False))
        except ValueError:
            raise TemplateError("a text has an escape that is not supported") from None
        return re.sub(r"\\(.)", r"\1", self.text[1:-1])


_GO_ESCAPE = re.compile(r"\\(x[0-7][0-9a-fA-F]|[01][0-7]{2}|U[0-9a-fA-F]{8}|.)", re.DOTALL)


def _as_json(found: re.Match[str]) -> str:
    """Return an escape of Go's that JSON lacks, as JSON has it; any other as it is."""
    text = found[1]
    if text in {"a", "v"}:
        return {"a": "\\u0007", "v": "\\u000b"}[text]
    if len(text) == 1:
        return found[0]
    code = int(text[1:], 16) if text[0] in "xU" else int(text, 8)
    return json.dumps(chr(code))[1:-1]


def _decimal(text: str) -> int | float:
    return int(text) if text.isdecimal() else float(text)


def tokens(action: str) -> list[Token]:
    """Return the tokens of an action's inside, blanks folded into `spaced`."""
    found: list[Token] = []
    spaced = False
    for match in _TOKEN.finditer(action):
        kind = match.lastgroup or "punct"
        if kind == "space":
            spaced = True
            continue
        found.append(Token(kind, match.group(), spaced))
        spaced = False
    return found


def is_go(found: list[Token]) -> bool:
    """Whether only Go would write the action this way.

    Signs of Go: a keyword of its own, a leading dot, `$`, or two operands side by side without an
    operator (`default "x"`), unless the words between them are Jinja's.
    """
    if not found:
        return False
    if found[0].kind == "word" and found[0].text in KEYWORDS:
        return not (found[0].text == "range" and len(found) > 1 and _attached(found[1]))
    if any(token.kind in {"variable", "declare"} for token in found):
        return True
    if any(_only_in_go(token) for token in found) or _negative_argument(found):
        return True
    if any(_leading_dot(found, place) for place in range(len(found))):
        return True
    if any(token.text == "is" for token in found):
        return False
    return any(
        _operand_ends(left) and _operand_starts(right, left) for left, right in pairwise(found)
    )


def _only_in_go(token: Token) -> bool:
    """Whether the literal is one that Jinja does not have: a raw text, or an octal number like 017."""
    if token.kind == "string":
        return token.text[0] == "`"
    return token.kind == "number" and token.text[0] == "0" and token.text[1:].isdecimal()


def _negative_argument(found: list[Token]) -> bool:
    """Whether it is `until -3`: a function, which Jinja would subtract from."""
    if len(found) < 3 or found[0].text not in FUNCTIONS or not found[1].spaced:
        return False
    return found[1].text == "-" and found[2].kind == "number" and not found[2].spaced


def _attached(token: Token) -> bool:
    return token.text == "(" and not token.spaced


def _leading_dot(found: list[Token], place: int) -> bool:
    token = found[place]
    if token.kind != "field" and token.text != ".":
        return False
    if place == 0 or token.spaced:
        return True
    return found[place - 1].text in {"(", "|", ",", "="}


def _operand_ends(token: Token) -> bool:
    if token.kind == "word":
        return token.text not in _JINJA_WORDS
    return token.kind in _OPERANDS or token.text == ")"


def _operand_starts(token: Token, before: Token) -> bool:
    if token.kind == "word":
        return token.text not in _JINJA_WORDS
    if token.text == "(":
        return token.spaced and before.kind == "word"
    return token.kind in {"string", "number"}
