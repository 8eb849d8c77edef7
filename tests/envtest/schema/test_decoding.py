"""Strict decoding, quantities, and the fields of built-in kinds."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.envtest.schema.builtin import (
    Definitions,
    UnknownKind,
    openapi_closure,
    openapi_definition,
)
from ctrlruntime.envtest.schema.quantity import QuantityError, canonical, value_of
from ctrlruntime.envtest.schema.registry import SchemaRegistry
from ctrlruntime.envtest.schema.strict import DecodeError, strict_decode

REGISTRY = SchemaRegistry()
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")


def test_duplicate_fields_are_named_and_the_last_one_wins() -> None:
    body = b'{"metadata":{"name":"a","name":"b"},"spec":{"size":1,"l":[{"x":1,"x":2}],"size":3}}'
    obj, found = strict_decode(body)
    assert obj == {"metadata": {"name": "b"}, "spec": {"size": 3, "l": [{"x": 2}]}}
    assert found == [
        'duplicate field "metadata.name"',
        'duplicate field "spec.size"',
        'duplicate field "spec.l[0].x"',
    ]
    assert strict_decode(b'{"a":"b:c","d":{"e":":"}}') == ({"a": "b:c", "d": {"e": ":"}}, [])


def test_yaml_is_read_as_json_with_duplicate_keys_by_line() -> None:
    body = b"kind: A\nspec:\n  size: 1\n  when: 2020-01-01\n  1: x\n  size: 2\n"
    obj, found = strict_decode(body, "application/yaml")
    assert obj == {"kind": "A", "spec": {"size": 2, "when": "2020-01-01", "1": "x"}}
    assert found == ['line 6: key "size" already set in map']
    for bad, kind in ((b"{", "application/json"), (b"a: [", "application/apply-patch+yaml")):
        with pytest.raises(DecodeError):
            strict_decode(bad, kind)


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("1000m", "1"),
        ("0.5", "500m"),
        (0.5, "500m"),
        (1, "1"),
        ("1024Mi", "1Gi"),
        ("1536Mi", "1536Mi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("100Ki", "100Ki"),
        ("1e3", "1e3"),
        ("1E", "1E"),
        ("12e6", "12e6"),
        ("1000k", "1M"),
        ("0", "0"),
        ("0m", "0"),
        ("-1500m", "-1500m"),
        ("+2", "2"),
        ("1.0000000001", "1000000001n"),
        ("3.", "3"),
        (".5", "500m"),
    ],
)
def test_quantities_are_stored_in_canonical_form(written: object, stored: str) -> None:
    assert canonical(written) == stored
    assert canonical(stored) == stored


@given(
    st.decimals(min_value=-(10**12), max_value=10**12, places=6),
    st.sampled_from(["", "m", "k", "M", "Ki", "Mi", "e3"]),
)
def test_the_canonical_form_keeps_the_value(number: Decimal, suffix: str) -> None:
    written = format(number, "f") + suffix
    stored = canonical(written)
    assert canonical(stored) == stored
    assert abs(value_of(stored) - value_of(written)) < Decimal("1E-9")


@pytest.mark.parametrize(
    "text", ["", "x", "1x", "1 Gi", "Ki", True, None, "1.2.3", "--1", "1e1830304", "9" * 90 + "Ki"]
)
def test_what_is_no_quantity_is_refused(text: object) -> None:
    with pytest.raises(QuantityError):
        canonical(text)


def test_fields_of_built_in_kinds() -> None:
    schema = REGISTRY.for_builtin(DEPLOYMENT)
    obj: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "x", "bogus": 1, "labels": {"any": "thing"}},
        "spec": {
            "replicas": 1,
            "foo": 1,
            "template": {
                "spec": {
                    "containers": [
                        {"name": "c", "imag": "i", "resources": {"limits": {"cpu": "1000m"}}}
                    ]
                }
            },
        },
    }
    unknown = ["metadata.bogus", "spec.foo", "spec.template.spec.containers[0].imag"]
    assert schema.unknown_fields(obj) == unknown
    assert schema.prune(obj) == unknown
    schema.normalize(obj)
    container = obj["spec"]["template"]["spec"]["containers"][0]
    assert container == {"name": "c", "resources": {"limits": {"cpu": "1"}}}
    assert schema.mismatch(obj) is None
    obj["spec"]["replicas"] = "x"
    assert schema.mismatch(obj) == (
        "json: cannot unmarshal string into Go struct field spec.replicas of type int32"
    )
    with pytest.raises(UnknownKind):
        REGISTRY.for_builtin(GroupVersionKind("apps", "v1", "Nothing"))


def test_openapi_definitions_are_complete_and_of_one_type_each() -> None:
    definition = openapi_definition(DEPLOYMENT, prefix="#/components/schemas/")
    spec = definition["properties"]["spec"]
    assert spec["$ref"] == "#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec"
    assert definition["properties"]["kind"]["type"] == "string"
    assert "enum" not in definition["properties"]["kind"]
    names = openapi_closure([DEPLOYMENT])
    assert "io.k8s.api.core.v1.PodSpec" in names
    assert orjson.dumps(definition)


class CountingDefinitions(Definitions):
    """Which definitions are read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: set[str] = set()

    def get(self, name: str) -> dict[str, Any]:
        self.read.add(name)
        return super().get(name)


def test_one_kind_costs_little() -> None:
    source = CountingDefinitions()
    SchemaRegistry(source).for_builtin(DEPLOYMENT).unknown_fields({"spec": {}})
    assert 0 < len(source.read) < len([*source.names()]) / 4
