"""A template as a list of pieces: text, what is Jinja, and actions of Go's with their tokens.

Go's trim markers take effect here, on the text beside their action; those of Jinja stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from internal.tenancy.rendering.errors import TemplateError
from internal.tenancy.rendering.golang.tokens import Token, is_go, tokens

_COMMENT = re.compile(r"-?\s*/\*")
_BLANKS = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece. `kind` is `text`, `jinja` or `go`."""

    kind: str
    text: str
    tokens: tuple[Token, ...] = ()
    trims_left: bool = False
    trims_right: bool = False

    @property
    def keyword(self) -> str:
        """The first token of an action if it is a name, else nothing."""
        return self.tokens[0].text if self.tokens and self.tokens[0].kind == "word" else ""


def pieces(text: str) -> list[Piece]:
    """Return the pieces of a template. Raises TemplateError."""
    found = list(_split(text))
    return [
        _trimmed(piece, found, place) if piece.kind == "text" else piece
        for place, piece in enumerate(found)
    ]


def actions_length(text: str) -> int:
    """How many characters the actions and statements of a template take up together."""
    total = place = 0
    try:
        while (start := _next_action(text, place)) >= 0:
            statement = text.startswith("{%", start)
            place = _statement_end(text, start) if statement else _action_end(text, start)
            total += place - start
    except TemplateError:
        return total
    return total


def _split(text: str) -> Iterator[Piece]:
    place = 0
    while (start := _next_action(text, place)) >= 0:
        yield Piece("text", text[place:start])
        if text.startswith("{%", start):
            place = _statement_end(text, start)
            yield Piece("jinja", text[start:place])
        else:
            place = _action_end(text, start)
            yield _action(text[start:place])
    yield Piece("text", text[place:])


def _action(action: str) -> Piece:
    inside = action[2:-2]
    left = inside.startswith("-")
    right = inside.endswith("-") and len(inside) > 1
    inside = inside[left : len(inside) - right]
    if inside.strip().startswith("/*"):
        if not inside.strip().endswith("*/"):
            raise TemplateError("a comment is not closed")
        return Piece("go", action, (), left, right)
    found = tokens(inside)
    if not is_go(found):
        return Piece("jinja", action)
    return Piece("go", action, tuple(found), left, right)


def _trimmed(piece: Piece, found: list[Piece], place: int) -> Piece:
    text = piece.text
    if place and found[place - 1].trims_right:
        text = text.lstrip(_BLANKS)
    if place + 1 < len(found) and found[place + 1].trims_left:
        text = text.rstrip(_BLANKS)
    return replace(piece, text=text)


def _next_action(text: str, place: int) -> int:
    found = [at for at in (text.find("{{", place), text.find("{%", place)) if at >= 0]
    return min(found, default=-1)


def _statement_end(text: str, start: int) -> int:
    """Past the end of a Jinja statement; a raw block is one piece."""
    end = text.find("%}", start)
    if end < 0:
        raise TemplateError("{% is not closed")
    if text[start + 2 : end].strip(" -+") == "raw":
        at = text.find("endraw", end)
        last = text.find("%}", at)
        if at < 0 or last < 0:
            raise TemplateError("{% raw %} is not closed")
        return last + 2
    return end + 2


def _action_end(text: str, start: int) -> int:
    """Past the `}}` that closes the action, minding quotes, braces and comments."""
    place = start + 2
    if _COMMENT.match(text, place):
        closed = text.find("*/", place)
        end = text.find("}}", closed) if closed >= 0 else -1
        if end < 0:
            raise TemplateError("a comment is not closed")
        return end + 2
    depth = 0
    while place < len(text):
        char = text[place]
        if char in "\"'`":
            place = _quote_end(text, place)
            continue
        if char == "}" and depth == 0 and text.startswith("}}", place):
            return place + 2
        depth += (char == "{") - (char == "}")
        place += 1
    raise TemplateError("{{ is not closed")


def _quote_end(text: str, start: int) -> int:
    mark = text[start]
    place = start + 1
    while place < len(text):
        if text[place] == "\\" and mark != "`":
            place += 2
            continue
        if text[place] == mark:
            return place + 1
        place += 1
    raise TemplateError("a text inside {{ }} is not closed")
