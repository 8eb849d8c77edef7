"""Resource quantities in their canonical form: `1000m` is `1`, `1024Ki` is `1Mi`."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest

_FORM: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?")
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL: Final = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_NANO: Final = -9
MESSAGE: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


@lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """The canonical form. Raises ValueError for what is no quantity."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(MESSAGE)
    number, suffix = Decimal(match.group(1)), match.group(2) or ""
    if suffix in _BINARY and suffix:
        return _binary(number * (Decimal(1024) ** _BINARY.index(suffix)))
    if suffix[:1] in {"e", "E"} and len(suffix) > 1:
        return _exponent(number.scaleb(int(suffix[1:])))
    return _decimal(number.scaleb(3 * _DECIMAL.index(suffix) + _NANO))


def value(text: str) -> Decimal:
    """The number a quantity stands for. Raises ValueError."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(MESSAGE)
    number, suffix = Decimal(match.group(1)), match.group(2) or ""
    if suffix and suffix in _BINARY:
        return number * (Decimal(1024) ** _BINARY.index(suffix))
    if suffix[:1] in {"e", "E"} and len(suffix) > 1:
        return number.scaleb(int(suffix[1:]))
    return number.scaleb(3 * _DECIMAL.index(suffix) + _NANO)


def _binary(number: Decimal) -> str:
    if number != number.to_integral_value():
        return _decimal(number)
    whole, power = int(number), 0
    while whole and whole % 1024 == 0 and power < len(_BINARY) - 1:
        whole //= 1024
        power += 1
    return f"{whole}{_BINARY[power]}"


def _decimal(number: Decimal) -> str:
    whole, power = _scaled(number)
    return f"{whole}{_DECIMAL[power]}"


def _exponent(number: Decimal) -> str:
    whole, power = _scaled(number)
    exponent = 3 * power + _NANO
    return f"{whole}e{exponent}" if exponent else str(whole)


def _scaled(number: Decimal) -> tuple[int, int]:
    """Nanos and up, rounded away from zero, in the largest unit that keeps it whole."""
    nanos = number.scaleb(-_NANO)
    whole = int(nanos.to_integral_value(rounding="ROUND_UP"))
    if not whole:
        return 0, 3
    power = 0
    while whole % 1000 == 0 and power < len(_DECIMAL) - 1:
        whole //= 1000
        power += 1
    return whole, power


def normalise(quantities: Manifest) -> None:
    """Canonical forms for all values of a resource list, in place; what is wrong stays."""
    for name, amount in quantities.items():
        quantities[name] = normalised(amount)


def normalised(amount: Any) -> Any:
    if isinstance(amount, bool) or not isinstance(amount, (str, int, float)):
        return amount
    try:
        return canonical(str(amount))
    except (ValueError, InvalidOperation):
        return amount
