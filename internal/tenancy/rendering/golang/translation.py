"""Go templates to Jinja2, action by action; what is Jinja already passes unchanged.

Supported: variables, pipelines, function calls, `if`, `else if`, `else`, `range` over lists, mappings
and numbers (with `$i, $e :=`), `with`, `$x :=`, comments and trim markers. Everything else is an
`UnsupportedConstruct` that names it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from internal.tenancy.rendering.errors import TemplateError, UnsupportedConstruct
from internal.tenancy.rendering.golang.expressions import GO_PREFIX, Expression
from internal.tenancy.rendering.golang.tokens import Token, is_go, tokens

ROOT = "go_root"
"""The Jinja variable that holds all variables as one mapping."""

_COMMENT = re.compile(r"-?\s*/\*")
_END = {"if": "endif", "with": "endif", "range": "endfor"}


def translate(text: str) -> str:
    """The template as Jinja source. Raises TemplateError."""
    return _Translation().run(text)


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


@dataclass(slots=True)
class _Block:
    keyword: str
    dot: str
    variables: dict[str, str] = field(default_factory=dict)


class _Translation:
    """One pass over a template, holding the open blocks."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = [_Block("", ROOT)]
        self._names = 0

    def run(self, text: str) -> str:
        made = "".join(self._pieces(text))
        if len(self._blocks) > 1:
            raise TemplateError(f"{{{{ {self._blocks[-1].keyword} }}}} has no {{{{ end }}}}")
        return made

    def _pieces(self, text: str) -> Iterator[str]:
        place = 0
        while (start := _next_action(text, place)) >= 0:
            yield text[place:start]
            if text.startswith("{%", start):
                place = _statement_end(text, start)
                yield text[start:place]
            else:
                place = _action_end(text, start)
                yield self._action(text[start:place])
        yield text[place:]

    def _action(self, action: str) -> str:
        inside = action[2:-2]
        left = "-" if inside.startswith("-") else ""
        right = "-" if inside.endswith("-") and len(inside) > 1 else ""
        inside = inside[len(left) : len(inside) - len(right)]
        if inside.strip().startswith("/*"):
            if not inside.strip().endswith("*/"):
                raise TemplateError("a comment is not closed")
            return f'{{{{{left} "" {right}}}}}' if left or right else ""
        found = tokens(inside)
        if not is_go(found):
            return action
        if found[0].kind == "word" and (made := self._keyword(found)) is not None:
            return "".join(f"{{%{left} {statement} {right}%}}" for statement in made)
        declared = self._declaration(found)
        if declared is not None:
            return f"{{%{left} {declared} {right}%}}"
        return f"{{{{{left} {self._expression(found)} {right}}}}}"

    def _keyword(self, found: list[Token]) -> list[str] | None:
        """The Jinja statements for an action that starts with a keyword."""
        keyword, rest = found[0].text, found[1:]
        if keyword == "if":
            self._open("if")
            return [f"if {self._expression(rest)}"]
        if keyword == "else":
            return self._else(rest)
        if keyword == "end":
            return [self._close()]
        if keyword == "with":
            value = self._expression(rest)
            dot = self._open("with", new_dot=True)
            return [f"if {value}", f"set {dot} = {value}"]
        if keyword == "range":
            return [self._range(rest)]
        if keyword in {"define", "template", "block", "break", "continue"}:
            raise UnsupportedConstruct(f"{{{{ {keyword} }}}} is not supported")
        return None

    def _else(self, rest: list[Token]) -> list[str]:
        block = self._blocks[-1]
        if len(self._blocks) == 1:
            raise TemplateError("{{ else }} has no {{ if }}")
        if not rest:
            block.dot = self._blocks[-2].dot
            return ["else"]
        if rest[0].text != "if" or block.keyword != "if":
            raise UnsupportedConstruct(
                f"{{{{ else {rest[0].text} }}}} is not supported in {{{{ {block.keyword} }}}}"
            )
        return [f"elif {self._expression(rest[1:])}"]

    def _range(self, rest: list[Token]) -> str:
        names: list[str] = []
        place = next((i for i, token in enumerate(rest) if token.kind == "declare"), -1)
        if place >= 0:
            names = [token.text[1:] for token in rest[:place] if token.kind == "variable"]
            if not 1 <= len(names) <= 2 or place != 2 * len(names) - 1:
                raise UnsupportedConstruct("{{ range }} declares one or two variables")
        items = self._expression(rest[place + 1 :])
        dot = self._open("range", new_dot=True)
        if names:
            self._blocks[-1].variables[names[-1]] = dot
        if len(names) < 2:
            return f"for {dot} in ({items})|{GO_PREFIX}each"
        return f"for {self._declare(names[0])}, {dot} in ({items})|{GO_PREFIX}pairs"

    def _declaration(self, found: list[Token]) -> str | None:
        if len(found) < 2 or found[0].kind != "variable" or found[1].kind != "declare":
            return None
        value = self._expression(found[2:])
        return f"set {self._declare(found[0].text[1:])} = {value}"

    def _expression(self, found: list[Token]) -> str:
        return Expression(found, self).whole()

    def _open(self, keyword: str, *, new_dot: bool = False) -> str:
        dot = self._fresh("dot") if new_dot else self._blocks[-1].dot
        self._blocks.append(_Block(keyword, dot))
        return dot

    def _close(self) -> str:
        if len(self._blocks) == 1:
            raise TemplateError("{{ end }} closes nothing")
        return _END[self._blocks.pop().keyword]

    def _declare(self, name: str) -> str:
        made = self._fresh("var")
        self._blocks[-1].variables[name] = made
        return made

    def _fresh(self, kind: str) -> str:
        self._names += 1
        return f"go_{kind}_{self._names}"

    def dot(self, fields: Collection[str]) -> str:
        """The expression for `.a.b` here."""
        return self._blocks[-1].dot + "".join(f"[{json.dumps(name)}]" for name in fields)

    def variable(self, name: str) -> str:
        """The expression for `$name` here; `$` alone is the root."""
        if not name:
            return ROOT
        for block in reversed(self._blocks):
            if name in block.variables:
                return block.variables[name]
        raise TemplateError(f"the variable ${name} is not declared")


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
