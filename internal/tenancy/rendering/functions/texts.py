"""Functions on text, in sprig's argument order: what is worked on comes last."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote_plus, urlsplit

from internal.tenancy.rendering.errors import TemplateError
from internal.tenancy.rendering.functions.numbers import exact_int
from internal.tenancy.rendering.limits import check_text_length
from internal.tenancy.rendering.values import to_text

DNS_LABEL_BYTES = 63
_HTML = str.maketrans(
    {'"': "&#34;", "'": "&#39;", "&": "&amp;", "<": "&lt;", ">": "&gt;", "\0": "\ufffd"}
)
_JS = str.maketrans(
    {
        "\\": "\\\\", "'": "\\'", '"': '\\"', "<": "\\u003C", ">": "\\u003E",
        "&": "\\u0026", "=": "\\u003D",
    }
)  # fmt: skip


def to_host(url: object) -> str:
    """Return the host of a URL or of `host:port`, without port, path and brackets."""
    text = to_text(url).strip()
    if not text:
        return ""
    try:
        return urlsplit(text if "://" in text else f"//{text}").hostname or ""
    except ValueError:
        raise TemplateError("toHost: the value is not a URL") from None


def trunc63(text: object) -> str:
    """At most 63 bytes of UTF-8, never half a character, without a trailing `-`, `.` or `_`."""
    cut = to_text(text).encode("utf-8", "surrogatepass")[:DNS_LABEL_BYTES]
    return cut.decode("utf-8", "ignore").rstrip("-._")


def trunc(length: int, text: object) -> str:
    """Return the first `length` characters, or the last when `length` is negative."""
    whole = to_text(text)
    return whole[length:] if length < 0 else whole[:length]


def abbrev(width: int, text: object) -> str:
    """Return the text, or its beginning with `...` when it is longer than `width`."""
    whole = to_text(text)
    if width < 4 or len(whole) <= width:
        return whole
    return whole[: width - 3] + "..."


def substr(start: int, end: int, text: object) -> str:
    """Characters from `start` up to `end`; a negative end means the rest."""
    whole = to_text(text)
    first = max(start, 0)
    return whole[first:] if end < 0 else whole[first:end]


def title(text: object) -> str:
    """Return the first letter of every word in upper case, the rest untouched; words end at `-` and `.` too."""
    made: list[str] = []
    start = True
    for char in to_text(text):
        made.append(char.upper() if start else char)
        start = not (char.isalnum() or char == "_")
    return "".join(made)


def untitle(text: object) -> str:
    """Return the first letter of every word in lower case, the rest untouched."""
    return re.sub(r"(^|\s)(\S)", lambda m: m.group(1) + m.group(2).lower(), to_text(text))


def swapcase(text: object) -> str:
    """Upper case to lower, lower to upper."""
    return to_text(text).swapcase()


def initials(text: object) -> str:
    """Return the first letter of every word."""
    return "".join(word[0] for word in to_text(text).split())


def plural(one: object, many: object, count: object) -> object:
    """One of two texts, by whether the count is 1."""
    return one if exact_int(count) == 1 else many


def abbrevboth(left: object, right: object, text: object) -> str:
    """Return the text without its beginning and end where it is too long, `...` in their places."""
    offset, width, whole = exact_int(left), exact_int(right), to_text(text)
    if width < 4 or (offset > 0 and width < 7) or len(whole) <= width:
        return whole
    offset = min(offset, len(whole) - (width - 3))
    if offset <= 4:
        return whole[: width - 3] + "..."
    if offset + width - 3 < len(whole):
        return "..." + abbrev(width - 3, whole[offset:])
    return "..." + whole[-(width - 3) :]


def wrap(width: object, text: object) -> str:
    """Lines of at most so many characters, broken at blanks; longer words stay whole."""
    return _wrapped(exact_int(width), "\n", to_text(text), cut_words=False)


def wrap_with(width: object, separator: object, text: object) -> str:
    """Like `wrap`, with another separator; longer words are cut."""
    return _wrapped(exact_int(width), to_text(separator) or "\n", to_text(text), cut_words=True)


def _wrapped(width: int, separator: str, text: str, *, cut_words: bool) -> str:
    width = max(width, 1)
    check_text_length(len(text) + (len(text) // width + text.count(" ")) * len(separator))
    lines: list[str] = []
    place = 0
    while len(text) - place > width:
        if text[place] == " ":
            place += 1
            continue
        at = text.rfind(" ", place, place + width + 1)
        if at < 0 and not cut_words:
            at = text.find(" ", place + width)
            if at < 0:
                break
        end = at if at >= 0 else place + width
        lines.append(text[place:end])
        place = end + (at >= 0)
    return separator.join([*lines, text[place:]])


def print_values(*values: object) -> str:
    """Return the values one after the other, a blank between two of which neither is text."""
    parts: list[str] = []
    for place, value in enumerate(values):
        if place and not isinstance(value, str) and not isinstance(values[place - 1], str):
            parts.append(" ")
        parts.append(to_text(value))
    check_text_length(sum(map(len, parts)))
    return "".join(parts)


def println(*values: object) -> str:
    """Return the values with blanks between them, and a line break."""
    parts = [to_text(value) for value in values]
    check_text_length(sum(map(len, parts)) + len(parts))
    return " ".join(parts) + "\n"


def html(*values: object) -> str:
    """Return the values as HTML text."""
    return _escaped(print_values(*values), _HTML)


def js(*values: object) -> str:
    """Return the values as they stand inside a JavaScript string."""
    text = _escaped(print_values(*values), _JS)
    return re.sub(r"[\x00-\x1f]", lambda m: f"\\u{ord(m.group()):04X}", text)


def _escaped(text: str, table: Mapping[int, str]) -> str:
    check_text_length(len(text) * 6)
    return text.translate(table)


def capitalize(text: object) -> str:
    """Return the first letter in upper case, the others in lower case."""
    return to_text(text).capitalize()


def trim_all(characters: object, text: object) -> str:
    """Return the text without any of the characters at both ends."""
    return to_text(text).strip(to_text(characters))


def replace(old: object, new: object, text: object) -> str:
    """Every `old` replaced by `new`."""
    whole, gone, comes = to_text(text), to_text(old), to_text(new)
    times = whole.count(gone)
    check_text_length(len(whole) + times * max(len(comes) - len(gone), 0))
    return whole.replace(gone, comes)


def repeat(times: int, text: object) -> str:
    """Return the text so many times over."""
    whole = to_text(text)
    check_text_length(len(whole) * max(times, 0))
    return whole * max(times, 0)


def indent(width: int, text: object) -> str:
    """Every line, the first included, moved right by `width` blanks."""
    whole = to_text(text)
    check_text_length(len(whole) + max(width, 0) * (whole.count("\n") + 1))
    blanks = " " * width
    return blanks + whole.replace("\n", "\n" + blanks)


def nindent(width: int, text: object) -> str:
    """Return a line break, then `indent`."""
    return "\n" + indent(width, text)


def cat(*values: object) -> str:
    """Return the values with a blank between them; None is left out."""
    return " ".join(to_text(value) for value in values if value is not None)


def quote(*values: object) -> str:
    """Each value in double quotes, special characters escaped."""
    return " ".join(_double_quoted(to_text(value)) for value in values if value is not None)


def squote(*values: object) -> str:
    """Each value in single quotes, nothing escaped."""
    return " ".join(f"'{to_text(value)}'" for value in values if value is not None)


def kebabcase(text: object) -> str:
    """`FirstName` as `first-name`."""
    return "-".join(_words(to_text(text))).lower()


def snakecase(text: object) -> str:
    """`FirstName` as `first_name`."""
    return "_".join(_words(to_text(text))).lower()


def camelcase(text: object) -> str:
    """`first_name` as `FirstName`: a blank, `-` or `_` goes, and the other letters become lower case."""
    whole = to_text(text)
    bare = re.sub(r"^[\s_-]+", "", whole)
    words = re.split(r"[\s_-]", bare)
    kept = re.findall(r"[\s_-]", bare)
    made = whole[: len(whole) - len(bare)] + words[0].capitalize()
    for place, word in enumerate(words[1:]):
        # Only the last of several separators goes, and none at the end.
        made += word.capitalize() if word else kept[place]
    return made


def concat_text(*values: object) -> str:
    """Return the values one after the other: Jinja's `~`."""
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
    "print": print_values,
    "println": println,
    "html": html,
    "js": js,
    "untitle": untitle,
    "swapcase": swapcase,
    "initials": initials,
    "plural": plural,
    "abbrevboth": abbrevboth,
    "wrap": wrap,
    "wrapWith": wrap_with,
}
