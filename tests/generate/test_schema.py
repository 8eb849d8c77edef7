"""From pydantic types to structural schemas: one test for each row of the mapping."""

from __future__ import annotations

import itertools
import warnings
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from ipaddress import IPv4Address
from typing import Annotated, Any, Literal, TypedDict, Unpack

import jsonschema_rs
import pytest
from pydantic import Base64Bytes, ConfigDict, Field

from ctrlruntime.api import (
    CEL,
    ApiModel,
    Atomic,
    Conditions,
    Duration,
    EmbeddedResource,
    Immutable,
    Int32,
    IntOrString,
    ListMap,
    ListSet,
    MapAtomic,
    MicroTime,
    Nullable,
    ObjectMeta,
    PreserveUnknown,
    PrintColumn,
    Quantity,
    RawExtension,
    Resource,
    SelectableField,
    Time,
    at_least_one_of,
    at_most_one_of,
    exactly_one_of,
)
from ctrlruntime.generate import SchemaError, SchemaOptions, SchemaWarning, crd_of
from ctrlruntime.json import Json

_counter = itertools.count()


class KindOptions(TypedDict, total=False):
    bases: tuple[type, ...]
    default: object
    rules: tuple[CEL, ...]


class SchemaOfOptions(KindOptions, total=False):
    allow_floats: bool


def kind_of(
    annotation: object,
    *,
    bases: tuple[type, ...] = (ApiModel,),
    default: object = ...,
    **more: object,
) -> type[Resource[Any, Any]]:
    """A kind whose spec has one field ``value`` of the annotation."""
    namespace: dict[str, object] = {
        "__annotations__": {"value": annotation},
        "__module__": __name__,
    }
    if default is not ...:
        namespace["value"] = default
    spec = type(f"Spec{next(_counter)}", bases, namespace, **more)
    base: Any = Resource.__class_getitem__(spec)
    return type("Thing", (base,), {"__module__": __name__}, group="a.b", version="v1")


def spec_schema(
    annotation: object, *, allow_floats: bool = False, **more: Unpack[KindOptions]
) -> dict[str, Any]:
    options = SchemaOptions(allow_floats=allow_floats)
    crd = crd_of([kind_of(annotation, **more)], options)
    schema: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    spec: dict[str, Any] = schema["properties"]["spec"]
    return spec


def field_schema(annotation: object, **more: Unpack[SchemaOfOptions]) -> Json:
    return spec_schema(annotation, **more)["properties"]["value"]


class Color(StrEnum):
    """Colours."""

    RED = "red"
    BLUE = "blue"


class Port(ApiModel):
    name: str
    number: Int32 = 80


class Open(ApiModel):
    model_config = ConfigDict(extra="allow")

    known: str


