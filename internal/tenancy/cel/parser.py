"""Parses an expression: precedence and macros as in the CEL specification."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import lru_cache
from typing import Final

from ctrlruntime.api.cel_names import RESERVED_WORDS
from internal.tenancy.cel.errors import CelError
from internal.tenancy.cel.functions import FUNCTIONS, REFUSED
from internal.tenancy.cel.lexer import Token, fault, tokens
from internal.tenancy.cel.nodes import (
    Binary,
    Call,
    Conditional,
    Has,
    Ident,
    Index,
    ListOf,
    Literal,
    Macro,
    MapOf,
    Node,
    Select,
    Unary,
)

LONGEST_EXPRESSION: Final = 1024
"""Characters of one expression."""
DEEPEST_EXPRESSION: Final = 24
"""How deep the parts of an expression may nest."""
MOST_LEVELS: Final = 120
"""How deep its parts may nest with operators in a row, which nest as well."""
LARGEST: Final = 2**63

_MACROS: Final = frozenset({"all", "exists", "exists_one", "map", "filter"})
_COMPARISONS: Final = frozenset({"==", "!=", "<", "<=", ">", ">=", "in"})
_WORDS: Final = {"true": True, "false": False, "null": None}
_RESERVED: Final = RESERVED_WORDS - _WORDS.keys()


@lru_cache(maxsize=512)
def compile_expression(source: str) -> Node:
    """Return an expression ready to be evaluated with a value for `self`.

    Raises CelError with `line:column` for what is not an expression, and for variables and functions
    that are not known.
    """
    if len(source) > LONGEST_EXPRESSION:
        raise CelError(f"it is too long; at most {LONGEST_EXPRESSION} characters")
    return _Parser(source).whole()


class _Parser:
    """Recursive descent over the tokens."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._tokens = tokens(source)
        self._next = 0
        self._depth = 0
        self._known = ["self"]

    def whole(self) -> Node:
        node = self._expression()
        if self._token.kind != "end":
            raise self._unexpected()
        if _levels(node) > MOST_LEVELS:
            raise CelError(f"at most {MOST_LEVELS} operators may follow or contain each other")
        return node

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._token
        self._next += 1
        return token

    def _accept(self, *texts: str) -> Token | None:
        token = self._token
        if token.kind in {"sign", "name"} and token.text in texts:
            return self._take()
        return None

    def _expect(self, text: str) -> Token:
        found = self._accept(text)
        if found is None:
            raise self._unexpected(f"; {text!r} is")
        return found

    def _fault(self, token: Token, problem: str) -> CelError:
        return fault(self._source, token.place, problem)

    def _unexpected(self, instead: str = "") -> CelError:
        token = self._token
        what = "the end of the expression" if token.kind == "end" else repr(token.text)
        return self._fault(token, f"{what} is not expected here{instead}")

    def _expression(self) -> Node:
        self._depth += 1
        if self._depth > DEEPEST_EXPRESSION:
            raise self._fault(
                self._token, f"it nests too deep; at most {DEEPEST_EXPRESSION} levels"
            )
        node = self._conditional()
        self._depth -= 1
        return node

    def _conditional(self) -> Node:
        condition = self._or()
        if self._accept("?") is None:
            return condition
        chosen = self._expression()
        self._expect(":")
        return Conditional(condition, chosen, self._expression())

    def _chain(self, operand: Callable[[], Node], *operators: str) -> Node:
        node = operand()
        while operator := self._accept(*operators):
            node = Binary(operator.text, node, operand())
        return node

    def _or(self) -> Node:
        return self._chain(self._and, "||")

    def _and(self) -> Node:
        return self._chain(self._comparison, "&&")

    def _comparison(self) -> Node:
        return self._chain(self._sum, *_COMPARISONS)

    def _sum(self) -> Node:
        return self._chain(self._product, "+", "-")

    def _product(self) -> Node:
        return self._chain(self._unary, "*", "/", "%")

    def _unary(self) -> Node:
        signs: list[Token] = []
        while operator := self._accept("!", "-"):
            signs.append(operator)
        negative = bool(signs) and signs[-1].text == "-" and self._token.kind == "number"
        if negative:
            signs.pop()
        node = self._member(negative=negative)
        for operator in reversed(signs):
            node = Unary(operator.text, node)
        return node

    def _member(self, *, negative: bool) -> Node:
        node = self._primary(negative=negative)
        while operator := self._accept(".", "["):
            if self._accept("?"):
                raise self._fault(operator, "optional syntax is not supported; use has()")
            if operator.text == "[":
                node = Index(node, self._expression())
                self._expect("]")
            else:
                node = self._field(node)
        return node

    def _field(self, operand: Node) -> Node:
        token = self._take()
        if token.kind != "name" or token.text in _WORDS or token.text == "in":
            self._next -= 1
            raise self._unexpected("; the name of a field is")
        if self._accept("("):
            if token.text in _MACROS:
                return self._macro(token, operand)
            return self._call(token, (operand, *self._list(")")))
        return Select(operand, token.text)

    def _macro(self, token: Token, operand: Node) -> Node:
        variable = self._take()
        if variable.kind != "name" or variable.text in _WORDS or variable.text in _RESERVED:
            raise self._fault(
                variable, f"{token.text}() needs the name of a variable first, then an expression"
            )
        self._expect(",")
        self._known.append(variable.text)
        body = self._expression()
        condition: Node | None = None
        if token.text == "map" and self._accept(","):
            condition, body = body, self._expression()
        self._known.pop()
        self._expect(")")
        return Macro(token.text, operand, variable.text, condition, body)

    def _list(self, end: str) -> tuple[Node, ...]:
        items: list[Node] = []
        while not self._accept(end):
            items.append(self._expression())
            if not self._accept(","):
                self._expect(end)
                break
        return tuple(items)

    def _map(self) -> Node:
        pairs: list[tuple[Node, Node]] = []
        while not self._accept("}"):
            key = self._expression()
            self._expect(":")
            pairs.append((key, self._expression()))
            if not self._accept(","):
                self._expect("}")
                break
        return MapOf(tuple(pairs))

    def _call(self, token: Token, arguments: tuple[Node, ...]) -> Node:
        known = FUNCTIONS.get(token.text)
        if known is None:
            hint = REFUSED.get(token.text, f"known are {', '.join(sorted(FUNCTIONS))} and has")
            raise self._fault(token, f"the function {token.text}() is not supported; {hint}")
        if len(arguments) != known.arguments:
            raise self._fault(token, f"{token.text}() takes {known.arguments} arguments")
        return Call(token.text, arguments)

    def _primary(self, *, negative: bool) -> Node:
        token = self._take()
        if token.kind == "number":
            return self._number(token, negative=negative)
        if token.kind == "text":
            return Literal(token.text)
        if token.kind == "name":
            return self._name(token)
        if token.text == "(":
            node = self._expression()
            self._expect(")")
            return node
        if token.text == "[":
            return ListOf(self._list("]"))
        if token.text == "{":
            return self._map()
        self._next -= 1
        raise self._unexpected()

    def _name(self, token: Token) -> Node:
        if token.text in _WORDS:
            return Literal(_WORDS[token.text])
        if self._accept("("):
            if token.text == "has":
                return self._has(token)
            return self._call(token, self._list(")"))
        if token.text in _RESERVED or token.text not in self._known:
            known = ", ".join(dict.fromkeys(self._known))
            raise self._fault(token, f"the variable {token.text!r} is unknown; known: {known}")
        return Ident(token.text)

    def _has(self, token: Token) -> Node:
        argument = self._expression()
        self._expect(")")
        if not isinstance(argument, Select):
            raise self._fault(token, "has() needs a field, for example has(self.status)")
        return Has(argument.operand, argument.field)

    def _number(self, token: Token, *, negative: bool) -> Node:
        text = f"-{token.text}" if negative else token.text
        if token.text.startswith("0x"):
            value: int | float = int(text, 16)
        elif token.text.isdigit():
            value = int(text)
        else:
            value = float(text)
        if isinstance(value, int) and not -LARGEST <= value < LARGEST:
            raise self._fault(token, "a whole number has 64 bits")
        return Literal(value)


def _levels(node: Node) -> int:
    """Return how deep the parts of an expression nest."""
    deepest = 0
    waiting: list[tuple[object, int]] = [(node, 1)]
    while waiting:
        part, level = waiting.pop()
        if isinstance(part, tuple):
            waiting += ((each, level) for each in part)
        elif isinstance(part, Node):
            deepest = max(deepest, level)
            waiting += ((getattr(part, each.name), level + 1) for each in fields(part))
    return deepest
