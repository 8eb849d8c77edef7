"""Label and field selectors: building the query text, parsing it, and matching objects here.

The grammar is apimachinery's: ``a=b``, ``a==b``, ``a!=b``, ``a in (b,c)``, ``a notin (b,c)``, ``a``,
``!a``, joined by commas; fields know only ``=``, ``==`` and ``!=``.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LabelSelector = str | Mapping[str, str | Sequence[str]]
"""Selector text, or labels that must all be equal (a sequence of values: any of them)."""
FieldSelector = str | Mapping[str, str]


class InvalidSelector(ValueError):
    """A selector that the server would refuse as well."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term. ``operator``: ``in``, ``notin``, ``exists`` or ``absent``."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if self.operator == "in":
            return value is not None and value in self.values
        if self.operator == "notin":
            return value is None or value not in self.values
        return (value is not None) == (self.operator == "exists")


_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9./_-]*[A-Za-z0-9])?"
_SET = re.compile(rf"({_NAME})\s+(in|notin)\s*\(([^()]*)\)")
_EQUAL = re.compile(rf"({_NAME})\s*(==|=|!=)\s*([A-Za-z0-9._-]*)")
_EXISTS = re.compile(rf"(!?)\s*({_NAME})")


def label_text(labels: LabelSelector | None) -> str:
    """The ``labelSelector`` query value; empty for none."""
    if labels is None or isinstance(labels, str):
        return labels or ""
    return ",".join(
        f"{key}={value}" if isinstance(value, str) else f"{key} in ({','.join(value)})"
        for key, value in labels.items()
    )


def field_text(fields: FieldSelector | None) -> str:
    """The ``fieldSelector`` query value; ``\\``, ``,`` and ``=`` in values are escaped."""
    if fields is None or isinstance(fields, str):
        return fields or ""
    return ",".join(f"{path}={_escape(value)}" for path, value in fields.items())


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Raises InvalidSelector."""
    found: list[Requirement] = []
    rest = text.strip()
    while rest:
        requirement, used = _term(rest, text)
        found.append(requirement)
        rest = rest[used:].lstrip()
        if rest and not rest.startswith(","):
            raise InvalidSelector(f"label selector {text!r}: unexpected {rest!r}")
        if rest:
            rest = rest[1:].lstrip()
            if not rest:
                raise InvalidSelector(f"label selector {text!r} ends with a comma")
    return tuple(found)


def _term(rest: str, text: str) -> tuple[Requirement, int]:
    if match := _SET.match(rest):
        key, operator, inner = match.groups()
        values = frozenset(value.strip() for value in inner.split(","))
        return Requirement(key, operator, values), match.end()
    if match := _EQUAL.match(rest):
        key, operator, value = match.groups()
        return Requirement(
            key, "notin" if operator == "!=" else "in", frozenset({value})
        ), match.end()
    if match := _EXISTS.match(rest):
        return Requirement(match[2], "absent" if match[1] else "exists"), match.end()
    raise InvalidSelector(f"label selector {text!r}: cannot read {rest!r}")


def label_matcher(labels: LabelSelector | None) -> Callable[[Mapping[str, str]], bool]:
    """A predicate on a label map."""
    requirements = parse_labels(label_text(labels))
    return lambda given: all(requirement.matches(given) for requirement in requirements)


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    path: tuple[str, ...]
    value: str
    negated: bool


def parse_fields(text: str) -> tuple[FieldRequirement, ...]:
    """Raises InvalidSelector."""
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
    """The value of a path as selectors see it: text, empty where absent."""
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
