"""Go pipelines, parsed and written as Jinja expressions.

Grammar: pipeline = command { "|" command }; command = operand { operand };
operand = literal | field | variable | function | "(" pipeline ")", each with an optional field chain.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Protocol

from internal.tenancy.rendering.errors import TemplateError, UnsupportedConstruct
from internal.tenancy.rendering.functions import FUNCTIONS, REFUSED
from internal.tenancy.rendering.golang.tokens import Token

GO_PREFIX = "go."
"""Filters under this prefix take their subject as the last argument, whatever the function."""

_CONSTANTS = {"true": "true", "false": "false", "nil": "none"}
_FOLDED: Mapping[str, str] = {"and": " and ", "or": " or "}


class Scope(Protocol):
    """What names mean at this place in the template."""

    def dot(self, fields: Collection[str]) -> str:
        """Return the expression for `.a.b`."""

    def variable(self, name: str) -> str:
        """Return the expression for `$name`, or the root for `$`."""


class Expression:
    """A recursive-descent parser over the tokens of one action."""

    def __init__(self, found: list[Token], scope: Scope) -> None:
        self._tokens = found
        self._scope = scope
        self._place = 0
        self._method = ("", "")

    def whole(self) -> str:
        """Return the pipeline that takes up all tokens."""
        if not self._tokens:
            raise TemplateError("an expression is missing")
        text = self._pipeline()
        if self._place < len(self._tokens):
            raise self._unexpected(self._tokens[self._place])
        return text

    def _pipeline(self) -> str:
        value = self._command(None)
        while self._next("|"):
            value = self._command(value)
        return value

    def _command(self, piped: str | None) -> str:
        token = self._peek()
        if token is None:
            raise TemplateError("an expression ends too early")
        if token.kind == "word" and token.text not in _CONSTANTS:
            self._place += 1
            arguments = self._operands()
            if piped is not None:
                arguments.append(piped)
            return call(token.text, arguments)
        self._method = ("", "")
        operands = self._operands(1)
        if not operands:
            raise self._unexpected(token)
        owner, method = self._method
        operands += self._operands()
        if method == "Compare" and (arguments := [*operands[1:], *([piped] if piped else [])]):
            return f"(({owner})|{GO_PREFIX}compareMethod({', '.join(arguments)}))"
        if len(operands) > 1 or piped is not None:
            raise TemplateError(f"{token.text!r} is not a function and takes no arguments")
        return operands[0]

    def _operands(self, most: int = 1000) -> list[str]:
        found: list[str] = []
        while (
            len(found) < most
            and (token := self._peek()) is not None
            and token.text not in {"|", ")"}
        ):
            found.append(self._operand(token))
        return found

    def _operand(self, token: Token) -> str:
        self._place += 1
        if token.text == "(":
            value = f"({self._pipeline()})"
            if not self._next(")"):
                raise TemplateError("a parenthesis is not closed")
            return self._chained(value)
        if token.kind == "variable":
            return self._chained(self._scope.variable(token.text[1:]))
        if token.kind == "field":
            return self._scope.dot(token.text[1:].split("."))
        if token.text == ".":
            return self._scope.dot([])
        if token.kind == "string":
            return json.dumps(token.literal(), ensure_ascii=False)
        if token.kind == "number":
            return token.number()
        if token.text == "-" and (number := self._peek()) and number.kind == "number":
            self._place += 1
            return f"(-{number.number()})"
        if token.kind == "word":
            constant = _CONSTANTS.get(token.text)
            return constant if constant is not None else call(token.text, [])
        raise self._unexpected(token)

    def _chained(self, value: str) -> str:
        """Return the value with the fields that follow it without a blank; the last may be a method."""
        token = self._peek()
        if token is None or token.kind != "field" or token.spaced:
            return value
        self._place += 1
        for name in token.text[1:].split("."):
            self._method = (value, name)
            value += f"[{json.dumps(name)}]"
        return value

    def _peek(self) -> Token | None:
        return self._tokens[self._place] if self._place < len(self._tokens) else None

    def _next(self, text: str) -> bool:
        token = self._peek()
        if token is None or token.text != text or token.kind != "punct":
            return False
        self._place += 1
        return True

    def _unexpected(self, token: Token) -> TemplateError:
        hint = {
            "=": "only a variable that := has declared is assigned to, at the start of an action",
            ",": "arguments are separated by blanks, not commas",
        }.get(token.text, "Go templates have no such operator; call a function such as add or eq")
        return UnsupportedConstruct(f"{token.text!r} is not understood here: {hint}")


def call(name: str, arguments: list[str]) -> str:
    """Return the Jinja expression that calls a function with arguments in Go's order."""
    if name in _FOLDED and arguments:
        return "(" + _FOLDED[name].join(arguments) + ")"
    if name == "not" and len(arguments) == 1:
        return f"(not {arguments[0]})"
    check_function(name)
    if name in {"list", "tuple", "dict"} and not arguments:
        return "{}" if name == "dict" else "[]"
    if not arguments:
        raise TemplateError(f"the function {name!r} needs an argument (a variable is `.{name}`)")
    *others, last = arguments
    return f"(({last})|{GO_PREFIX}{name}({', '.join(others)}))"


def check_function(name: str) -> None:
    """Raise when there is no such function, with the reason if it is left out on purpose."""
    if name in REFUSED:
        raise UnsupportedConstruct(f"the function {name!r} is refused: {REFUSED[name]}")
    if name not in FUNCTIONS:
        raise TemplateError(f"there is no function {name!r}")
