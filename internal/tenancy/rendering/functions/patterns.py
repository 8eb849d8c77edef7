"""Regular expressions that cannot run away, and `printf`.

Python's `re` backtracks, Go's does not. A pattern is refused when its shape allows exponential time
(a repetition or an alternative inside a repetition) or needs backtracking to mean anything (back
references, look-arounds). What remains is polynomial in a text of bounded length, and is only ever
run in the worker process, whose deadline is the last resort.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from internal.tenancy.rendering.errors import TemplateError
from internal.tenancy.rendering.functions.numbers import exact_int, to_float
from internal.tenancy.rendering.functions.texts import quote
from internal.tenancy.rendering.limits import check_text_length
from internal.tenancy.rendering.values import to_text

LONGEST_PATTERN = 512
LONGEST_SUBJECT = 64 * 1024
WIDEST_FIELD = 256

_parser: Any = importlib.import_module("re._parser")
_REPEATS = frozenset({"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"})
_REFUSED = {
    "GROUPREF": "a back reference",
    "GROUPREF_EXISTS": "a conditional group",
    "ASSERT": "a look-around",
    "ASSERT_NOT": "a look-around",
}


def regex_match(pattern: Any, text: Any) -> bool:
    """Whether the pattern is found anywhere in the text."""
    return _compiled(to_text(pattern)).search(_subject(text)) is not None


def regex_find(pattern: Any, text: Any) -> str:
    """The first match, or nothing."""
    found = _compiled(to_text(pattern)).search(_subject(text))
    return found.group() if found else ""


def regex_replace_all(pattern: Any, text: Any, replacement: Any) -> str:
    """Every match replaced; `$1` and `${name}` in the replacement are groups, `$$` a dollar sign."""
    compiled, subject = _compiled(to_text(pattern)), _subject(text)
    parts = _replacement_parts(to_text(replacement))
    made = 0

    def substitute(match: re.Match[str]) -> str:
        nonlocal made
        piece = "".join(_group(match, part) if is_group else part for is_group, part in parts)
        made += len(piece)
        check_text_length(made)
        return piece

    return compiled.sub(substitute, subject)


def printf(layout: Any, *values: Any) -> str:
    """Go's `printf` for %s %v %d %q %t %f %e %g %x %X %o %c %% with flags, widths up to 256."""
    waiting = list(values)

    def substitute(match: re.Match[str]) -> str:
        flags, width, precision, verb = match.groups()
        if verb == "%":
            return "%"
        if not waiting:
            raise TemplateError("printf: fewer values than verbs")
        if int(width or 0) > WIDEST_FIELD or int(precision or 0) > WIDEST_FIELD:
            raise TemplateError(f"printf: a field is wider than {WIDEST_FIELD}")
        return _formatted(flags, width or "", precision, verb, waiting.pop(0))

    text = to_text(layout)
    made = re.sub(r"%([-+# 0]*)(\d*)(?:\.(\d*))?([a-zA-Z%])", substitute, text)
    if waiting:
        raise TemplateError("printf: more values than verbs")
    return made


def _formatted(flags: str, width: str, precision: str | None, verb: str, value: Any) -> str:
    if verb in "svqt":
        text = quote(value) if verb == "q" else to_text(value)
        if precision is not None:
            text = text[: int(precision or 0)]
        return text.ljust(int(width or 0)) if "-" in flags else text.rjust(int(width or 0))
    points = "" if precision is None else f".{precision or 0}"
    if verb in "dxXoc":
        return f"%{flags}{width}{points}{verb}" % exact_int(value)
    if verb in "feEgG":
        return f"%{flags}{width}{points}{verb}" % to_float(value)
    raise TemplateError(f"printf: the verb %{verb} is not supported")


def _subject(text: Any) -> str:
    subject = to_text(text)
    if len(subject) > LONGEST_SUBJECT:
        raise TemplateError(f"a text for a pattern is longer than {LONGEST_SUBJECT} characters")
    return subject


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    if len(pattern) > LONGEST_PATTERN:
        raise TemplateError(f"a pattern is longer than {LONGEST_PATTERN} characters")
    try:
        _refuse_dangerous(_parser.parse(pattern), repeated=False)
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        raise TemplateError("a pattern is not a valid regular expression") from None


def _refuse_dangerous(tree: Any, *, repeated: bool) -> None:
    for operation, argument in tree:
        name = str(operation)
        if name in _REFUSED:
            raise TemplateError(f"a pattern uses {_REFUSED[name]}, which is not supported")
        if name == "BRANCH" and repeated:
            raise TemplateError("a pattern repeats alternatives, which may take exponential time")
        inside = repeated
        if name in _REPEATS:
            low, high, _ = argument
            if repeated and low != high:
                raise TemplateError("a pattern nests repetitions, which may take exponential time")
            inside = repeated or int(high) > 1
        for child in _children(name, argument):
            _refuse_dangerous(child, repeated=inside)


def _children(name: str, argument: Any) -> Iterator[Any]:
    if name in _REPEATS:
        yield argument[2]
    elif name == "SUBPATTERN":
        yield argument[3]
    elif name == "BRANCH":
        yield from argument[1]
    elif name == "ATOMIC_GROUP":
        yield argument


def _replacement_parts(text: str) -> list[tuple[bool, str]]:
    parts: list[tuple[bool, str]] = []
    for piece in re.split(r"(\$\$|\$\w+|\$\{\w+\})", text):
        if piece == "$$":
            parts.append((False, "$"))
        elif piece.startswith("$") and len(piece) > 1:
            parts.append((True, piece.strip("${}")))
        else:
            parts.append((False, piece))
    return parts


def _group(match: re.Match[str], name: str) -> str:
    try:
        return match.group(int(name) if name.isdecimal() else name) or ""
    except (IndexError, re.error):
        return ""


PATTERNS: dict[str, Callable[..., Any]] = {
    "regexMatch": regex_match,
    "regexFind": regex_find,
    "regexReplaceAll": regex_replace_all,
    "printf": printf,
}
