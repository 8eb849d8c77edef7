"""Custom kinds for the differential test: sets and maps, trees, free-form contents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tests.differential.subject import Manifest, Subject, items, pick

GROUP = "differential.example.com"
_STRING: Manifest = {"type": "string"}
_MAP: Manifest = {"x-kubernetes-list-type": "map"}


def _object(required: Sequence[str] = (), **properties: Manifest) -> Manifest:
    schema: Manifest = {"type": "object", "properties": properties}
    return {**schema, "required": list(required)} if required else schema


def _list(element: Manifest, **more: object) -> Manifest:
    return {"type": "array", "items": element, **more}


_SHELF = _object(
    spec=_object(
        tags=_list(_STRING, **{"x-kubernetes-list-type": "set"}, maxItems=4),
        numbers=_list({"type": "integer"}, **{"x-kubernetes-list-type": "set"}),
        ports=_list(
            _object(
                ["port"],
                port={"type": "integer", "minimum": 1},
                protocol={"type": "string", "default": "TCP"},
                note=_STRING,
                inner=_object(a=_STRING, b=_STRING),
            ),
            **_MAP,
            **{"x-kubernetes-list-map-keys": ["port", "protocol"]},
        ),
        named=_list(
            _object(["name"], name=_STRING, value={"x-kubernetes-int-or-string": True}),
            **_MAP,
            **{"x-kubernetes-list-map-keys": ["name"]},
        ),
        plain=_list(_STRING),
    ),
    status=_object(
        conditions=_list(
            _object(["type", "status"], type=_STRING, status=_STRING, reason=_STRING),
            **_MAP,
            **{"x-kubernetes-list-map-keys": ["type"]},
        ),
        phase={"type": "string", "enum": ["A", "B"]},
    ),
)
SHELF = Subject(
    f"{GROUP}/v1",
    "Shelf",
    "shelves",
    {"spec": {}},
    [
        items("spec.tags", "a", "b", "c", "d"),
        items("spec.numbers", 1, 2, 3),
        items(
            "spec.ports",
            {"port": 80, "protocol": "TCP", "note": "x"},
            {"port": 80, "protocol": "UDP", "inner": {"a": "1"}},
            {"port": 81, "protocol": "TCP", "inner": {"b": "1"}},
            {"port": 81, "inner": {"a": "2"}},
        ),
        items(
            "spec.named",
            {"name": "a", "value": 1},
            {"name": "b", "value": "x"},
            {"name": "a", "value": "1"},
            {"name": "c"},
        ),
        items("spec.plain", "a", "b", "a"),
    ],
    [
        {"spec": {"tags": ["a", "a"]}},
        {"spec": {"tags": [1]}},
        {"spec": {"tags": "a"}},
        {"spec": {"ports": [{"port": 0}]}},
        {"spec": {"ports": [{"note": "x"}]}},
        {"spec": {"ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]}},
        {"spec": {"named": [{"name": "a", "value": []}]}},
        {"spec": {"named": [{"name": "a"}, {"name": "a"}]}},
        {"spec": {"tags": ["a", "b", "c", "d", "e"]}},
        {"spec": {"plain": [None]}},
        {"spec": {"tags": None}},
        {"spec": {"ports": None}},
    ],
    status=[
        items(
            "status.conditions",
            {"type": "A", "status": "True"},
            {"type": "B", "status": "False", "reason": "x"},
        ),
        pick("status.phase", "A", "B", "C", None),
    ],
    custom=True,
)
_TREE = _object(
    ["spec"],
    spec=_object(
        ["size"],
        size={"type": "integer", "minimum": 1, "maximum": 9},
        color={"type": "string", "default": "red", "enum": ["red", "green"]},
        amount={"x-kubernetes-int-or-string": True},
        maybe={"type": "string", "nullable": True},
        name={"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
        branch=_object(
            left=_object(a=_STRING, b={"type": "integer", "default": 7}),
            right=_object(a=_STRING),
        ),
        atom={**_object(a=_STRING, b=_STRING), "x-kubernetes-map-type": "atomic"},
        labels={"type": "object", "additionalProperties": _STRING},
        deep={"type": "object", "additionalProperties": _object(a=_STRING, b=_STRING)},
        fixed={
            "type": "string",
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is fixed"}],
        },
    ),
    status=_object(count={"type": "integer"}),
)
TREE = Subject(
    f"{GROUP}/v1",
    "Tree",
    "trees",
    {"spec": {"size": 1}},
    [
        pick("spec.size", 1, 2, 3),
        pick("spec.color", "red", "green"),
        pick("spec.amount", 1, "1", "50%"),
        pick("spec.maybe", "x", None),
        pick("spec.branch.left", {"a": "1"}, {"a": "2", "b": 1}, {}),
        pick("spec.branch", {"right": {"a": "1"}}, {"left": {"b": 2}}),
        pick("spec.atom", {"a": "1"}, {"b": "1"}, {}),
        pick("spec.labels", {"a": "1"}, {"b": "1", "c": "1"}, {"a": "2"}),
        pick("spec.deep", {"k": {"a": "1"}}, {"k": {"b": "1"}, "l": {}}),
        pick("spec.fixed", "f"),
    ],
    [
        {"spec": {"size": 10}},
        {"spec": {"size": "1"}},
        {"spec": {"size": 1.5}},
        {"spec": {"size": None}},
        {"spec": {"color": "blue"}},
        {"spec": {"color": None}},
        {"spec": {"name": "abcdef"}},
        {"spec": {"name": "A"}},
        {"spec": {"amount": True}},
        {"spec": {"branch": "x"}},
        {"spec": {"branch": {"left": None}}},
        {"spec": {"labels": {"a": 1}}},
        {"spec": {"labels": {"a": None}}},
        {"spec": {"fixed": "g"}},
        {"spec": {"size": 0, "color": "x", "name": "A1"}},
        {"spec": None},
    ],
    status=[pick("status.count", 1, 2, "x", None)],
    custom=True,
)
_BAG = _object(
    spec=_object(
        free={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        half={
            **_object(known=_object(a=_STRING)),
            "x-kubernetes-preserve-unknown-fields": True,
        },
        nested={
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
        rows=_list(_object(a=_STRING, b={"type": "integer"})),
    ),
    status={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
)
BAG = Subject(
    f"{GROUP}/v1",
    "Bag",
    "bags",
    {},
    [
        pick("spec.free", {"a": 1}, {"a": {"b": 1}}, {"c": [1, {"x": 1}]}, {"a": {"d": {}}}),
        pick("spec.half", {"known": {"a": "1"}}, {"x": 1}, {"x": {"y": 1}, "known": {}}),
        items("spec.rows", {"a": "1"}, {"b": 2}, {}),
        pick(
            "spec.nested",
            {"apiVersion": "v1", "kind": "X", "metadata": {"name": "n"}},
            {"apiVersion": "v1", "kind": "X", "data": {"a": 1}},
        ),
        pick("status", {"a": 1}, {"b": {"c": 1}}),
    ],
    [
        {"spec": {"free": 1}},
        {"spec": {"free": None}},
        {"spec": {"free": {"a": None}}},
        {"spec": {"half": {"known": {"a": 1}}}},
        {"spec": {"nested": {"data": 1}}},
        {"spec": {"nested": {"apiVersion": "v1", "kind": "X", "metadata": {"name": 1}}}},
        {"spec": {"nested": {"apiVersion": "v1", "kind": "X", "metadata": {"bogus": 1}}}},
        {"spec": {"rows": [1]}},
        {"spec": {"rows": [None]}},
    ],
    custom=True,
)
ALL: Sequence[Subject] = (SHELF, TREE, BAG)


SCHEMAS: Final[Mapping[str, Manifest]] = {
    "Shelf": _SHELF,
    "Tree": _TREE,
    "Bag": _BAG,
}
"""Schemas by kind."""


def definition(subject: Subject) -> Manifest:
    """The CustomResourceDefinition of one of the kinds; some have no status subresource."""
    schema = SCHEMAS[subject.kind]
    version: Manifest = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    if subject.status:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{subject.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": subject.plural, "kind": subject.kind},
            "versions": [version],
        },
    }
