"""Label and field selectors: building the query text, parsing it, and matching objects here.

The grammar is apimachinery's: ``a=b``, ``a==b``, ``a!=b``, ``a in (b,c)``, ``a notin (b,c)``, ``a``,
``!a``, ``a > 1``, ``a < 1``, joined by commas; fields know only ``=``, ``==`` and ``!=``.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ctrlruntime.api.name_rules import label_value, qualified_name

LabelSelector = str | Mapping[str, str | Sequence[str]]
"""Selector text, or labels that must all be equal (a sequence of values: any of them)."""
FieldSelector = str | Mapping[str, str]


class InvalidSelector(ValueError):
    """A selector that the server would refuse as well."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term. ``operator``: ``in``, ``notin``, ``exists``, ``absent``, ``>`` or ``<``."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "absent":
                return value is None
        return _compare(value, self.operator, next(iter(self.values)))


def _compare(value: str | None, operator: str, bound: str) -> bool:
    try:
        left, right = int(value or ""), int(bound)
    except ValueError:
        return False
    return left > right if operator == ">" else left < right


_TOKENS: Final = re.compile(r"\s*(==|!=|=|!|,|\(|\)|>|<|[^\s=!,()<>]+)")
_OPERATORS: Final = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}


def label_text(labels: LabelSelector | None) -> str:
    """Return the ``labelSelector`` query value; empty for none. Raises TypeError for values that are no text."""
    if labels is None or isinstance(labels, str):
        return labels or ""
    return ",".join(_equality(key, value) for key, value in labels.items())


def _equality(key: str, value: object) -> str:
    if isinstance(value, str):
        return f"{key}={value}"
    values = list(value) if isinstance(value, Iterable) else [value]
    texts = []
    for each in values:
        if not isinstance(each, str):
            raise TypeError(not_text("labels", key, each))
        texts.append(each)
    return f"{key} in ({','.join(texts)})"


def not_text(where: str, key: str, value: object) -> str:
    """Return the message for a value of labels or annotations that is not text."""
    return f'{where}: the value of {key!r} is {value!r}, not text: write "{value}"'


def field_text(fields: FieldSelector | None) -> str:
    r"""Return the ``fieldSelector`` query value; ``\``, ``,`` and ``=`` in values are escaped."""
    if fields is None or isinstance(fields, str):
        return fields or ""
    return ",".join(f"{path}={_escape(value)}" for path, value in fields.items())


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Raise InvalidSelector, with apimachinery's message, for what a server would refuse."""
    return tuple(_Parser(text).parse())


