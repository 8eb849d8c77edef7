"""The functions of expressions. Each charges for what it works on before it does so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from ctrlruntime.json import Json
from internal.tenancy.cel.errors import CelError

LARGEST: Final = 2**63
Charge = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Function:
    """A function and how many arguments it takes, the value that it is called on included."""

    arguments: int
    run: Callable[..., Any]
    """Takes the function that charges for characters, then the arguments. Raises CelError."""


def no_overload(name: str) -> CelError:
    """Return the error of an operator or function for values of the wrong type."""
    return CelError(f"no such overload of {name}: its values have the wrong type")


def whole(value: int) -> int:
    """Return a whole number of 64 bits. Raises CelError."""
    if not -LARGEST <= value < LARGEST:
        raise CelError("integer overflow: a whole number has 64 bits")
    return value


def is_int(value: object) -> bool:
    """Whether a value is a whole number; a boolean is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def _size(charge: Charge, value: Json) -> int:
    if not isinstance(value, str | list | Mapping):
        raise no_overload("size")
    return len(value)


def _on_texts(name: str, run: Callable[[str, str], bool]) -> Function:
    def check(charge: Charge, text: Json, other: Json) -> bool:
        if not (isinstance(text, str) and isinstance(other, str)):
            raise no_overload(name)
        charge(len(text) + len(other))
        return run(text, other)

    return Function(2, check)


def _lower(charge: Charge, text: Json) -> str:
    if not isinstance(text, str):
        raise no_overload("lowerAscii")
    charge(len(text))
    return "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in text)


def _int(charge: Charge, value: Json) -> int:
    if is_int(value):
        return int(value)
    if isinstance(value, float) and abs(value) < LARGEST:
        return int(value)
    if isinstance(value, str) and len(value) <= 20:
        digits = value.removeprefix("-")
        if digits.isascii() and digits.isdigit():
            return whole(int(value))
    raise CelError("int(): the value is not a whole number of 64 bits")


def _double(charge: Charge, value: Json) -> float:
    if is_int(value) or isinstance(value, float):
        return float(value)
    if isinstance(value, str) and len(value) <= 64 and value.isascii() and "_" not in value:
        try:
            return float(value)
        except ValueError:
            pass
    raise CelError("double(): the value is not a number")


def _string(charge: Charge, value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:.17g}" if float(f"{value:.15g}") != value else f"{value:.15g}"
    if isinstance(value, int):
        return str(value)
    raise no_overload("string")


FUNCTIONS: Final[Mapping[str, Function]] = MappingProxyType(
    {
        "size": Function(1, _size),
        "contains": _on_texts("contains", lambda text, other: other in text),
        "startsWith": _on_texts("startsWith", str.startswith),
        "endsWith": _on_texts("endsWith", str.endswith),
        "lowerAscii": Function(1, _lower),
        "int": Function(1, _int),
        "double": Function(1, _double),
        "string": Function(1, _string),
    }
)

_TIMES: Final = "readiness is looked at when the object changes, not when time passes"

REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "matches": "compare with ==, startsWith(), endsWith() or contains()",
        "timestamp": _TIMES,
        "duration": _TIMES,
        "now": _TIMES,
        "uint": "use int()",
        "bytes": "compare texts",
        "existsOne": "write exists_one",
        "dyn": "values have the type that they have; leave it out",
        "type": "compare the value itself",
    }
)
"""What to do instead of a function that others have."""
