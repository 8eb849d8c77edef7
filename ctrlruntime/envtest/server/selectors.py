"""Label and field selectors: parsed once, then plain predicates on stored objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.client import selectors
from ctrlruntime.envtest.server.errors import bad_request
from ctrlruntime.envtest.server.kinds import DEFAULT_FIELDS, Kind
from ctrlruntime.envtest.server.shards import ShardRanges

Labels = Mapping[str, str]
LabelTest = Callable[[Labels], bool]


def parse_labels(text: str) -> LabelTest | None:
    """Return a predicate on labels; None selects everything. Raises BadRequest."""
    try:
        requirements = selectors.parse_labels(text)
    except selectors.InvalidSelector as error:
        raise bad_request(str(error)) from None
    if not requirements:
        return None
    if len(requirements) == 1:
        return requirements[0].matches

    def test(labels: Labels) -> bool:
        return all(requirement.matches(labels) for requirement in requirements)

    return test


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
    shards: ShardRanges | None = None

    def matches(self, obj: Manifest) -> bool:
        metadata = obj["metadata"]
        if self.name and metadata["name"] != self.name:
            return False
        if self.namespace and metadata.get("namespace") != self.namespace:
            return False
        if self.labels is not None and not self.labels(metadata.get("labels") or {}):
            return False
        if self.shards is not None and not self.shards.matches(obj):
            return False
        return all(term.matches(obj) for term in self.fields)

    @property
    def everything(self) -> bool:
        return not (self.name or self.labels or self.fields or self.shards)


def selection(
    kind: Kind,
    selectable: tuple[str, ...],
    namespace: str,
    labels: str,
    fields: str,
    shards: ShardRanges | None = None,
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
    return Selection(namespace, name, test, tuple(rest), shards)