class _Parser:
    """Recursive descent over the tokens of a label selector, with apimachinery's messages."""

    def __init__(self, text: str) -> None:
        self.tokens = [match.group(1) for match in _TOKENS.finditer(text)]
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def parse(self) -> list[Requirement]:
        found: list[Requirement] = []
        while self.peek():
            if self.peek() in {",", "(", ")", "=", "==", "!=", "<", ">"}:
                raise InvalidSelector(
                    f"found '{self.peek()}', expected: !, identifier, or 'end of string'"
                )
            found.append(self.requirement())
            sign = self.next()
            if not sign:
                break
            if sign != ",":
                raise InvalidSelector(f"found '{sign}', expected: ',' or 'end of string'")
            if self.peek() in {"", ","}:
                raise InvalidSelector(f"found '{self.peek()}', expected: identifier after ','")
        return found

    def requirement(self) -> Requirement:
        absent = self.peek() == "!"
        if absent:
            self.next()
        key = self.next()
        if not key or key in ",()=!<>":
            raise _unreadable(f"found '{key}', expected: identifier")
        _check_key(key)
        if absent:
            return Requirement(key, "absent")
        if self.peek() in {"", ","}:
            return Requirement(key, "exists")
        return self.comparison(key)

    def comparison(self, key: str) -> Requirement:
        operator = self.next()
        if operator in {"in", "notin"}:
            return Requirement(key, operator, frozenset(self.values(key)))
        if operator not in {"=", "==", "!=", ">", "<"}:
            raise _unreadable(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
        value = "" if self.peek() in {"", ","} else self.next()
        _check_value(key, value)
        if operator in {">", "<"}:
            if not re.fullmatch(r"-?\d+", value):
                raise _unreadable(
                    f"values[0]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must be an integer"
                )
            return Requirement(key, operator, frozenset((value,)))
        return Requirement(key, "notin" if operator == "!=" else "in", frozenset((value,)))

    def values(self, key: str) -> list[str]:
        sign = self.next()
        if sign != "(":
            raise _unreadable(f"found '{sign}' expected: '('")
        found: list[str] = []
        while True:
            if self.peek() in {",", ")"}:
                found.append("")
            else:
                found.append(self.next())
                _check_value(key, found[-1])
            sign = self.next()
            if sign == ")":
                return found
            if sign != ",":
                raise _unreadable(f"found '{sign}', expected: ',' or ')'")


def _unreadable(text: str) -> InvalidSelector:
    return InvalidSelector(f"unable to parse requirement: {text}")


def _check_key(key: str) -> None:
    if texts := qualified_name(key):
        raise _unreadable(f'<nil>: Invalid value: "{key}": {texts[0]}')


def _check_value(key: str, value: str) -> None:
    if texts := label_value(value):
        raise _unreadable(f'values[0][{key}]: Invalid value: "{value}": {texts[0]}')


def selector_matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether a LabelSelector (matchLabels, matchExpressions) matches; an empty one matches everything.

    One that a server would refuse matches nothing.
    """
    wanted = selector.get("matchLabels") or {}
    expressions = selector.get("matchExpressions") or ()
    if not isinstance(wanted, Mapping) or not isinstance(expressions, Sequence):
        return False
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        isinstance(each, Mapping) and _expression_matches(each, labels) for each in expressions
    )


def _expression_matches(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, operator = expression.get("key"), _OPERATORS.get(expression.get("operator", ""))
    values = expression.get("values") or ()
    if operator is None or not isinstance(key, str) or not isinstance(values, Sequence):
        return False
    texts = frozenset(each for each in values if isinstance(each, str))
    return Requirement(key, operator, texts).matches(labels)


def label_matcher(labels: LabelSelector | None) -> Callable[[Mapping[str, str]], bool]:
    """Return a predicate on a label map."""
    requirements = parse_labels(label_text(labels))
    return lambda given: all(requirement.matches(given) for requirement in requirements)


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One term of a field selector."""

    path: tuple[str, ...]
    value: str
    negated: bool


def parse_fields(text: str) -> tuple[FieldRequirement, ...]:
    """Raise InvalidSelector."""
    found = []
    for term in _split_unescaped(text, ","):
        if not term.strip():
            continue
        match = re.match(r"\s*([A-Za-z0-9_.\[\]'/-]+?)\s*(!=|==|=)(.*)$", term, re.DOTALL)
        if match is None:
            raise InvalidSelector(f"field selector {text!r}: cannot read {term!r}")
        path, operator, value = match.groups()
        found.append(
            FieldRequirement(tuple(path.split(".")), _unescape(value.strip()), operator == "!=")
        )
    return tuple(found)


def field_value(manifest: Mapping[str, Any], path: tuple[str, ...]) -> str:
    """Return the value of a path as selectors see it: text, empty where absent."""
    node: Any = manifest
    for part in path:
        node = node.get(part) if isinstance(node, Mapping) else None
    if node is None:
        return ""
    if isinstance(node, bool):
        return "true" if node else "false"
    return str(node)


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def _unescape(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value)


def _split_unescaped(text: str, separator: str) -> list[str]:
    parts = [""]
    escaped = False
    for char in text:
        if char == separator and not escaped:
            parts.append("")
            continue
        escaped = char == "\\" and not escaped
        parts[-1] += char
    return parts
