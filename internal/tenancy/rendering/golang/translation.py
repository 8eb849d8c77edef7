"""Go templates to Jinja2, action by action; what is Jinja already passes unchanged.

Supported: variables with `:=` and `=`, pipelines, function calls, `if`, `else if`, `else`, `range` over
lists, mappings and numbers (with `$i, $e :=`), `break`, `continue`, `with`, `else with`, `define`,
`template`, `block`, comments and trim markers. A template that calls another one is translated with the
other one's content in place of the call, so that what it costs is known before it runs.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from internal.tenancy.rendering.errors import LimitExceeded, TemplateError, UnsupportedConstruct
from internal.tenancy.rendering.golang.expressions import GO_PREFIX, Expression
from internal.tenancy.rendering.golang.pieces import Piece, pieces
from internal.tenancy.rendering.golang.tokens import Token

_OPENING = frozenset({"if", "range", "with", "block", "define"})

ROOT = "go_root"
"""The Jinja variable that holds all variables as one mapping."""

MOST_PIECES = 4_000
"""Pieces of a template, those of the templates that it calls included, at every call."""

_END = {"if": "endif", "with": "endif", "range": "endfor"}


def translate(text: str) -> str:
    """Return the template as Jinja source. Raises TemplateError."""
    parts = pieces(text)
    found = extract(parts)
    return _Translation(found.named, _assigned(parts)).run(found.main)


def _assigned(parts: Sequence[Piece]) -> frozenset[str]:
    """Return the variables that `=` assigns to somewhere in the template."""
    return frozenset(
        piece.tokens[0].text[1:]
        for piece in parts
        if len(piece.tokens) > 1
        and piece.tokens[0].kind == "variable"
        and _is(piece.tokens[1], "=")
    )


def _is(token: Token, text: str) -> bool:
    return token.kind == "punct" and token.text == text


@dataclass(slots=True)
class _Block:
    keyword: str
    dot: str
    variables: dict[str, str] = field(default_factory=dict)


class _Translation:
    """One pass over a template, holding the open blocks.

    A variable that is assigned to is a list of one: Jinja's own assignments do not leave a loop.
    """

    def __init__(self, named: Mapping[str, Sequence[Piece]], assigned: Collection[str]) -> None:
        self._named = named
        self._assigned = assigned
        self._blocks: list[_Block] = []
        self._root = ROOT
        self._calls: list[str] = []
        self._names = 0
        self._left = MOST_PIECES

    def run(self, main: Sequence[Piece]) -> str:
        """Return the Jinja source of a template that has no definitions any more."""
        return "".join(self._body(main, ROOT))

    def _body(self, found: Sequence[Piece], root: str) -> Iterator[str]:
        """Yield a template's content, with variables and blocks of its own."""
        outer = self._blocks, self._root
        self._blocks, self._root = [_Block("", root)], root
        for piece in found:
            self._left -= 1
            if self._left < 0:
                raise LimitExceeded(f"templates that call others have over {MOST_PIECES} parts")
            if piece.kind != "go":
                yield piece.text
            elif piece.tokens:
                yield from self._action(piece)
        if len(self._blocks) > 1:
            raise TemplateError(f"{{{{ {self._blocks[-1].keyword} }}}} has no {{{{ end }}}}")
        self._blocks, self._root = outer

    def _action(self, piece: Piece) -> Iterator[str]:
        found = list(piece.tokens)
        if piece.keyword == "template":
            yield from self._template(piece)
        elif piece.keyword and (made := self._keyword(found)) is not None:
            yield from (f"{{% {statement} %}}" for statement in made)
        elif (statement := self._declaration(found)) is not None:
            yield f"{{% {statement} %}}"
        else:
            yield f"{{{{ {self._expression(found)} }}}}"

    def _template(self, piece: Piece) -> Iterator[str]:
        name = template_name(piece)
        if name not in self._named:
            raise TemplateError(f"there is no template {name!r} in this text; {{{{ define }}}} it")
        if name in self._calls:
            raise UnsupportedConstruct(
                f"the template {name!r} calls itself, which is not supported"
            )
        rest = list(piece.tokens[2:])
        value = self._expression(rest) if rest else "none"
        made = self._fresh("dot")
        yield f"{{% set {made} = {value} %}}"
        self._calls.append(name)
        yield from self._body(self._named[name], ROOT if value == ROOT else made)
        self._calls.pop()

    def _keyword(self, found: list[Token]) -> list[str] | None:
        """Return the Jinja statements for an action that starts with a keyword."""
        keyword, rest = found[0].text, found[1:]
        if keyword in {"if", "with"}:
            return self._condition(keyword, "if", rest)
        if keyword == "else":
            return self._else(rest)
        if keyword == "range":
            return self._range(rest)
        if keyword in {"end", "break", "continue"}:
            if rest:
                raise TemplateError(f"{{{{ {keyword} }}}} takes nothing else")
            return [self._close() if keyword == "end" else self._leave(keyword)]
        return None

    def _condition(self, keyword: str, statement: str, rest: list[Token]) -> list[str]:
        """`if` and `with`, which may declare a variable: `{{ with $x := .a }}`."""
        declares = len(rest) > 1 and rest[0].kind == "variable" and rest[1].kind == "declare"
        value = self._expression(rest[2:] if declares else rest)
        dot = self._open(keyword, new_dot=keyword == "with")
        made = [f"{statement} {value}"]
        if keyword == "with":
            made.append(f"set {dot} = {value}")
        if declares:
            made.append(f"set {self._declare(rest[0].text[1:], value)}")
        return made

    def _leave(self, keyword: str) -> str:
        if not any(block.keyword == "range" for block in self._blocks):
            raise TemplateError(f"{{{{ {keyword} }}}} stands outside of {{{{ range }}}}")
        return keyword

    def _else(self, rest: list[Token]) -> list[str]:
        if len(self._blocks) == 1:
            raise TemplateError("{{ else }} has no {{ if }}")
        block = self._blocks[-1]
        if not rest:
            # The loop's content ends here: what it declared, and the loop that `break` would leave.
            keyword = "else of range" if block.keyword == "range" else block.keyword
            self._blocks[-1] = _Block(keyword, self._blocks[-2].dot)
            return ["else"]
        if rest[0].text != block.keyword or block.keyword not in {"if", "with"}:
            raise UnsupportedConstruct(
                f"{{{{ else {rest[0].text} }}}} is not supported in {{{{ {block.keyword} }}}}"
            )
        self._blocks.pop()
        return self._condition(block.keyword, "elif", rest[1:])

    def _range(self, rest: list[Token]) -> list[str]:
        names: list[str] = []
        place = next((i for i, token in enumerate(rest) if token.kind == "declare"), -1)
        if place >= 0:
            names = [token.text[1:] for token in rest[:place] if token.kind == "variable"]
            if not 1 <= len(names) <= 2 or place != 2 * len(names) - 1:
                raise UnsupportedConstruct("{{ range }} declares one or two variables")
        items = self._expression(rest[place + 1 :])
        dot = self._open("range", new_dot=True)
        if len(names) < 2:
            made = [f"for {dot} in ({items})|{GO_PREFIX}each"]
        else:
            key = self._fresh("key")
            made = [f"for {key}, {dot} in ({items})|{GO_PREFIX}pairs"]
            made.append(f"set {self._declare(names[0], key)}")
        if names:
            made.append(f"set {self._declare(names[-1], dot)}")
        return made

    def _declaration(self, found: list[Token]) -> str | None:
        if len(found) < 2 or found[0].kind != "variable":
            return None
        name = found[0].text[1:]
        if found[1].kind == "declare":
            return f"set {self._declare(name, self._expression(found[2:]))}"
        if not _is(found[1], "="):
            return None
        value, cell = self._expression(found[2:]), self._find(name)
        return f"set {self._fresh('void')} = ({cell})|{GO_PREFIX}setCell({value})"

    def _expression(self, found: list[Token]) -> str:
        return Expression(found, self).whole()

    def _open(self, keyword: str, *, new_dot: bool = False) -> str:
        dot = self._fresh("dot") if new_dot else self._blocks[-1].dot
        self._blocks.append(_Block(keyword, dot))
        return dot

    def _close(self) -> str:
        if len(self._blocks) == 1:
            raise TemplateError("{{ end }} closes nothing")
        return _END[self._blocks.pop().keyword.rpartition(" ")[2]]

    def _declare(self, name: str, value: str) -> str:
        """`variable = value`, for a `set`."""
        made = self._fresh("var")
        self._blocks[-1].variables[name] = made
        return f"{made} = [{value}]" if name in self._assigned else f"{made} = {value}"

    def _fresh(self, kind: str) -> str:
        self._names += 1
        return f"go_{kind}_{self._names}"

    def _find(self, name: str) -> str:
        for block in reversed(self._blocks):
            if name in block.variables:
                return block.variables[name]
        raise TemplateError(f"the variable ${name} is not declared")

    def dot(self, fields: Collection[str]) -> str:
        """Return the expression for `.a.b` here."""
        return self._blocks[-1].dot + "".join(f"[{json.dumps(name)}]" for name in fields)

    def variable(self, name: str) -> str:
        """Return the expression for `$name` here; `$` alone is the root."""
        if not name:
            return self._root
        found = self._find(name)
        return f"{found}[0]" if name in self._assigned else found


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
