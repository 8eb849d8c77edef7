"""Evaluates a parsed expression on JSON values, with a counted cost: never timed, so load changes no result."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ctrlruntime.json import Json
from internal.tenancy.cel.errors import CelError
from internal.tenancy.cel.functions import FUNCTIONS, is_int, no_overload, whole
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

MOST_COST: Final = 10_000
"""What one evaluation may cost: a part evaluated or compared is 1, and 100 characters worked on are 1. About 10 ms."""
CHARACTERS: Final = 100
"""Characters of text that cost as much as a part."""

_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def evaluate(node: Node, variables: Mapping[str, Any]) -> Json:
    """Return the value of an expression. Raises CelError, also when it costs more than MOST_COST."""
    return _Evaluation(variables).value(node)


class CostExceeded(CelError):
    """The evaluation costs too much. No operator absorbs it."""


class _Evaluation:
    """One evaluation: the variables in scope and what is left of its cost."""

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self._scope = dict(variables)
        self._left = MOST_COST
        self._characters = 0

    def value(self, node: Node) -> Json:
        self._charge(1)
        match node:
            case Literal(value):
                return value
            case Ident(name):
                return self._scope[name]
            case Select(operand, field):
                return _field(self.value(operand), field)
            case Has(operand, field):
                return _has(self.value(operand), field)
            case Index(operand, key):
                return self._index(self.value(operand), self.value(key))
            case ListOf(items):
                return [self.value(item) for item in items]
            case MapOf(pairs):
                return self._map(pairs)
            case _:
                return self._operation(node)

    def _operation(self, node: Unary | Binary | Conditional | Call | Macro) -> Json:
        match node:
            case Unary(sign, operand):
                return _signed(sign, self.value(operand))
            case Binary("&&" | "||" as sign, left, right):
                return self._either(left, right, decisive=sign == "||", sign=sign)
            case Binary(sign, left, right):
                return self._binary(sign, self.value(left), self.value(right))
            case Conditional(condition, chosen, other):
                return self.value(chosen if self._truth(condition, "?:") else other)
            case Call(name, arguments):
                found = [self.value(each) for each in arguments]
                return FUNCTIONS[name].run(self._charge_characters, *found)
            case Macro():
                return self._macro(node)

    def _charge(self, cost: int) -> None:
        self._left -= cost
        if self._left < 0:
            raise CostExceeded(f"it costs more than {MOST_COST}; look at fewer values")

    def _charge_characters(self, count: int) -> None:
        self._characters += count
        if self._characters >= CHARACTERS:
            cost, self._characters = divmod(self._characters, CHARACTERS)
            self._charge(cost)

    def _truth(self, node: Node, name: str) -> bool:
        value = self.value(node)
        if not isinstance(value, bool):
            raise no_overload(name)
        return value

    def _either(self, left: Node, right: Node, *, decisive: bool, sign: str) -> bool:
        """Return `&&` or `||`: a side that decides is enough, whatever is wrong with the other."""
        try:
            if self._truth(left, sign) is decisive:
                return decisive
        except CostExceeded:
            raise
        except CelError:
            if self._truth(right, sign) is decisive:
                return decisive
            raise
        return self._truth(right, sign)

    def _binary(self, sign: str, left: Json, right: Json) -> Json:
        if sign == "==":
            return self._equal(left, right)
        if sign == "!=":
            return not self._equal(left, right)
        if sign == "in":
            return self._contains(right, left)
        if sign in _ORDERS:
            return self._ordered(sign, left, right)
        return self._arithmetic(sign, left, right)

    def _equal(self, left: Json, right: Json) -> bool:
        self._charge(1)
        if isinstance(left, bool) or isinstance(right, bool):
            return left is right
        if isinstance(left, str) and isinstance(right, str):
            self._charge_characters(min(len(left), len(right)))
            return left == right
        if isinstance(left, list) and isinstance(right, list):
            return len(left) == len(right) and all(map(self._equal, left, right))
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            return len(left) == len(right) and all(
                name in right and self._equal(value, right[name]) for name, value in left.items()
            )
        if isinstance(left, int | float) and isinstance(right, int | float):
            return left == right
        return left is None and right is None

    def _contains(self, container: Json, item: Json) -> bool:
        if isinstance(container, list):
            return any(self._equal(each, item) for each in container)
        if isinstance(container, Mapping):
            return _key(item) in container
        raise no_overload("in")

    def _ordered(self, sign: str, left: Json, right: Json) -> bool:
        if isinstance(left, str) and isinstance(right, str):
            self._charge_characters(min(len(left), len(right)))
        elif isinstance(left, bool) != isinstance(right, bool) or not (
            isinstance(left, int | float) and isinstance(right, int | float)
        ):
            raise no_overload(sign)
        return _ORDERS[sign](left, right)

    def _arithmetic(self, sign: str, left: Json, right: Json) -> Json:
        if is_int(left) and is_int(right):
            return _of_integers(sign, left, right)
        if isinstance(left, float) and isinstance(right, float):
            return _of_doubles(sign, left, right)
        if sign == "+" and isinstance(left, str) and isinstance(right, str):
            self._charge_characters(len(left) + len(right))
            return left + right
        if sign == "+" and isinstance(left, list) and isinstance(right, list):
            self._charge(len(left) + len(right))
            return left + right
        raise no_overload(sign)

    def _index(self, operand: Json, key: Json) -> Json:
        if isinstance(operand, list):
            if not is_int(key):
                raise no_overload("[]")
            if not 0 <= key < len(operand):
                raise CelError("index out of range")
            return operand[key]
        if isinstance(operand, Mapping):
            found = _key(key)
            if found not in operand:
                raise CelError("no such key")
            return operand[found]
        raise no_overload("[]")

    def _map(self, pairs: tuple[tuple[Node, Node], ...]) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for key, value in pairs:
            made[_key(self.value(key))] = self.value(value)
        return made

    def _macro(self, node: Macro) -> Json:
        operand = self.value(node.operand)
        if not isinstance(operand, list | Mapping):
            raise no_overload(node.name)
        shadowed = self._scope.get(node.variable, _ABSENT)
        try:
            return self._over(node, iter(operand))
        finally:
            if shadowed is _ABSENT:
                self._scope.pop(node.variable, None)
            else:
                self._scope[node.variable] = shadowed

    def _over(self, node: Macro, items: Iterator[Any]) -> Json:
        if node.name in {"all", "exists"}:
            return self._quantified(node, items, decisive=node.name == "exists")
        found: list[Any] = []
        for item in items:
            self._charge(1)
            self._scope[node.variable] = item
            if node.name == "map":
                if node.condition is None or self._truth(node.condition, "map"):
                    found.append(self.value(node.body))
            elif self._truth(node.body, node.name):
                found.append(item)
        return len(found) == 1 if node.name == "exists_one" else found

    def _quantified(self, node: Macro, items: Iterator[Any], *, decisive: bool) -> bool:
        """Return `all` or `exists`: one item that decides is enough, whatever is wrong with others."""
        error: CelError | None = None
        for item in items:
            self._charge(1)
            self._scope[node.variable] = item
            try:
                if self._truth(node.body, node.name) is decisive:
                    return decisive
            except CostExceeded:
                raise
            except CelError as each:
                error = error or each
        if error is not None:
            raise error
        return not decisive


_ABSENT: Final = object()


def _field(value: Json, name: str) -> Json:
    if not isinstance(value, Mapping):
        raise CelError(f"no such field: {name}")
    if name not in value:
        raise CelError(f"no such key: {name}")
    return value[name]


def _has(value: Json, name: str) -> bool:
    if not isinstance(value, Mapping):
        raise CelError(f"no such field: {name}")
    return name in value


def _key(value: Json) -> Json:
    """Return a value as the key of a map. Raises CelError."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise CelError("the key of a map must be a text or a number")
    return value


def _signed(sign: str, value: Json) -> Json:
    if sign == "!" and isinstance(value, bool):
        return not value
    if sign == "-" and is_int(value):
        return whole(-value)
    if sign == "-" and isinstance(value, float):
        return -value
    raise no_overload(sign)


def _of_integers(sign: str, left: int, right: int) -> int:
    if sign == "+":
        return whole(left + right)
    if sign == "-":
        return whole(left - right)
    if sign == "*":
        return whole(left * right)
    if right == 0:
        raise CelError("division by zero" if sign == "/" else "modulus by zero")
    quotient = abs(left) // abs(right)
    if (left < 0) != (right < 0):
        quotient = -quotient
    return whole(quotient) if sign == "/" else left - quotient * right


def _of_doubles(sign: str, left: float, right: float) -> float:
    if sign == "+":
        return left + right
    if sign == "-":
        return left - right
    if sign == "*":
        return left * right
    if sign == "%":
        raise no_overload(sign)
    if right:
        return left / right
    return (
        math.nan
        if left == 0 or math.isnan(left)
        else math.copysign(math.inf, left * math.copysign(1, right))
    )
