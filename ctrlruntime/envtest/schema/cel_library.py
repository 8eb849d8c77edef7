"""The functions that Kubernetes adds to CEL, for the evaluator of the package ``cel``.

The evaluator passes plain Python values, so the types that Kubernetes adds (quantities, addresses,
URLs, versions) travel as maps with one reserved key, which no rule can write by accident.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ctrlruntime.envtest.schema.evaluator import stdlib
from ctrlruntime.envtest.schema.formats import go_regex
from ctrlruntime.envtest.schema.quantity import QuantityError, value_of

_TAG = "\u0000"


class CelError(ValueError):
    """A function that cannot be applied to its arguments."""


def _boxed(kind: str, value: Any) -> dict[str, Any]:
    return {_TAG + kind: value}


def _open(kind: str, value: Any) -> str:
    try:
        return str(value[_TAG + kind])
    except (KeyError, TypeError, IndexError):
        raise CelError(f"no such overload: expected {kind}") from None


def _kind(value: Any) -> str:
    if isinstance(value, dict) and len(value) == 1:
        name = str(next(iter(value)))
        if name.startswith(_TAG):
            return name[1:]
    return ""


# --- quantities and versions ---------------------------------------------------------------------


def _quantity(text: str) -> dict[str, Any]:
    # The value, not the spelling, so that equality is that of quantities.
    return _boxed("quantity", format(value_of(text).normalize(), "f"))


def _holds(parse: Callable[[Any], Any]) -> Callable[[Any], bool]:
    def check(text: Any) -> bool:
        try:
            parse(text)
        except (ValueError, QuantityError):
            return False
        return True

    return check


_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?"
)


def _semver(text: str, normalize: bool = False) -> dict[str, Any]:
    if normalize:
        text = text.removeprefix("v")
        text += ".0" * (2 - text.partition("-")[0].count("."))
    if not _SEMVER.fullmatch(text):
        raise CelError(f"parse semver failed: {text}")
    return _boxed("semver", text)


def _semver_order(value: Any) -> tuple[Any, ...]:
    match = _SEMVER.fullmatch(_open("semver", value))
    if match is None:
        raise CelError("no such overload")
    numbers = tuple(int(part) for part in match.groups()[:3])
    pre = match.group(4)
    if pre is None:
        return (*numbers, 1, ())
    parts = tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in pre.split("."))
    return (*numbers, 0, parts)


def _order(value: Any) -> Any:
    if _kind(value) == "semver":
        return _semver_order(value)
    return Decimal(_open("quantity", value))


def _compare(left: Any, right: Any) -> int:
    a, b = _order(left), _order(right)
    return int(a > b) - int(a < b)


def _as_integer(value: Any) -> int:
    number = Decimal(_open("quantity", value))
    if number != number.to_integral_value():
        raise CelError("cannot convert value to integer")
    return int(number)


def _is_integer(value: Any) -> bool:
    number = Decimal(_open("quantity", value))
    return number == number.to_integral_value()


def _sign(value: Any) -> int:
    number = Decimal(_open("quantity", value))
    return (number > 0) - (number < 0)


def _shifted(factor: int) -> Callable[[Any, Any], dict[str, Any]]:
    def shift(left: Any, right: Any) -> dict[str, Any]:
        other = Decimal(right) if isinstance(right, int) else Decimal(_open("quantity", right))
        total = Decimal(_open("quantity", left)) + factor * other
        return _boxed("quantity", format(total.normalize(), "f"))

    return shift


# --- addresses and URLs --------------------------------------------------------------------------

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _strict_address(text: Any) -> _Address:
    address = ipaddress.ip_address(str(text))
    if "%" in str(text) or getattr(address, "ipv4_mapped", None) is not None:
        raise CelError("IPv4-mapped and zoned addresses are not allowed")
    return address


def _ip(value: Any) -> dict[str, Any]:
    if _kind(value) == "cidr":
        return _boxed("ip", str(ipaddress.ip_interface(_open("cidr", value)).ip))
    return _boxed("ip", str(_strict_address(value)))


def _cidr_of(text: Any) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface:
    if "/" not in str(text):
        raise CelError("network address parse error during conversion from string")
    return ipaddress.ip_interface(str(text))


def _cidr(text: str) -> dict[str, Any]:
    return _boxed("cidr", str(_cidr_of(text)))


def _address(value: Any) -> _Address:
    return ipaddress.ip_address(_open("ip", value))


def _contains_ip(cidr: Any, ip: Any) -> bool:
    address = ipaddress.ip_address(ip) if isinstance(ip, str) else _address(ip)
    network = ipaddress.ip_interface(_open("cidr", cidr)).network
    return address.version == network.version and address in network


def _contains_cidr(cidr: Any, other: Any) -> bool:
    text = other if isinstance(other, str) else _open("cidr", other)
    outer = ipaddress.ip_interface(_open("cidr", cidr)).network
    inner = ipaddress.ip_interface(text).network
    return outer.version == inner.version and inner.subnet_of(outer)  # type: ignore[arg-type]


def _url(text: str) -> dict[str, Any]:
    parts = urlsplit(text)
    if not (parts.scheme or text.startswith("/")) or any(char.isspace() for char in text):
        raise CelError(f"URL parse error during conversion from string: {text}")
    return _boxed("url", text)


def _part(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: read(urlsplit(_open("url", value)))


# --- lists, strings ------------------------------------------------------------------------------


def _sorted(values: list[Any]) -> bool:
    return all(a <= b for a, b in pairwise(values))


def _extreme(pick: Callable[..., Any], name: str) -> Callable[[list[Any]], Any]:
    def choose(values: list[Any]) -> Any:
        if not values:
            raise CelError(f"{name} called on empty list")
        return pick(values)

    return choose


def _index(values: Any, item: Any, *rest: Any) -> int:
    if isinstance(values, str):
        return values.find(item, *rest)
    return next((place for place, each in enumerate(values) if each == item), -1)


def _last_index(values: Any, item: Any, *rest: Any) -> int:
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


def _size(value: Any) -> int:
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
            raise CelError("index out of range in format") from None
        return _verb(match.group(3), value, int(match.group(2) or 6))

    return _VERB.sub(put, template)


def _verb(verb: str, value: Any, precision: int) -> str:
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


def shown(value: Any) -> str:
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
    "asApproximateFloat": lambda value: float(_open("quantity", value)),
    "add": _shifted(1),
    "sub": _shifted(-1),
    "isGreaterThan": lambda a, b: _compare(a, b) > 0,
    "isLessThan": lambda a, b: _compare(a, b) < 0,
    "compareTo": _compare,
    "semver": _semver,
    "isSemver": _holds(_semver),
    "major": lambda value: _semver_order(value)[0],
    "minor": lambda value: _semver_order(value)[1],
    "patch": lambda value: _semver_order(value)[2],
    "ip": _ip,
    "isIP": _holds(_strict_address),
    "ip.isCanonical": lambda text: str(_strict_address(text)) == text,
    "family": lambda value: _address(value).version,
    "isUnspecified": lambda value: _address(value).is_unspecified,
    "isLoopback": lambda value: _address(value).is_loopback,
    "isLinkLocalMulticast": lambda value: (
        _address(value) in ipaddress.ip_network("224.0.0.0/24")
        if _address(value).version == 4
        else _address(value) in ipaddress.ip_network("ff02::/16")
    ),
    "isLinkLocalUnicast": lambda value: _address(value).is_link_local,
    "isGlobalUnicast": lambda value: (
        not (
            _address(value).is_unspecified
            or _address(value).is_loopback
            or _address(value).is_multicast
            or _address(value).is_link_local
        )
    ),
    "cidr": _cidr,
    "isCIDR": _holds(_cidr_of),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "prefixLength": lambda value: ipaddress.ip_interface(_open("cidr", value)).network.prefixlen,
    "masked": lambda value: _boxed(
        "cidr", str(ipaddress.ip_interface(_open("cidr", value)).network)
    ),
    "url": _url,
    "isURL": _holds(_url),
    "getScheme": _part(lambda parts: parts.scheme),
    "getHost": _part(lambda parts: parts.netloc.rpartition("@")[2]),
    "getHostname": _part(lambda parts: parts.hostname or ""),
    "getPort": _part(lambda parts: str(parts.port or "")),
    "getEscapedPath": _part(lambda parts: parts.path),
    "getQuery": _part(lambda parts: parse_qs(parts.query, keep_blank_values=True)),
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
