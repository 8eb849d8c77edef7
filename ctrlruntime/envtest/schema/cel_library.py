"""The functions that Kubernetes adds to CEL, for the evaluator of the package ``cel``.

The evaluator passes plain Python values, so quantities travel as maps with one reserved key, which
no rule can write by accident. Addresses, URLs and versions are not here: rules that need them are
refused, see `REFUSED`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence, Sized
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

from ctrlruntime.envtest.schema.evaluator import stdlib
from ctrlruntime.envtest.schema.formats import go_regex
from ctrlruntime.envtest.schema.quantity import QuantityError, value_of
from ctrlruntime.json import Json

_QUANTITY = "\u0000quantity"


class CelFunctionError(ValueError):
    """A function that cannot be applied to its arguments."""


# --- quantities ----------------------------------------------------------------------------------


def _boxed(amount: Decimal) -> dict[str, Any]:
    # The value, not the spelling, so that equality is that of quantities.
    return {_QUANTITY: format(amount.normalize(), "f")}


def _quantity(text: str) -> dict[str, Any]:
    return _boxed(value_of(text))


def _holds(parse: Callable[[Any], Any]) -> Callable[[Any], bool]:
    def check(text: object) -> bool:
        try:
            parse(text)
        except (ValueError, QuantityError):
            return False
        return True

    return check


def _amount(value: Json) -> Decimal:
    try:
        return Decimal(value[_QUANTITY])
    except (KeyError, TypeError, IndexError):
        raise CelFunctionError("no such overload: expected quantity") from None


def _compare(left: object, right: object) -> int:
    a, b = _amount(left), _amount(right)
    return int(a > b) - int(a < b)


def _as_integer(value: object) -> int:
    number = _amount(value)
    if number != number.to_integral_value():
        raise CelFunctionError("cannot convert value to integer")
    return int(number)


def _is_integer(value: object) -> bool:
    number = _amount(value)
    return number == number.to_integral_value()


def _sign(value: object) -> int:
    number = _amount(value)
    return (number > 0) - (number < 0)


def _shifted(factor: int) -> Callable[[Any, Any], dict[str, Any]]:
    def shift(left: object, right: object) -> dict[str, Any]:
        other = Decimal(right) if isinstance(right, int) else _amount(right)
        total = _amount(left) + factor * other
        return _boxed(total)

    return shift


# --- lists, strings ------------------------------------------------------------------------------


def _sorted(values: list[Any]) -> bool:
    return all(a <= b for a, b in pairwise(values))


def _extreme(pick: Callable[..., Any], name: str) -> Callable[[list[Any]], Any]:
    def choose(values: list[Any]) -> object:
        if not values:
            raise CelFunctionError(f"{name} called on empty list")
        return pick(values)

    return choose


def _index(values: Sequence[object], item: Json, *rest: int) -> int:
    if isinstance(values, str):
        return values.find(item, *rest)
    return next((place for place, each in enumerate(values) if each == item), -1)


def _last_index(values: Sequence[object], item: Json, *rest: int) -> int:
    if isinstance(values, str):
        return values.rfind(item, 0, *(end + len(item) for end in rest))
    places = [place for place, each in enumerate(values) if each == item]
    return places[-1] if places else -1


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match.group(0) for match in go_regex(pattern).finditer(text)]
    return found if limit < 0 else found[:limit]


def _find(text: str, pattern: str) -> str:
    match = go_regex(pattern).search(text)
    return match.group(0) if match else ""


def _size(value: Sized) -> int:
    return len(value)


_VERB = re.compile(r"%(?:(%)|(?:\.(\d+))?([sdfebxXo]))")


def _format(template: str, values: list[Any]) -> str:
    remaining = iter(values)

    def put(match: re.Match[str]) -> str:
        if match.group(1):
            return "%"
        try:
            value = next(remaining)
        except StopIteration:
            raise CelFunctionError("index out of range in format") from None
        return _verb(match.group(3), value, int(match.group(2) or 6))

    return _VERB.sub(put, template)


def _verb(verb: str, value: object, precision: int) -> str:
    if verb == "s":
        return shown(value)
    if verb in "fe":
        return f"{value:.{precision}{verb}}"
    if verb in "xX" and isinstance(value, str | bytes):
        text = (value.encode() if isinstance(value, str) else value).hex()
        return text.upper() if verb == "X" else text
    if isinstance(value, bool) and verb == "b":
        return str(int(value))
    return f"{value:{verb}}"


def shown(value: object) -> str:
    """Return a value as ``string()`` or ``%s`` prints it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, datetime):
        text = value.astimezone(UTC).isoformat()
        return text.replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g}s"
    if isinstance(value, list):
        return "[" + ", ".join(map(shown, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{shown(k)}: {shown(value[k])}" for k in sorted(value)) + "}"
    return str(value)


SIZE = "size__of"
"""What ``size`` is called in the evaluator, whose own counts bytes instead of characters."""

FUNCTIONS: dict[str, Callable[..., Any]] = {
    SIZE: _size,
    "quantity": _quantity,
    "isQuantity": _holds(_quantity),
    "sign": _sign,
    "isInteger": _is_integer,
    "asInteger": _as_integer,
    "asApproximateFloat": lambda value: float(_amount(value)),
    "add": _shifted(1),
    "sub": _shifted(-1),
    "isGreaterThan": lambda a, b: _compare(a, b) > 0,
    "isLessThan": lambda a, b: _compare(a, b) < 0,
    "compareTo": _compare,
    "isSorted": _sorted,
    "sum": stdlib.sum_,
    "min": _extreme(min, "min"),
    "max": _extreme(max, "max"),
    "indexOf": _index,
    "lastIndexOf": _last_index,
    "find": _find,
    "findAll": _find_all,
    "format": _format,
    "charAt": stdlib.char_at,
    "join": stdlib.join,
    "lowerAscii": stdlib.lower_ascii,
    "upperAscii": stdlib.upper_ascii,
    "replace": stdlib.replace,
    "split": stdlib.split,
    "substring": stdlib.substring,
    "trim": stdlib.trim,
    "reverse": lambda text: text[::-1],
    "strings.quote": stdlib.quote,
    "sets.contains": stdlib.sets_contains,
    "sets.equivalent": stdlib.sets_equivalent,
    "sets.intersects": stdlib.sets_intersects,
}

REFUSED = frozenset({"cidr", "ip", "isCIDR", "isIP", "isSemver", "isURL", "semver", "url"})
"""Functions of Kubernetes that make or check addresses, URLs and versions; real servers have them."""

NATIVE = frozenset(
    {
        "bool",
        "bytes",
        "contains",
        "double",
        "duration",
        "dyn",
        "endsWith",
        "getDate",
        "getDayOfMonth",
        "getDayOfWeek",
        "getDayOfYear",
        "getFullYear",
        "getHours",
        "getMilliseconds",
        "getMinutes",
        "getMonth",
        "getSeconds",
        "hasValue",
        "int",
        "matches",
        "none",
        "of",
        "or",
        "orValue",
        "startsWith",
        "string",
        "timestamp",
        "type",
        "uint",
        "value",
    }
)
"""What the evaluator itself brings."""
