"""Functions on text, in sprig's argument order: what is worked on comes last."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote_plus, urlsplit

from internal.tenancy.rendering.errors import TemplateError
from internal.tenancy.rendering.limits import check_text_length
from internal.tenancy.rendering.values import to_text

DNS_LABEL_BYTES = 63


def to_host(url: Any) -> str:
    """The host of a URL or of `host:port`, without port, path and brackets."""
    text = to_text(url).strip()
    if not text:
        return ""
    try:
        return urlsplit(text if "://" in text else f"//{text}").hostname or ""
    except ValueError:
        raise TemplateError("toHost: the value is not a URL") from None


def trunc63(text: Any) -> str:
    """At most 63 bytes of UTF-8, never half a character, without a trailing `-`, `.` or `_`."""
    cut = to_text(text).encode("utf-8", "surrogatepass")[:DNS_LABEL_BYTES]
    return cut.decode("utf-8", "ignore").rstrip("-._")


def trunc(length: int, text: Any) -> str:
    """The first `length` characters, or the last when `length` is negative."""
    whole = to_text(text)
    return whole[length:] if length < 0 else whole[:length]


def abbrev(width: int, text: Any) -> str:
    """The text, or its beginning with `...` when it is longer than `width`."""
    whole = to_text(text)
    if width < 4 or len(whole) <= width:
        return whole
    return whole[: width - 3] + "..."


def substr(start: int, end: int, text: Any) -> str:
    """Characters from `start` up to `end`; a negative end means the rest."""
    whole = to_text(text)
    first = max(start, 0)
    return whole[first:] if end < 0 else whole[first:end]


def title(text: Any) -> str:
    """The first letter of every word in upper case, the rest untouched."""
    return re.sub(r"(^|\s)(\S)", lambda m: m.group(1) + m.group(2).upper(), to_text(text))


def capitalize(text: Any) -> str:
    """The first letter in upper case, the others in lower case."""
    return to_text(text).capitalize()


def trim_all(characters: Any, text: Any) -> str:
    """The text without any of the characters at both ends."""
    return to_text(text).strip(to_text(characters))


def replace(old: Any, new: Any, text: Any) -> str:
    """Every `old` replaced by `new`."""
    whole, gone, comes = to_text(text), to_text(old), to_text(new)
    times = whole.count(gone)
    check_text_length(len(whole) + times * max(len(comes) - len(gone), 0))
    return whole.replace(gone, comes)


def repeat(times: int, text: Any) -> str:
    """The text so many times over."""
    whole = to_text(text)
    check_text_length(len(whole) * max(times, 0))
    return whole * max(times, 0)


def indent(width: int, text: Any) -> str:
    """Every line, the first included, moved right by `width` blanks."""
    whole = to_text(text)
    check_text_length(len(whole) + max(width, 0) * (whole.count("\n") + 1))
    blanks = " " * width
    return blanks + whole.replace("\n", "\n" + blanks)


def nindent(width: int, text: Any) -> str:
    """A line break, then `indent`."""
    return "\n" + indent(width, text)


def cat(*values: Any) -> str:
    """The values with a blank between them; None is left out."""
    return " ".join(to_text(value) for value in values if value is not None)


def quote(*values: Any) -> str:
    """Each value in double quotes, special characters escaped."""
    return " ".join(_double_quoted(to_text(value)) for value in values if value is not None)


def squote(*values: Any) -> str:
    """Each value in single quotes, nothing escaped."""
    return " ".join(f"'{to_text(value)}'" for value in values if value is not None)


def kebabcase(text: Any) -> str:
    """`FirstName` as `first-name`."""
    return "-".join(_words(to_text(text))).lower()


def snakecase(text: Any) -> str:
    """`FirstName` as `first_name`."""
    return "_".join(_words(to_text(text))).lower()


def camelcase(text: Any) -> str:
    """`first_name` as `FirstName`."""
    return "".join(word[:1].upper() + word[1:] for word in _words(to_text(text)))


def concat_text(*values: Any) -> str:
    """The values one after the other: Jinja's `~`."""
    parts = [to_text(value) for value in values]
    check_text_length(sum(map(len, parts)))
    return "".join(parts)


def _words(text: str) -> list[str]:
    parted = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text)
    parted = re.sub(r"([A-Z])([A-Z][a-z])", r"\1 \2", parted)
    return [word for word in re.split(r"[\s_\-.]+", parted) if word]


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _double_quoted(text: str) -> str:
    def escape(match: re.Match[str]) -> str:
        char = match.group()
        return _ESCAPES.get(char) or f"\\u{ord(char):04x}"

    return '"' + re.sub(r'["\\\x00-\x1f]', escape, text) + '"'


TEXTS: dict[str, Callable[..., Any]] = {
    "toHost": to_host,
    "trunc63": trunc63,
    "trunc": trunc,
    "abbrev": abbrev,
    "substr": substr,
    "title": title,
    "capitalize": capitalize,
    "upper": lambda text: to_text(text).upper(),
    "lower": lambda text: to_text(text).lower(),
    "trim": lambda text: to_text(text).strip(),
    "trimAll": trim_all,
    "trimPrefix": lambda prefix, text: to_text(text).removeprefix(to_text(prefix)),
    "trimSuffix": lambda suffix, text: to_text(text).removesuffix(to_text(suffix)),
    "nospace": lambda text: re.sub(r"\s+", "", to_text(text)),
    "replace": replace,
    "repeat": repeat,
    "indent": indent,
    "nindent": nindent,
    "cat": cat,
    "quote": quote,
    "squote": squote,
    "kebabcase": kebabcase,
    "snakecase": snakecase,
    "camelcase": camelcase,
    "contains": lambda part, text: to_text(part) in to_text(text),
    "hasPrefix": lambda prefix, text: to_text(text).startswith(to_text(prefix)),
    "hasSuffix": lambda suffix, text: to_text(text).endswith(to_text(suffix)),
    "urlquery": lambda text: quote_plus(to_text(text)),
    "toString": to_text,
    "concatText": concat_text,
}