INT64 = {"type": "integer", "format": "int64"}
STRING = {"type": "string"}
DURATION = r"^[+-]?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$"
PORT = {
    "type": "object",
    "properties": {
        "name": STRING,
        "number": {"type": "integer", "format": "int32", "default": 80},
    },
    "required": ["name"],
}


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, STRING),
        (bool, {"type": "boolean"}),
        (int, INT64),
        (Int32, {"type": "integer", "format": "int32"}),
        (Annotated[int, Field(ge=1, le=5)], {**INT64, "minimum": 1, "maximum": 5}),
        (
            Annotated[int, Field(gt=0, lt=9)],
            {
                **INT64,
                "minimum": 0,
                "exclusiveMinimum": True,
                "maximum": 9,
                "exclusiveMaximum": True,
            },
        ),
        (Annotated[int, Field(gt=0, ge=3)], {**INT64, "minimum": 3}),
        (Annotated[int, Field(multiple_of=4)], {**INT64, "multipleOf": 4}),
        (
            Annotated[str, Field(min_length=1, max_length=5, pattern="^a+$")],
            {**STRING, "minLength": 1, "maxLength": 5, "pattern": "^a+$"},
        ),
        (Literal["a", "b"], {**STRING, "enum": ["a", "b"]}),
        (Literal["a"], {**STRING, "enum": ["a"]}),
        (Literal[1, 2], {"type": "integer", "enum": [1, 2]}),
        (Color, {**STRING, "enum": ["red", "blue"], "description": "Colours."}),
        (list[str], {"type": "array", "items": STRING}),
        (
            Annotated[list[Annotated[str, Field(min_length=1)]], Field(max_length=3)],
            {"type": "array", "items": {**STRING, "minLength": 1}, "maxItems": 3},
        ),
        (set[str], {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}),
        (
            Annotated[list[str], ListSet()],
            {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
        ),
        (
            Annotated[list[str], Atomic()],
            {"type": "array", "items": STRING, "x-kubernetes-list-type": "atomic"},
        ),
        (
            Annotated[list[Port], ListMap("name")],
            {
                "type": "array",
                "items": PORT,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
        (dict[str, int], {"type": "object", "additionalProperties": INT64}),
        (
            Annotated[dict[str, str], Field(min_length=1, max_length=2)],
            {
                "type": "object",
                "additionalProperties": STRING,
                "minProperties": 1,
                "maxProperties": 2,
            },
        ),
        (Port, PORT),
        (Annotated[Port, MapAtomic()], {**PORT, "x-kubernetes-map-type": "atomic"}),
        (
            Open,
            {
                "type": "object",
                "properties": {"known": STRING},
                "required": ["known"],
                "x-kubernetes-preserve-unknown-fields": True,
            },
        ),
        (
            Annotated[Port, PreserveUnknown()],
            {**PORT, "x-kubernetes-preserve-unknown-fields": True},
        ),
        (dict[str, Any], {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        (RawExtension, {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        (
            EmbeddedResource,
            {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
            },
        ),
        (Any, {"x-kubernetes-preserve-unknown-fields": True}),
        (
            IntOrString,
            {
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "x-kubernetes-int-or-string": True,
            },
        ),
        (Time, {**STRING, "format": "date-time"}),
        (MicroTime, {**STRING, "format": "date-time"}),
        (datetime, {**STRING, "format": "date-time"}),
        (Duration, {**STRING, "pattern": DURATION}),
        (Base64Bytes, {**STRING, "format": "byte"}),
        (Nullable[str], {**STRING, "nullable": True}),  # type: ignore[misc]  # an alias, subscripted in an expression
        (
            Annotated[str, CEL("self != 'x'", message="no x", reason="FieldValueForbidden")],
            {
                **STRING,
                "x-kubernetes-validations": [
                    {"rule": "self != 'x'", "message": "no x", "reason": "FieldValueForbidden"}
                ],
            },
        ),
        (
            Annotated[
                str,
                CEL(
                    "self.startsWith(oldSelf)",
                    message_expression="'not ' + self",
                    field_path=".x",
                    optional_old_self=True,
                ),
            ],
            {
                **STRING,
                "x-kubernetes-validations": [
                    {
                        "rule": "self.startsWith(oldSelf)",
                        "messageExpression": "'not ' + self",
                        "fieldPath": ".x",
                        "optionalOldSelf": True,
                    }
                ],
            },
        ),
        (Annotated[str, Field(examples=["e"])], {**STRING, "example": "e"}),
        (
            Annotated[str, Field(json_schema_extra={"externalDocs": {"url": "https://a.b"}})],
            {**STRING, "externalDocs": {"url": "https://a.b"}},
        ),
        (Annotated[str, Field(json_schema_extra={"format": "cidr"})], {**STRING, "format": "cidr"}),
        (IPv4Address, {**STRING, "format": "ipv4"}),
        (date, {**STRING, "format": "date"}),
        (ObjectMeta, {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        (
            Annotated[list[str], Field(min_length=1, max_length=3)],
            {"type": "array", "items": STRING, "minItems": 1, "maxItems": 3},
        ),
        (
            Annotated[dict[str, str], MapAtomic()],
            {
                "type": "object",
                "additionalProperties": STRING,
                "x-kubernetes-map-type": "atomic",
            },
        ),
        (
            Annotated[list[Port], ListMap("name", "number")],
            {
                "type": "array",
                "items": PORT,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name", "number"],
            },
        ),
        (Annotated[str, Field(title="T")], {**STRING, "title": "T"}),
    ],
)
def test_a_type_has_its_structural_form(annotation: object, schema: dict[str, Any]) -> None:
    assert field_schema(annotation) == schema


def test_a_quantity_is_int_or_string_with_a_pattern() -> None:
    schema = field_schema(Quantity)
    assert schema["x-kubernetes-int-or-string"]
    assert schema["anyOf"] == [{"type": "integer"}, {"type": "string"}]
    for text in ("1", "500m", "1.5Gi", "1e3", "-2"):
        assert jsonschema_rs.is_valid(schema, text)
    assert not jsonschema_rs.is_valid(schema, "1 Gi")


class TestOptionalAndNullable:
    def test_a_field_without_default_is_required(self) -> None:
        assert spec_schema(str)["required"] == ["value"]

    @pytest.mark.parametrize("annotation", [str | None, Port | None])
    def test_an_optional_field_is_neither_required_nor_nullable(self, annotation: object) -> None:
        schema = spec_schema(annotation, default=None)
        assert "required" not in schema
        assert "nullable" not in schema["properties"]["value"]
        assert "default" not in schema["properties"]["value"]

    def test_a_nullable_field_can_be_optional_too(self) -> None:
        schema = spec_schema(Nullable[Port], default=None)  # type: ignore[misc]
        assert "required" not in schema
        assert schema["properties"]["value"] == {**PORT, "nullable": True}


class TestDefaults:
    def test_a_default_is_written_under_its_wire_form(self) -> None:
        assert field_schema(Color, default=Color.RED)["default"] == "red"
        assert field_schema(int, default=0)["default"] == 0
        assert field_schema(bool, default=False)["default"] is False
        assert field_schema(list[str], default=["a"])["default"] == ["a"]
        assert field_schema(Duration, default=timedelta(minutes=1))["default"] == "1m0s"

    def test_an_empty_list_or_map_has_no_meaning(self) -> None:
        assert "default" not in field_schema(list[str], default=[])
        assert "default" not in field_schema(dict[str, str], default={})

    def test_a_factory_is_evaluated(self) -> None:
        made = field_schema(list[str], default=Field(default_factory=lambda: ["b", "a"]))
        assert made["default"] == ["b", "a"]

    def test_a_factory_that_varies_is_refused(self) -> None:
        counter = itertools.count()
        with pytest.raises(SchemaError, match="another value each time"):
            field_schema(int, default=Field(default_factory=lambda: next(counter)))

    def test_a_factory_that_reads_other_fields_is_refused(self) -> None:
        with pytest.raises(SchemaError, match="depends on other fields"):
            field_schema(int, default=Field(default_factory=lambda data: len(data)))

    def test_a_nested_default_reaches_through_its_parent(self) -> None:
        class Inner(ApiModel):
            size: int = 3

        schema = field_schema(Inner, default=Field(default_factory=Inner))
        assert schema["default"] == {}
        assert schema["properties"]["size"]["default"] == 3
        assert field_schema(Inner, default=Inner(size=4))["default"] == {"size": 4}

    def test_a_status_has_none(self) -> None:
        class Status(ApiModel):
            ready: int = 0
            conditions: Conditions = Field(default_factory=list)

        kind: Any = type("Thing", (Resource[Port, Status],), {}, group="a.b", version="v1")
        schema = crd_of([kind])["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        status = schema["properties"]["status"]
        assert status["properties"]["ready"] == INT64
        condition = status["properties"]["conditions"]["items"]
        assert condition["required"] == [
            "lastTransitionTime",
            "message",
            "reason",
            "status",
            "type",
        ]


@pytest.mark.parametrize(
    ("annotation", "advice"),
    [
        (float, "use Quantity"),
        (Decimal, "Quantity"),
        (int | str, "use IntOrString"),
        (Port | Color, "a union has no structural form"),
        (tuple[int, str], "use a list or a model"),
        (list, "type of its items"),
        (bytes, "Base64Bytes"),
        (timedelta, "use Duration"),
        (dict[Literal["a"], str], "keys of a map"),
        (dict[Annotated[str, Field(pattern="^a$")], str], "keys of a map"),
        (Annotated[list[Port], ListMap("nope")], "no such field"),
        (Annotated[list[Open], ListSet()], "use ListMap"),
        (Annotated[list[str], PrintColumn(), CEL("oldSelf == self")], None),
        (list[Annotated[str, CEL("self == oldSelf")]], "no identity"),
        (list[Annotated[str, PrintColumn()]], "one value"),
        (list[Annotated[str, SelectableField()]], "selectable"),
    ],
)
def test_what_has_no_structural_form_is_refused_with_advice(
    annotation: object, advice: str | None
) -> None:
    if advice is None:
        field_schema(annotation)
        return
    with pytest.raises(SchemaError, match=advice) as refused:
        field_schema(annotation)
    assert "Thing.spec.value" in str(refused.value)


def test_floats_can_be_allowed() -> None:
    assert field_schema(float, allow_floats=True) == {"type": "number"}


class Tree(ApiModel):
    children: list[Tree] = Field(default_factory=list)


def test_recursion_is_refused() -> None:
    with pytest.raises(SchemaError, match="Tree contains itself"):
        field_schema(Tree)


class Cat(ApiModel):
    type: Literal["cat"]


class Dog(ApiModel):
    type: Literal["dog"]


def test_a_discriminated_union_is_refused() -> None:
    with pytest.raises(SchemaError, match="exactly_one_of"):
        field_schema(Annotated[Cat | Dog, Field(discriminator="type")])


@pytest.mark.parametrize("pattern", [r"^(?=a)", r"^(?!a)", r"(?<=a)b", r"(a)\1", r"(?>a)", r"a++"])
def test_a_pattern_that_servers_do_not_know_is_warned_of(pattern: str) -> None:
    with pytest.warns(SchemaWarning, match="RE2"):
        field_schema(Annotated[str, Field(json_schema_extra={"pattern": pattern})])


@pytest.mark.parametrize(
    "pattern", [r"^a+$", r"^[0-9]+(s|m|h)$", r"(?:a)", r"(?i)a", r"\\1", r"\+"]
)
def test_an_ordinary_pattern_is_not(pattern: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        field_schema(Annotated[str, Field(pattern=pattern)])


def test_a_rule_in_an_unbounded_list_is_warned_of() -> None:
    annotation = list[Annotated[str, CEL("self != ''")]]
    with pytest.warns(SchemaWarning, match="cost limit"):
        field_schema(annotation)
    field_schema(Annotated[annotation, Field(max_length=8)])


IMMUTABLE = {"rule": "self == oldSelf", "message": "field is immutable"}


class TestImmutable:
    def test_a_required_field_cannot_change(self) -> None:
        schema = spec_schema(Annotated[str, Immutable()])
        assert schema["properties"]["value"]["x-kubernetes-validations"] == [IMMUTABLE]
        assert "x-kubernetes-validations" not in schema

    def test_an_optional_field_cannot_be_removed_either(self) -> None:
        schema = spec_schema(Annotated[str | None, Immutable()], default=None)
        assert schema["properties"]["value"]["x-kubernetes-validations"] == [IMMUTABLE]
        assert [rule["rule"] for rule in schema["x-kubernetes-validations"]] == [
            "!has(oldSelf.value) || has(self.value)"
        ]


class TestObjectRules:
    @pytest.mark.parametrize(
        ("rule", "operator"),
        [
            (at_most_one_of("aB", "namespace"), "<= 1"),
            (exactly_one_of("aB", "namespace"), "== 1"),
            (at_least_one_of("aB", "namespace"), ">= 1"),
        ],
    )
    def test_how_many_fields_are_set(self, rule: CEL, operator: str) -> None:
        schema = spec_schema(str, rules=(rule,))
        (written,) = schema["x-kubernetes-validations"]
        assert written["rule"] == (
            f"[has(self.aB), has(self.__namespace__)].filter(x, x == true).size() {operator}"
        )
        assert "aB, namespace" in written["message"]

    def test_rules_are_inherited(self) -> None:
        class Parent(ApiModel, rules=(CEL("true"),)):
            pass

        schema = spec_schema(str, bases=(Parent,), rules=(CEL("1 == 1"),))
        assert [rule["rule"] for rule in schema["x-kubernetes-validations"]] == ["true", "1 == 1"]


class Described(ApiModel):
    """What it is.

    And more.
    TODO: nobody needs to know.
    """

    plain: str
    """Said below
    in two lines."""
    port: Port
    """Said here, not by the type."""


def test_descriptions_come_from_docstrings() -> None:
    schema = field_schema(Described)
    assert schema["description"] == "What it is.\n\nAnd more."
    assert schema["properties"]["plain"]["description"] == "Said below\nin two lines."
    assert schema["properties"]["port"]["description"] == "Said here, not by the type."


@pytest.mark.parametrize(("limit", "text"), [(0, None), (4, "What"), (None, "What it is.")])
def test_descriptions_can_be_cut(limit: int | None, text: str | None) -> None:
    crd = crd_of([kind_of(Described)], SchemaOptions(max_description=limit))
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    description = schema["properties"]["spec"]["properties"]["value"].get("description")
    assert description == (None if text is None else description)
    assert (description or "").startswith(text or "")
