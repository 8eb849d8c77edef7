"""Kubernetes quantities: ``500m``, ``1Gi``, ``1e3``."""

from __future__ import annotations

import re
from decimal import ROUND_UP, Context, Decimal, localcontext
from functools import lru_cache

_SYNTAX = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]?)|[eE]([+-]?\d+))")
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BY_EXPONENT = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_NANO = Decimal("1E-9")
MILLI = Decimal("1E-3")
"""How finely the server keeps the quantities of resource lists."""

SYNTAX_MESSAGE = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


class QuantityError(ValueError):
    """A text that is no quantity."""

    def __init__(self) -> None:
        super().__init__(SYNTAX_MESSAGE)


def _parse(text: str) -> tuple[Decimal, str]:
    """Return the value and the family of its suffix: ``binary``, ``decimal`` or ``exponent``."""
    match = _SYNTAX.fullmatch(text)
    if match is None:
        raise QuantityError
    try:
        return _parsed(*match.groups())
    except (ArithmeticError, ValueError) as error:  # an exponent beyond all numbers
        raise QuantityError from error


def _parsed(sign: str, digits: str, suffix: str, exponent: str | None) -> tuple[Decimal, str]:
    number = Decimal(sign + digits)
    if exponent is not None:
        return number.scaleb(int(exponent)), "exponent"
    if suffix in _BINARY:
        return number * 2 ** _BINARY[suffix], "binary"
    return number.scaleb(_DECIMAL[suffix]), "decimal"


def value_of(quantity: object) -> Decimal:
    """Return the exact value. Raises :class:`QuantityError`."""
    if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
        raise QuantityError
    return _parse(str(quantity))[0]


def canonical(quantity: object, finest: Decimal = _NANO) -> str:
    """Return the form in which the API server stores it: ``1000m`` is ``1``, ``1024Mi`` is ``1Gi``.

    Numbers are accepted as YAML writes them. Fractions below ``finest`` are rounded away from zero.
    Raises :class:`QuantityError`.
    """
    if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
        raise QuantityError
    return _canonical_text(str(quantity), finest)


@lru_cache(maxsize=1024)
def _canonical_text(text: str, finest: Decimal) -> str:
    with localcontext(Context(prec=60)):
        try:
            return _canonical(*_parse(text), finest)
        except ArithmeticError as error:  # more digits than any quantity has
            raise QuantityError from error


def _canonical(value: Decimal, family: str, finest: Decimal) -> str:
    if value != value.quantize(finest, rounding=ROUND_UP):
        value = value.quantize(finest, rounding=ROUND_UP)
    if not value:
        return "0"
    if family == "binary" and abs(value) >= 1024 and value == value.to_integral_value():
        return _binary(int(value))
    if family == "binary" and value != value.to_integral_value():
        family = "decimal"
    return _decimal(value, exponent=family == "exponent")


def _binary(value: int) -> str:
    best = ""
    for suffix, shift in _BINARY.items():
        if value % (1 << shift) == 0:
            best = suffix
    return f"{value >> _BINARY[best]}{best}" if best else str(value)


def _decimal(value: Decimal, *, exponent: bool) -> str:
    power = -9
    while (
        power < 18
        and (value.scaleb(-(power + 3))) == value.scaleb(-(power + 3)).to_integral_value()
    ):
        power += 3
    mantissa = int(value.scaleb(-power))
    if exponent:
        return f"{mantissa}e{power}" if power else str(mantissa)
    return f"{mantissa}{_BY_EXPONENT[power]}"
