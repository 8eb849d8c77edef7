"""The string formats that the API server checks, and Go regular expressions in Python's terms."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date, datetime
from functools import lru_cache
from urllib.parse import urlsplit


def _matches(pattern: str, flags: int = 0) -> Callable[[str], bool]:
    compiled = re.compile(pattern, flags)
    return lambda text: compiled.fullmatch(text) is not None


def _address(version: int) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            return ipaddress.ip_address(text).version == version
        except ValueError:
            return False

    return check


def _cidr(text: str) -> bool:
    if "/" not in text:
        return False
    try:
        ipaddress.ip_interface(text)
    except ValueError:
        return False
    return True


def _uri(text: str) -> bool:
    if any(char.isspace() for char in text) or not text:
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


def _byte(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


_DATETIME = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}([.,]\d+)?([Zz]|[+-]\d{2}:?\d{2})?", re.ASCII
)


def _datetime(text: str) -> bool:
    if not _DATETIME.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text[:19].replace("t", "T"))
    except ValueError:
        return False
    return True


def _luhn(text: str) -> bool:
    digits = [int(char) for char in re.sub(r"[^0-9]", "", text)]
    if not 12 <= len(digits) <= 19:
        return False
    total = 0
    for place, digit in enumerate(reversed(digits)):
        doubled = digit * 2 if place % 2 else digit
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


def _isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    if not re.fullmatch(r"\d{9}[\dX]", digits):
        return False
    weights = [10 if char == "X" else int(char) for char in digits]
    return sum((place + 1) * value for place, value in enumerate(weights)) % 11 == 0


def _isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    if not re.fullmatch(r"\d{13}", digits):
        return False
    return sum(int(char) * (3 if place % 2 else 1) for place, char in enumerate(digits)) % 10 == 0


def _uuid(version: str) -> Callable[[str], bool]:
    middle = f"{version}[0-9a-f]{{3}}" if version else "[0-9a-f]{4}"
    variant = "[89ab][0-9a-f]{3}" if version in ("4", "5") else "[0-9a-f]{4}"
    return _matches(
        rf"[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{middle}-?{variant}-?[0-9a-f]{{12}}", re.IGNORECASE
    )


_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_HOST = r"[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?"
_DURATION = r"[-+]?((\d+(\.\d*)?|\.\d+)\s*(ns|us|µs|μs|ms|s|m|h|d|w|[a-z]+)\s*)+|0"

FORMATS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _matches(r"[0-9a-fA-F]{24}"),
    "uri": _uri,
    "email": _matches(r"[^@\s<>]+@[^@\s<>]+"),
    "hostname": _matches(rf"{_HOST}(\.{_HOST})*\.?"),
    "ipv4": _address(4),
    "ipv6": _address(6),
    "cidr": _cidr,
    "mac": _matches(r"([0-9a-fA-F]{2}([:-])([0-9a-fA-F]{2}\2){4}[0-9a-fA-F]{2})"),
    "uuid": _uuid(""),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4"),
    "uuid5": _uuid("5"),
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "creditcard": _luhn,
    "ssn": _matches(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "hexcolor": _matches(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _matches(r"rgb\(\s*(\d{1,3}\s*,\s*\d{1,3}\s*,\s*\d{1,3})\s*\)"),
    "byte": _byte,
    "password": lambda _text: True,
    "date": _date,
    "duration": _matches(_DURATION),
    "datetime": _datetime,
    "date-time": _datetime,
    "k8s-short-name": lambda text: len(text) <= 63 and re.fullmatch(_LABEL, text) is not None,
    "k8s-long-name": lambda text: (
        len(text) <= 253 and re.fullmatch(rf"{_LABEL}(\.{_LABEL})*", text) is not None
    ),
}
"""By format name; formats that are not listed are not checked."""

_POSIX = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "ascii": r"\x00-\x7F",
    "blank": r"\t ",
    "digit": "0-9",
    "lower": "a-z",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
    "word": r"\w",
    "xdigit": "0-9A-Fa-f",
}


@lru_cache(maxsize=2048)
def go_regex(pattern: str) -> re.Pattern[str]:
    """Compile a Go regular expression. Raises :class:`re.error` where Python has no equal."""
    for name, chars in _POSIX.items():
        pattern = pattern.replace(f"[:{name}:]", chars)
    return re.compile(_anchored(pattern), re.ASCII)


def _anchored(pattern: str) -> str:
    r"""``$`` and ``\z`` are the very end of the text in Go."""
    out: list[str] = []
    in_class = False
    index = 0
    while index < len(pattern):
        char = pattern[index]
        if char == "\\" and index + 1 < len(pattern):
            escaped = pattern[index + 1]
            out.append(r"\Z" if escaped == "z" else char + escaped)
            index += 2
            continue
        if char == "[" and not in_class:
            in_class = True
        elif char == "]" and in_class:
            in_class = False
        out.append(r"\Z" if char == "$" and not in_class else char)
        index += 1
    return "".join(out)
