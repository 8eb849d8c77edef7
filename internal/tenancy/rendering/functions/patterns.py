"""Regular expressions that cannot run away, and `printf`.

Python's `re` backtracks, Go's does not. A pattern is refused when its shape allows exponential time
(a repetition or an alternative inside a repetition) or needs backtracking to mean anything (back
references, look-arounds). What remains is polynomial in a text of bounded length, and is only ever
run in the worker process, whose deadline is the last resort.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, cast

from internal.tenancy.rendering.errors import TemplateError
from internal.tenancy.rendering.functions.numbers import exact_int, to_float
from internal.tenancy.rendering.functions.texts import quote
from internal.tenancy.rendering.limits import check_list_length, check_text_length
from internal.tenancy.rendering.values import to_text

LONGEST_PATTERN = 512
LONGEST_SUBJECT = 64 * 1024
WIDEST_FIELD = 256

_parser: Any = importlib.import_module("re._parser")
_constants: Any = importlib.import_module("re._constants")
_compiler: Any = importlib.import_module("re._compiler")
_REPEATS = frozenset({"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"})
_REFUSED = {
    "GROUPREF": "a back reference",
    "GROUPREF_EXISTS": "a conditional group",
    "ASSERT": "a look-around",
    "ASSERT_NOT": "a look-around",
}


_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_AT_END_STRING: Any = next(c for c in _constants.ATCODES if str(c) == "AT_END_STRING")
_CLASS = re.compile(r"\[:(\^?\w+):\]")
_CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": r"\t ", "digit": "0-9", "lower": "a-z",
    "^digit": r"\D",
    "^space": r"\S",
    "^word": r"\W",
    "space": r"\t\n\v\f\r ", "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip


def regex_match(pattern: object, text: object) -> bool:
    """Whether the pattern is found anywhere in the text."""
    return _compiled(to_text(pattern)).search(_subject(text)) is not None


def regex_find(pattern: object, text: object) -> str:
    """Return the first match, or nothing."""
    found = _compiled(to_text(pattern)).search(_subject(text))
    return found.group() if found else ""


def regex_find_all(pattern: object, text: object, most: object) -> list[str]:
    """All matches, or the first so many when the number is not negative."""
    limit = exact_int(most)
    found: list[str] = []
    for match in _matches(_compiled(to_text(pattern)), _subject(text)):
        if 0 <= limit <= len(found):
            break
        found.append(match.group())
        check_list_length(len(found))
    return found


def regex_split(pattern: object, text: object, most: object) -> list[str]:
    """Return the parts between matches; at most so many when the number is not negative."""
    limit, subject, source = exact_int(most), _subject(text), to_text(pattern)
    if limit == 0:
        return []
    if source and not subject:
        return [""]
    parts: list[str] = []
    start = end = 0
    for match in _matches(_compiled(source), subject):
        if 0 < limit == len(parts) + 1:
            break
        end = match.start()
        if match.end():
            parts.append(subject[start:end])
        start = match.end()
        check_list_length(len(parts))
    if end != len(subject):
        parts.append(subject[start:])
    return parts


def regex_replace_literal(pattern: object, text: object, replacement: object) -> str:
    """Every match replaced by the text as it is."""
    return _replaced(pattern, text, [(False, to_text(replacement))])


def regex_replace_all(pattern: object, text: object, replacement: object) -> str:
    """Every match replaced; `$1` and `${name}` in the replacement are groups, `$$` a dollar sign."""
    return _replaced(pattern, text, _replacement_parts(to_text(replacement)))


def _replaced(pattern: object, text: object, parts: list[tuple[bool, str]]) -> str:
    subject = _subject(text)
    pieces: list[str] = []
    made = end = 0
    for match in _matches(_compiled(to_text(pattern)), subject):
        piece = "".join(_group(match, part) if is_group else part for is_group, part in parts)
        pieces += [subject[end : match.start()], piece]
        made += len(piece)
        check_text_length(made)
        end = match.end()
    return "".join(pieces) + subject[end:]


def _matches(pattern: re.Pattern[str], subject: str) -> Iterator[re.Match[str]]:
    """Yield the matches as Go finds them: an empty one right after another does not count."""
    end = -1
    for match in pattern.finditer(subject):
        if match.end() > match.start() or match.start() != end:
            yield match
        end = match.end()


def printf(layout: object, *values: object) -> str:
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


def _formatted(flags: str, width: str, precision: str | None, verb: str, value: object) -> str:
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


def _subject(text: object) -> str:
    subject = to_text(text)
    if len(subject) > LONGEST_SUBJECT:
        raise TemplateError(f"a text for a pattern is longer than {LONGEST_SUBJECT} characters")
    return subject


Parsed: TypeAlias = MutableSequence[tuple[object, Any]]
"""A pattern as Python's own parser has it: operations and their arguments."""


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    if len(pattern) > LONGEST_PATTERN:
        raise TemplateError(f"a pattern is longer than {LONGEST_PATTERN} characters")
    try:
        python = _ESCAPE.sub(_python_escape, _CLASS.sub(_class_members, pattern))
        tree = _parser.parse(python, re.ASCII if pattern.isascii() else 0)
        _refuse_dangerous(tree, repeated=False)
        if not tree.state.flags & re.MULTILINE:
            _end_at_end(tree)
        compiled: re.Pattern[str] = _compiler.compile(tree, tree.state.flags)
        return compiled
    except (re.error, OverflowError, RecursionError):
        raise TemplateError("a pattern is not a valid regular expression") from None


def _end_at_end(tree: Parsed) -> None:
    """Make `$` match at the end only, as in Go, and not before a last line break."""
    for place, (operation, argument) in enumerate(tree):
        if str(operation) == "AT" and str(argument) == "AT_END":
            tree[place] = (operation, _AT_END_STRING)
        if str(operation) == "SUBPATTERN" and argument[1] & re.MULTILINE:
            continue
        for child in _children(str(operation), argument):
            _end_at_end(child)


def _python_escape(found: re.Match[str]) -> str:
    r"""Return Go's `\z` as Python's `\Z`, which Go does not have; other escapes are the same."""
    if found[1] == "Z":
        raise TemplateError("a pattern uses \\Z; the end of the text is \\z or $")
    return r"\Z" if found[1] == "z" else found[0]


def _refuse_dangerous(tree: Parsed, *, repeated: bool) -> None:
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


def _children(name: str, argument: Sequence[Any]) -> Iterator[Parsed]:
    if name in _REPEATS:
        yield argument[2]
    elif name == "SUBPATTERN":
        yield argument[3]
    elif name == "BRANCH":
        yield from argument[1]
    elif name == "ATOMIC_GROUP":
        yield cast("Parsed", argument)


def _class_members(found: re.Match[str]) -> str:
    if found[1] not in _CLASSES:
        raise TemplateError(f"a pattern uses the class [:{found[1]}:], which is not supported")
    return _CLASSES[found[1]]


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
    "regexFindAll": regex_find_all,
    "regexSplit": regex_split,
    "regexReplaceAll": regex_replace_all,
    "regexReplaceAllLiteral": regex_replace_literal,
    "printf": printf,
}
