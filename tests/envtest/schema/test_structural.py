"""Defaulting, pruning, updates and rules of custom resources."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlruntime.envtest.schema.cel import check_rules
from ctrlruntime.envtest.schema.registry import SchemaRegistry, TypeSchema
from tests.envtest.merge.widgets import SCHEMA, applied

REGISTRY = SchemaRegistry()
_SEEDS = st.integers(min_value=0, max_value=2**32)


def _object(spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "a"}, "spec": spec}


def _schema(**properties: object) -> TypeSchema:
    return REGISTRY.for_crd_version(
        {
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": properties}},
        }
    )


@settings(max_examples=100, deadline=None)
@given(_SEEDS)
def test_defaulting_and_pruning_twice_is_once(seed: int) -> None:
    schema = REGISTRY.for_crd_version(SCHEMA)
    obj = applied(random.Random(seed), "w")
    obj.setdefault("spec", {})["unknown"] = {"a": 1}
    assert schema.prune(obj) == ["spec.unknown"]
    schema.default(obj)
    once = copy.deepcopy(obj)
    assert schema.prune(obj) == []
    schema.default(obj)
    assert obj == once
    assert schema.unknown_fields(obj) == []


def test_defaults_fill_maps_lists_and_nulls_but_do_not_reach_into_absent_parents() -> None:
    schema = _schema(
        list={
            "type": "array",
            "items": {"type": "object", "properties": {"w": {"type": "integer", "default": 1}}},
        },
        map={
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {"w": {"type": "integer", "default": 2}},
            },
        },
        absent={"type": "object", "properties": {"w": {"type": "integer", "default": 3}}},
        given={
            "type": "object",
            "default": {},
            "properties": {"w": {"type": "integer", "default": 4}},
        },
        word={"type": "string", "default": "x"},
        may={"type": "string", "default": "x", "nullable": True},
    )
    obj = _object({"list": [{}, {"w": 9}], "map": {"k": {}}, "word": None, "may": None})
    schema.default(obj)
    assert obj["spec"] == {
        "list": [{"w": 1}, {"w": 9}],
        "map": {"k": {"w": 2}},
        "given": {"w": 4},
        "word": "x",
        "may": None,
    }


def test_unknown_fields_are_named_by_path_metadata_included() -> None:
    schema = _schema(
        open={
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"known": {"type": "object", "properties": {"a": {"type": "string"}}}},
        },
        list={
            "type": "array",
            "items": {"type": "object", "properties": {"a": {"type": "string"}}},
        },
        template={
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
    )
    obj = _object(
        {
            "open": {"free": 1, "known": {"a": "x", "b": 1}},
            "list": [{"a": "x", "z": 1}],
            "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"bogus": 1}, "x": 1},
            "bogus": 1,
        }
    )
    obj["extra"] = 1
    obj["metadata"]["bogus"] = 1
    expected = [
        "extra",
        "metadata.bogus",
        "spec.bogus",
        "spec.list[0].z",
        "spec.open.known.b",
        "spec.template.metadata.bogus",
    ]
    assert schema.unknown_fields(obj) == expected
    assert schema.prune(obj) == expected
    assert schema.unknown_fields(obj) == []
    assert obj["spec"]["open"]["free"] == 1


def test_an_unchanged_invalid_value_is_tolerated_on_update() -> None:
    schema = _schema(
        a={"type": "string", "enum": ["x"]},
        b={"type": "string"},
        list={
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["n"],
            "items": {
                "type": "object",
                "required": ["n"],
                "properties": {"n": {"type": "string"}, "v": {"type": "integer", "maximum": 1}},
            },
        },
    )
    old = _object({"a": "zzz", "list": [{"n": "i", "v": 5}]})
    new = _object({"a": "zzz", "b": "1", "list": [{"n": "j", "v": 1}, {"n": "i", "v": 5}]})
    assert [cause.field for cause in schema.validate(new)] == ["spec.a", "spec.list[1].v"]
    assert schema.validate(new, old) == []
    assert [c.field for c in schema.validate(_object({"a": "yyy"}), old)] == ["spec.a"]


def test_duplicates_are_tolerated_on_update_where_there_were_some() -> None:
    tags = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}
    schema = _schema(tags=tags, b={"type": "string"})
    old = _object({"tags": ["a", "a"]})
    assert schema.validate(_object({"tags": ["c", "c"], "b": "1"}), old) == []
    fine = _object({"tags": ["a"]})
    found = schema.validate(_object({"tags": ["q", "q"]}), fine)
    assert [str(cause) for cause in found] == ['spec.tags[1]: Duplicate value: "q"']


def test_items_of_atomic_lists_are_checked_anew_when_the_list_changes() -> None:
    items = {"type": "object", "properties": {"v": {"type": "integer", "maximum": 3}}}
    schema = _schema(m={"type": "array", "items": items}, b={"type": "string"})
    old = _object({"m": [{"v": 5}]})
    assert schema.validate(_object({"m": [{"v": 5}], "b": "1"}), old) == []
    found = schema.validate(_object({"m": [{"v": 5}, {"v": 1}]}), old)
    assert [cause.field for cause in found] == ["spec.m[0].v"]


def test_transition_rules_run_only_where_the_old_value_is_known() -> None:
    rule = {"rule": "self == oldSelf", "message": "immutable"}
    optional = {
        "rule": "oldSelf.hasValue() ? oldSelf.value() == self : self == 'first'",
        "optionalOldSelf": True,
        "message": "fixed",
    }
    schema = _schema(
        once={"type": "string", "x-kubernetes-validations": [rule]},
        opt={"type": "string", "x-kubernetes-validations": [optional]},
        list={
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["n"],
            "items": {
                "type": "object",
                "required": ["n"],
                "properties": {
                    "n": {"type": "string"},
                    "v": {"type": "integer", "x-kubernetes-validations": [rule]},
                },
            },
        },
    )

    def broken(new: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
        before = None if old is None else _object(old)
        return [str(cause) for cause in schema.validate(_object(new), before)]

    assert broken({"once": "a"}) == []
    assert broken({"once": "a"}, {}) == []
    assert broken({}, {"once": "a"}) == []
    assert broken({"once": "b"}, {"once": "a"}) == ['spec.once: Invalid value: "b": immutable']
    assert broken({"opt": "second"}) == ['spec.opt: Invalid value: "second": fixed']
    assert broken({"opt": "second"}, {"opt": "first"}) == [
        'spec.opt: Invalid value: "second": fixed'
    ]
    old = {"list": [{"n": "a", "v": 1}, {"n": "b", "v": 2}]}
    new = {"list": [{"n": "b", "v": 2}, {"n": "a", "v": 9}, {"n": "c", "v": 3}]}
    assert broken(new, old) == ["spec.list[1].v: Invalid value: 9: immutable"]


@pytest.mark.parametrize(
    "rule",
    [
        "self.a.lowerAscii() == 'x' && self.a.find('[a-z]+') == 'x'",
        "'%s-%d'.format([self.a, 3]) == 'x-3' && self.a.size() == 1",
        "quantity('1500m').add(quantity('500m')) == quantity('2')",
        "quantity('1Gi').compareTo(quantity('1024Mi')) == 0 && quantity('2').asInteger() == 2",
        "[1, 2, 3].isSorted() && [1, 2].sum() == 3 && [3, 1].min() == 1 && [3, 1].max() == 3",
        "[1, 2].indexOf(2) == 1 && 'abc'.indexOf('c') == 2 && [1, 1].lastIndexOf(1) == 1",
        "'a1b22'.findAll('[0-9]+') == ['1', '22']",
        "sets.contains([1, 2], [2]) && sets.intersects([1], [1, 2])",
        "'size( )' == 'size(' + ' )' && 'äö'.size() == 2",
        "self.foo__dash__bar == 1 && self.__namespace__ == 2 && self.ratio / 2.0 == 0.5",
    ],
)
def test_the_kubernetes_library(rule: str) -> None:
    spec = {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "foo-bar": {"type": "integer"},
            "namespace": {"type": "integer"},
            "ratio": {"type": "number"},
        },
        "x-kubernetes-validations": [{"rule": rule}],
    }
    raw = {"type": "object", "properties": {"spec": spec}}
    assert check_rules(raw) == []
    obj = _object({"a": "x", "foo-bar": 1, "namespace": 2, "ratio": 1})
    assert REGISTRY.for_crd_version(raw).validate(obj) == []


@pytest.mark.parametrize(
    "rule",
    [
        "self.frob()",
        "self.?a.orValue('') == ''",
        "['a'].all(i, v, v == 'a')",
        "cel.bind(x, 1, x == 1)",
        "[1].transformList(i, v, v).size() == 1",
        "other == 1",
        "self.a ==",
    ],
)
def test_a_rule_that_cannot_be_run_is_refused_when_the_crd_is_created(rule: str) -> None:
    spec = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "x-kubernetes-validations": [{"rule": rule}],
    }
    causes = check_rules({"type": "object", "properties": {"spec": spec}})
    assert [cause.field for cause in causes] == [
        "openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule"
    ]
    assert "compilation failed" in causes[0].message


@pytest.mark.parametrize(
    ("rule", "function"),
    [
        ("ip(self.a).family() == 4", "ip"),
        ("isIP(self.a)", "isIP"),
        ("cidr(self.a).containsIP('10.1.2.3')", "cidr"),
        ("isURL(self.a) && self.a.size() > 9", "isURL"),
        ("url(self.a).getScheme() == 'https'", "url"),
        ("semver('1.10.0').isLessThan(semver(self.a))", "semver"),
    ],
)
def test_a_function_for_addresses_urls_or_versions_is_refused_with_the_way_out(
    rule: str, function: str
) -> None:
    spec = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "x-kubernetes-validations": [{"rule": rule}],
    }
    (cause,) = check_rules({"type": "object", "properties": {"spec": spec}})
    assert cause.field == "openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule"
    assert f"does not carry '{function}'" in cause.message
    assert "test this definition on kube-apiserver" in cause.message
