"""Functions on numbers: 64-bit integers and floats, whatever their spelling in a row."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, DivisionByZero, InvalidOperation, localcontext
from functools import reduce
from typing import Any

from internal.tenancy.rendering.errors import TemplateError
from internal.tenancy.rendering.limits import check_integer
from internal.tenancy.rendering.values import check_finite, to_text

MOST_DIGITS = 400
TRUE_WORDS = frozenset({"true", "1", "yes", "on", "t", "y"})
FALSE_WORDS = frozenset({"false", "0", "no", "off", "f", "n", ""})
OCTAL = re.compile(r"[+-]?[0-7]{1,21}")
_EXACT = Context(prec=700, Emax=400, Emin=-400, traps=[DivisionByZero, InvalidOperation])
_SIXTEEN_PLACES = Decimal("1e-16")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")


def to_int(value: object) -> int:
    """Return the whole number a value spells; fractions are cut off, and what is no number is 0."""
    if isinstance(value, int):
        return check_integer(int(value))
    number = to_float(value)
    return check_integer(int(number))


def to_float(value: object) -> float:
    """Return the number a value spells; what is no number is 0."""
    if isinstance(value, int | float):
        return check_finite(float(value))
    text = to_text(value).strip()
    if len(text) > MOST_DIGITS or _NUMBER.fullmatch(text) is None:
        return 0.0
    return check_finite(float(text))


def to_bool(value: object) -> bool:
    """Return True for true, 1, yes, on, t and y in any case, and for numbers other than 0."""
    if isinstance(value, int | float):
        return value != 0
    return to_text(value).strip().lower() in TRUE_WORDS


def exact_int(text: object) -> int:
    """Like `to_int`, keeping all 64 bits of a number written as text."""
    if isinstance(text, str):
        digits = text.strip()
        if len(digits) <= 20 and re.fullmatch(r"[+-]?\d+", digits, re.ASCII):
            return check_integer(int(digits))
    return to_int(text)


def add(*values: object) -> int:
    """Return the sum of whole numbers."""
    return check_integer(sum(_whole("add", value) for value in values))


def sub(left: object, right: object) -> int:
    """`left - right` in whole numbers."""
    return check_integer(_whole("sub", left) - _whole("sub", right))


def mul(*values: object) -> int:
    """Return the product of whole numbers."""
    return reduce(lambda product, value: check_integer(product * _whole("mul", value)), values, 1)


def div(left: object, right: object) -> int:
    """`left / right` in whole numbers, cut towards zero."""
    dividend, divisor = _whole("div", left), _whole("div", right)
    if divisor == 0:
        raise TemplateError("div: division by zero")
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def mod(left: object, right: object) -> int:
    """Return the remainder of `div`, with the sign of `left`."""
    dividend, divisor = _whole("mod", left), _whole("mod", right)
    if divisor == 0:
        raise TemplateError("mod: division by zero")
    rest = abs(dividend) % abs(divisor)
    return -rest if dividend < 0 else rest


def largest(*values: object) -> int:
    """Return the largest of whole numbers."""
    return max(_whole("max", value) for value in values)


def smallest(*values: object) -> int:
    """Return the smallest of whole numbers."""
    return min(_whole("min", value) for value in values)


def round_to(value: object, places: int = 0, up_from: object = 0.5) -> float:
    """Return the number rounded to so many decimal places; a fraction of `up_from` or more goes up."""
    factor = 10.0 ** max(min(places, 12), 0)
    scaled = abs(_number("round", value)) * factor
    whole = math.floor(scaled)
    whole += scaled - whole >= _number("round", up_from)
    return math.copysign(whole / factor, _number("round", value))


def absolute(value: object) -> int | float:
    """Return the number without its sign."""
    return abs(_number("abs", value))


def to_decimal(value: object) -> int:
    """Return the number that octal digits spell, as in Unix permissions; 0 for anything else."""
    text = to_text(value)
    return check_integer(int(text, 8)) if OCTAL.fullmatch(text) else 0


def _decimals(name: str, apply: Callable[[Decimal, Decimal], Decimal], *values: object) -> float:
    """Decimal arithmetic from left to right, as a float in the end."""
    numbers = [Decimal(repr(_number(name, value))) for value in values]
    with localcontext(_EXACT):
        try:
            return check_finite(float(reduce(apply, numbers)))
        except ArithmeticError:
            raise TemplateError(f"{name}: the result is not a number") from None


def _quotient(left: Decimal, right: Decimal) -> Decimal:
    """Sixteen decimal places, halves away from zero."""
    return (left / right).quantize(_SIXTEEN_PLACES, ROUND_HALF_UP)


def _whole(name: str, value: object) -> int:
    return check_integer(int(_number(name, value)))


def _number(name: str, value: object) -> int | float:
    if isinstance(value, int | float):
        return value
    text = to_text(value).strip()
    if len(text) > MOST_DIGITS or _NUMBER.fullmatch(text) is None:
        raise TemplateError(f"{name}: a value is not a number; int yields 0 for such a value")
    return (
        exact_int(text) if re.fullmatch(r"[+-]?\d+", text, re.ASCII) else check_finite(float(text))
    )


def loses_number(text: object) -> str:
    """Return what `int` or `float` drops of a text; empty if nothing."""
    if not isinstance(text, str) and text is not None:
        return ""
    spelled = to_text(text).strip()
    return "" if _is_number(spelled) else "a value that is not a number became 0"


def loses_whole(text: object) -> str:
    """Return what `int` drops of a text; empty if nothing."""
    lost = loses_number(text)
    if lost or not isinstance(text, str):
        return lost
    return "" if float(text).is_integer() else "the fraction of a number was cut off"


def loses_bool(text: object) -> str:
    """Return what `bool` drops of a text; empty if nothing."""
    if not isinstance(text, str) or text.strip().lower() in TRUE_WORDS | FALSE_WORDS:
        return ""
    return "a value that is neither true nor false became false"


def loses_octal(text: object) -> str:
    """Return what `toDecimal` drops; empty if nothing."""
    return "" if OCTAL.fullmatch(to_text(text)) else "a value that is not octal became 0"


LOSSY_NUMBERS: dict[str, Callable[[Any], str]] = {
    **dict.fromkeys(("int", "int64", "atoi"), loses_whole),
    **dict.fromkeys(("float", "float64"), loses_number),
    "bool": loses_bool,
    "toDecimal": loses_octal,
}
"""Conversions that yield something for any value, and what each lost of the one it was given."""


def _is_number(text: str) -> bool:
    return len(text) <= MOST_DIGITS and _NUMBER.fullmatch(text) is not None


NUMBERS: dict[str, Callable[..., Any]] = {
    "int": exact_int,
    "int64": exact_int,
    "atoi": exact_int,
    "float": to_float,
    "float64": to_float,
    "bool": to_bool,
    "add": add,
    "add1": lambda value: add(value, 1),
    "sub": sub,
    "mul": mul,
    "div": div,
    "mod": mod,
    "max": largest,
    "min": smallest,
    "floor": lambda value: float(math.floor(_number("floor", value))),
    "ceil": lambda value: float(math.ceil(_number("ceil", value))),
    "round": round_to,
    "abs": absolute,
    "addf": lambda *values: _decimals("addf", lambda left, right: left + right, 0, *values),
    "add1f": lambda value: _decimals("add1f", lambda left, right: left + right, value, 1),
    "subf": lambda *values: _decimals("subf", lambda left, right: left - right, *values),
    "mulf": lambda *values: _decimals("mulf", lambda left, right: left * right, *values),
    "divf": lambda *values: _decimals("divf", _quotient, *values),
    "maxf": lambda *values: max(float(_number("maxf", value)) for value in values),
    "minf": lambda *values: min(float(_number("minf", value)) for value in values),
    "toDecimal": to_decimal,
}
