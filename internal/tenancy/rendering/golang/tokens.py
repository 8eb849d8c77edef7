"""Tokens of one `{{ ... }}` action, and whether it is spelled as Go or as Jinja."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import pairwise

from internal.tenancy.rendering.errors import TemplateError

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)
  | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
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
    """One token; `spaced` says that blanks come before it."""

    kind: str
    text: str
    spaced: bool

    def literal(self) -> str:
        """The value of a string token."""
        if self.text[0] == "`":
            return self.text[1:-1]
        try:
            if self.text[0] == '"':
                return str(json.loads(self.text, strict=False))
        except ValueError:
            raise TemplateError("a text has an escape that is not supported") from None
        return re.sub(r"\\(.)", r"\1", self.text[1:-1])


def tokens(action: str) -> list[Token]:
    """The tokens of an action's inside, blanks folded into `spaced`."""
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
    if any(_leading_dot(found, place) for place in range(len(found))):
        return True
    if any(token.text == "is" for token in found):
        return False
    return any(
        _operand_ends(left) and _operand_starts(right, left) for left, right in pairwise(found)
    )


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
