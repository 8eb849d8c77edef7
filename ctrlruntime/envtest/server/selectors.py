"""Label and field selectors: parsed once, then plain predicates on stored objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.errors import StatusError, bad_request
from ctrlruntime.envtest.server.kinds import DEFAULT_FIELDS, Kind
from ctrlruntime.envtest.server.metadata import label_value, qualified_name

Labels = Mapping[str, str]
LabelTest = Callable[[Labels], bool]

_TOKENS: Final = re.compile(r"\s*(==|!=|=|!|,|\(|\)|>|<|[^\s=!,()<>]+)")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a label selector; `values` is empty for exists and absent."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Labels) -> bool:
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
            found.append(self.requirement())
            sign = self.next()
            if not sign:
                break
            if sign != ",":
                raise bad_request(f"found '{sign}', expected: ',' or 'end of string'")
            if self.peek() in {"", ","}:
                raise bad_request(f"found '{self.peek()}', expected: identifier after ','")
        return found

    def requirement(self) -> Requirement:
        absent = self.peek() == "!"
        if absent:
            self.next()
        key = self.next()
        if not key or key in ",()=!<>":
            raise _bad(f"found '{key}', expected: identifier")
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
            raise _bad(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
        value = "" if self.peek() in {"", ","} else self.next()
        _check_value(key, value)
        if operator in {">", "<"}:
            if not re.fullmatch(r"-?\d+", value):
                raise _bad(
                    f"values[0][{key}]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must be an integer"
                )
            return Requirement(key, operator, frozenset((value,)))
        return Requirement(key, "notin" if operator == "!=" else "in", frozenset((value,)))

    def values(self, key: str) -> list[str]:
        sign = self.next()
        if sign != "(":
            raise _bad(f"found '{sign}' expected: '('")
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
                raise _bad(f"found '{sign}', expected: ',' or ')'")


def _bad(text: str) -> StatusError:
    return bad_request(f"unable to parse requirement: {text}")


def _check_key(key: str) -> None:
    if texts := qualified_name(key):
        raise _bad(f'<nil>: Invalid value: "{key}": {texts[0]}')


def _check_value(key: str, value: str) -> None:
    if texts := label_value(value):
        raise _bad(f'values[0][{key}]: Invalid value: "{value}": {texts[0]}')


def parse_labels(text: str) -> LabelTest | None:
    """Return a predicate on labels; None selects everything. Raises BadRequest."""
    requirements = _Parser(text).parse()
    if not requirements:
        return None
    if len(requirements) == 1:
        return requirements[0].matches

    def test(labels: Labels) -> bool:
        return all(requirement.matches(labels) for requirement in requirements)

    return test


def matches_selector(selector: Mapping[str, Any], labels: Labels) -> bool:
    """Return a LabelSelector object (matchLabels, matchExpressions); an empty one matches everything."""
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for item in selector.get("matchExpressions") or ():
        operator = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}
        values = frozenset(item.get("values") or ())
        if not Requirement(item["key"], operator[item["operator"]], values).matches(labels):
            return False
    return True


@dataclass(frozen=True, slots=True)
class FieldTerm:
    field: str
    value: str
    equal: bool

    def matches(self, obj: Manifest) -> bool:
        return (field_value(obj, self.field) == self.value) is self.equal


def field_value(obj: Manifest, path: str) -> str:
    """Return the text a field selector compares; absent fields are empty."""
    if path in _RENAMED:
        path = _RENAMED[path]
    node: Any = obj
    for part in path.split("."):
        node = node.get(part) if isinstance(node, dict) else None
    if node is None:
        return _ZERO.get(path, "")
    if isinstance(node, bool):
        return "true" if node else "false"
    return str(node)


_RENAMED: Final = {
    "reportingController": "reportingComponent",
    "status.successful": "status.succeeded",
    "source": "source.component",
    "spec.hostNetwork": "spec.hostNetwork",
}
_ZERO: Final = {
    "spec.unschedulable": "false",
    "spec.hostNetwork": "false",
    "status.replicas": "0",
    "status.succeeded": "0",
}


def parse_fields(text: str, kind: Kind, selectable: tuple[str, ...]) -> list[FieldTerm]:
    """Terms of a field selector. Raises BadRequest for labels the kind does not have."""
    terms: list[FieldTerm] = []
    for part in re.split(r"(?<!\\),", text):
        if not part:
            continue
        match = re.match(r"(.*?)(==|!=|=)(.*)", part, re.DOTALL)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        field, operator, value = match.groups()
        if field not in selectable:
            raise bad_request(_unknown_field(field, kind))
        terms.append(FieldTerm(field, _unescape(value), operator != "!="))
    return terms


def _unescape(value: str) -> str:
    return re.sub(r"\\([\\,=])", r"\1", value)


def _unknown_field(field: str, kind: Kind) -> str:
    if kind.custom or set(kind.fields) - set(DEFAULT_FIELDS):
        return f"field label not supported: {field}"
    return f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'


@dataclass(frozen=True, slots=True)
class Selection:
    """What a list or watch selects, beyond the kind."""

    namespace: str = ""
    name: str = ""
    labels: LabelTest | None = None
    fields: tuple[FieldTerm, ...] = ()

    def matches(self, obj: Manifest) -> bool:
        metadata = obj["metadata"]
        if self.name and metadata["name"] != self.name:
            return False
        if self.namespace and metadata.get("namespace") != self.namespace:
            return False
        if self.labels is not None and not self.labels(metadata.get("labels") or {}):
            return False
        return all(term.matches(obj) for term in self.fields)

    @property
    def everything(self) -> bool:
        return not (self.name or self.labels or self.fields)


def selection(
    kind: Kind, selectable: tuple[str, ...], namespace: str, labels: str, fields: str
) -> Selection:
    terms = parse_fields(fields, kind, selectable) if fields else []
    name = ""
    rest: list[FieldTerm] = []
    for term in terms:
        if term.field == "metadata.name" and term.equal and not name:
            name = term.value
        elif term.field == "metadata.namespace" and term.equal and not namespace:
            namespace = term.value
        else:
            rest.append(term)
    test = parse_labels(labels) if labels else None
    return Selection(namespace, name, test, tuple(rest))
