"""`define` and `block`: named templates, taken out of the template that they stand in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from internal.tenancy.rendering.errors import TemplateError, UnsupportedConstruct
from internal.tenancy.rendering.golang.pieces import Piece
from internal.tenancy.rendering.golang.tokens import Token

_OPENING = frozenset({"if", "range", "with", "block", "define"})


@dataclass(frozen=True, slots=True)
class Definitions:
    """The pieces of a template without its definitions, and those by name."""

    main: Sequence[Piece]
    named: Mapping[str, Sequence[Piece]]


def extract(found: Sequence[Piece]) -> Definitions:
    """Take out what `define` and `block` define. Raises TemplateError."""
    named: dict[str, Sequence[Piece]] = {}
    main = _extract(found, named, nested=False)
    return Definitions(main, named)


def template_name(piece: Piece) -> str:
    """Return the name after `define`, `block` or `template`. Raises TemplateError."""
    if len(piece.tokens) < 2 or piece.tokens[1].kind != "string":
        raise TemplateError(
            f'{{{{ {piece.keyword} }}}} needs a name: {{{{ {piece.keyword} "x" }}}}'
        )
    return piece.tokens[1].literal()


def _extract(
    found: Sequence[Piece], named: dict[str, Sequence[Piece]], *, nested: bool
) -> list[Piece]:
    left: list[Piece] = []
    place = depth = 0
    while place < len(found):
        piece = found[place]
        if piece.keyword in {"define", "block"}:
            if piece.keyword == "define" and (nested or depth):
                raise UnsupportedConstruct("{{ define }} stands outside of all other blocks only")
            end = _end_of(found, place)
            _define(piece, found[place + 1 : end], named)
            if piece.keyword == "block":
                left.append(_call(piece))
            place = end + 1
            continue
        depth += (piece.keyword in _OPENING) - (piece.keyword == "end")
        left.append(piece)
        place += 1
    return left


def _define(piece: Piece, body: Sequence[Piece], named: dict[str, Sequence[Piece]]) -> None:
    name = template_name(piece)
    if piece.keyword == "define" and len(piece.tokens) > 2:
        raise TemplateError("{{ define }} takes a name and nothing else")
    if name in named:
        raise TemplateError(f"the template {name!r} is defined twice")
    named[name] = ()
    named[name] = _extract(body, named, nested=True)


def _call(block: Piece) -> Piece:
    """`{{ block "x" . }}` as the `{{ template "x" . }}` that stands in its place."""
    if len(block.tokens) < 3:
        raise TemplateError('{{ block }} needs a value: {{ block "x" . }}')
    called = (Token("word", "template", False), *block.tokens[1:])
    return Piece("go", block.text, called)


def _end_of(found: Sequence[Piece], start: int) -> int:
    depth = 0
    for place in range(start, len(found)):
        depth += (found[place].keyword in _OPENING) - (found[place].keyword == "end")
        if depth == 0:
            return place
    raise TemplateError(f"{{{{ {found[start].keyword} }}}} has no {{{{ end }}}}")
