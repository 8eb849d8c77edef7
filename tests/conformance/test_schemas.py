"""Structural schemas: defaulting, pruning, nulls, and what validation says."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import define
from .manifests import DEFINITIONS, GROUP, definition, shape
from .wire import MERGE, Api

pytestmark = pytest.mark.custom
NULL = None


async def test_defaults_are_filled_in_on_every_write(api: Api, shaped: str) -> None:
    made = await api.create(shaped, shape("s", {}))
    assert made["spec"] == {"mode": "on", "note": "none", "nested": {"name": "n"}}
    assert "spec" not in await api.create(shaped, shape("bare"))
    nested = await api.create(shaped, shape("t", {"nested": {"deep": {}}}))
    assert nested["spec"]["nested"] == {"name": "n", "deep": {}}
    after = await api.merge(f"{shaped}/s", {"spec": {"mode": None, "nested": None}})
    assert after["spec"] == made["spec"]
    assert after["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_nulls_are_dropped_where_there_is_a_default(api: Api, shaped: str) -> None:
    spec = {"note": NULL, "mode": NULL, "nested": {"name": NULL}}
    made = await api.create(shaped, shape("s", spec))
    assert made["spec"] == {"note": NULL, "mode": "on", "nested": {"name": "n"}}
    dropped = await api.create(shaped, shape("t", {"count": NULL, "parts": {"a": "b"}}))
    assert "count" not in dropped["spec"]


async def test_unknown_fields_are_pruned(api: Api, shaped: str) -> None:
    spec = {
        "bogus": 1,
        "nested": {"bogus": 1},
        "ports": [{"port": 1, "bogus": 1}],
        "free": {"kept": {"deep": [1, {"a": NULL}]}},
        "parts": {"any": "v"},
        "object": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "a", "bogus": "x", "labels": {"a": "b"}},
            "data": {"a": "b"},
        },
    }
    made = await api.create(shaped, {**shape("s", spec), "bogus": 1, "status": {"x": 1}})
    assert "bogus" not in made
    assert made["status"] == {}
    found = made["spec"]
    assert "bogus" not in found
    assert found["nested"] == {"name": "n"}
    assert found["ports"] == [{"port": 1, "protocol": "TCP"}]
    assert found["free"] == {"kept": {"deep": [1, {"a": NULL}]}}
    assert found["object"]["metadata"] == {"name": "a", "labels": {"a": "b"}}
    assert found["object"]["data"] == {"a": "b"}


WORDS: list[tuple[dict[str, Any], str, str, str]] = [
    ({"count": -5}, "spec.count", "FieldValueInvalid", "Invalid value: -5: spec.count in body should be greater than or equal to 0"),
    ({"count": 105}, "spec.count", "FieldValueInvalid", "Invalid value: 105: spec.count in body should be less than or equal to 100"),
    ({"count": 7}, "spec.count", "FieldValueInvalid", "Invalid value: 7: spec.count in body should be a multiple of 5"),
    ({"count": "7"}, "spec.count", "FieldValueTypeInvalid", 'Invalid value: "string": spec.count in body must be of type integer: "string"'),
    ({"count": 1.5}, "spec.count", "FieldValueTypeInvalid", 'Invalid value: "number": spec.count in body must be of type integer: "number"'),
    ({"ratio": 1}, "spec.ratio", "FieldValueInvalid", "Invalid value: 1: spec.ratio in body should be less than 1"),
    ({"mode": "x"}, "spec.mode", "FieldValueNotSupported", 'Unsupported value: "x": supported values: "on", "off"'),
    ({"code": "a"}, "spec.code", "FieldValueInvalid", 'Invalid value: "a": spec.code in body should be at least 2 chars long'),
    ({"code": "abcdef"}, "spec.code", "FieldValueTooLong", "Too long: may not be more than 5 bytes"),
    ({"code": "AB"}, "spec.code", "FieldValueInvalid", "Invalid value: \"AB\": spec.code in body should match '^[a-z]+$'"),
    ({"plain": []}, "spec.plain", "FieldValueInvalid", "Invalid value: 0: spec.plain in body should have at least 1 items"),
    ({"plain": ["a", "b", "c", "d"]}, "spec.plain", "FieldValueTooMany", "Too many: 4: must have at most 3 items"),
    ({"plain": [1]}, "spec.plain[0]", "FieldValueTypeInvalid", 'Invalid value: "integer": spec.plain[0] in body must be of type string: "integer"'),
    ({"plain": "a"}, "spec.plain", "FieldValueTypeInvalid", 'Invalid value: "string": spec.plain in body must be of type array: "string"'),
    ({"nested": []}, "spec.nested", "FieldValueTypeInvalid", 'Invalid value: "array": spec.nested in body must be of type object: "array"'),
    ({"yes": "true"}, "spec.yes", "FieldValueTypeInvalid", 'Invalid value: "string": spec.yes in body must be of type boolean: "string"'),
    ({"port": True}, "spec.port", "FieldValueTypeInvalid", 'Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean"'),
    ({"when": "today"}, "spec.when", "FieldValueTypeInvalid", 'Invalid value: "today": spec.when in body must be of type date-time: "today"'),
    ({"ports": [{}]}, "spec.ports[0].port", "FieldValueRequired", "Required value"),
    ({"ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]}, "spec.ports[1]", "FieldValueDuplicate", 'Duplicate value: {"port":1,"protocol":"TCP"}'),
    ({"names": ["a", "a"]}, "spec.names[1]", "FieldValueDuplicate", 'Duplicate value: "a"'),
    ({"either": {}}, "<nil>", "FieldValueInvalid", 'Invalid value: "": "spec.either" must validate one and only one schema (oneOf). Found none valid'),
    ({"either": {"a": "", "b": ""}}, "<nil>", "FieldValueInvalid", 'Invalid value: "": "spec.either" must validate one and only one schema (oneOf). Found 2 valid alternatives'),
    ({"object": {}}, "spec.object.apiVersion", "FieldValueRequired", "Required value"),
    ({"parts": {"a": 1}}, "spec.parts.a", "FieldValueTypeInvalid", 'Invalid value: "integer": spec.parts.a in body must be of type string: "integer"'),
]  # fmt: skip


@pytest.mark.since("wording of schema errors")
async def test_validation_in_the_servers_words(api: Api, shaped: str) -> None:
    for spec, *expected in WORDS:
        answer = await api.refusal("POST", shaped, shape("s", spec))
        assert (answer["code"], answer["reason"]) == (422, "Invalid")
        details = answer["details"]
        causes = [[c["field"], c["reason"], c["message"]] for c in details["causes"]]
        assert expected in causes, causes
        assert (details["name"], details["group"], details["kind"]) == ("s", GROUP, "Shape")
        assert answer["message"].startswith(f'Shape.{GROUP} "s" is invalid: ')


async def test_several_findings_are_listed_together(api: Api, shaped: str) -> None:
    answer = await api.refusal(
        "POST", shaped, shape("s", {"count": 7, "mode": "x", "names": ["a", "a"]})
    )
    fields = [cause["field"] for cause in answer["details"]["causes"]]
    assert {"spec.count", "spec.mode"} <= set(fields)
    _, _, listed = answer["message"].partition(" is invalid: ")
    assert (listed[0], listed[-1]) == ("[", "]")


async def test_names_and_metadata_of_custom_objects(api: Api, shaped: str) -> None:
    code, _, message = await api.fails("POST", shaped, shape("A_b"))
    assert code == 422
    assert (
        'metadata.name: Invalid value: "A_b": a lowercase RFC 1123 subdomain must consist'
        in message
    )
    assert (await api.fails("POST", shaped, shape("a", labels={"a b": ""})))[0] == 422
    await api.create(shaped, shape("bare", finalizers=["bare"]))
    strange: tuple[Any, ...] = (
        [],
        "x",
        {"name": 1},
        {"name": "a", "labels": "x"},
        {"name": "a", "labels": {"a": 1}},
    )
    for metadata in strange:
        code, reason, _ = await api.fails("POST", shaped, {**shape("a"), "metadata": metadata})
        assert (code, reason) == (400, "BadRequest")


@pytest.mark.parametrize("verb", ["POST", "PUT", "merge"])
async def test_field_validation_of_custom_objects(api: Api, shaped: str, verb: str) -> None:
    made = await api.create(shaped, shape("s", {}))
    spec = {"bogus": 1, "nested": {"no": 1}}

    async def write(mode: str) -> tuple[int, Any, Any]:
        if verb == "POST":
            return await api.send("POST", f"{shaped}?dryRun=All{mode}", shape("t", spec))
        if verb == "PUT":
            body = {**made, "spec": spec}
            return await api.send("PUT", f"{shaped}/s?dryRun=All{mode}", body)
        return await api.send("PATCH", f"{shaped}/s?dryRun=All{mode}", {"spec": spec}, MERGE)

    status, answer, _ = await write("&fieldValidation=Strict")
    assert (status, answer["reason"]) == (
        (422, "Invalid") if verb == "merge" else (400, "BadRequest")
    )
    assert 'unknown field "spec.bogus", unknown field "spec.nested.no"' in answer["message"]
    for mode in ("", "&fieldValidation=Warn"):
        status, _, headers = await write(mode)
        assert status < 300
        assert headers.getall("Warning") == [
            '299 - "unknown field \\"spec.bogus\\""',
            '299 - "unknown field \\"spec.nested.no\\""',
        ]
    _, _, headers = await write("&fieldValidation=Ignore")
    assert "Warning" not in headers
    code, reason, message = await api.fails("POST", f"{shaped}?fieldValidation=No", shape("t"))
    assert (code, reason) == (422, "Invalid")
    assert (
        'fieldValidation: Unsupported value: "No": supported values: "", "Ignore", "Strict", "Warn"'
        in message
    )


async def test_repeated_fields_of_custom_objects(api: Api, shaped: str) -> None:
    body = (
        f'{{"apiVersion":"{GROUP}/v1","kind":"Shape","metadata":{{"name":"s"}},'
        '"spec":{"count":5,"count":10,"nested":{"name":"a","name":"b"}}}'
    ).encode()
    code, _, message = await api.fails("POST", f"{shaped}?fieldValidation=Strict", body)
    assert code == 400
    assert 'duplicate field "spec.count", duplicate field "spec.nested.name"' in message
    status, made, headers = await api.send("POST", shaped, body)
    assert (status, made["spec"]["count"], made["spec"]["nested"]) == (201, 10, {"name": "b"})
    assert headers.getall("Warning") == [
        '299 - "duplicate field \\"spec.count\\""',
        '299 - "duplicate field \\"spec.nested.name\\""',
    ]


RULES: dict[str, Any] = {
    "type": "object",
    "x-kubernetes-validations": [
        {"rule": "self.metadata.name.size() < 10", "message": "the name is too long"}
    ],
    "properties": {
        "spec": {
            "type": "object",
            "x-kubernetes-validations": [
                {
                    "rule": "self.low <= self.high",
                    "messageExpression": "'%d is above %d'.format([self.low, self.high])",
                    "reason": "FieldValueForbidden",
                    "fieldPath": ".low",
                },
                {"rule": "!has(oldSelf.once) || has(self.once)", "message": "once is for good"},
            ],
            "properties": {
                "low": {"type": "integer", "default": 0},
                "high": {"type": "integer", "default": 10, "maximum": 50},
                "once": {
                    "type": "string",
                    "maxLength": 20,
                    "x-kubernetes-validations": [
                        {"rule": "self == oldSelf", "message": "once set"}
                    ],
                },
                "items": {
                    "type": "array",
                    "maxItems": 5,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {
                            "name": {"type": "string", "maxLength": 10},
                            "value": {
                                "type": "integer",
                                "x-kubernetes-validations": [
                                    {"rule": "self >= oldSelf", "message": "values only grow"}
                                ],
                            },
                        },
                    },
                },
                "text": {
                    "type": "string",
                    "maxLength": 20,
                    "x-kubernetes-validations": [
                        {"rule": "self.matches('^[a-z]*$') && self != 'no'"},
                    ],
                },
            },
        }
    },
}


def ruled(group: str) -> dict[str, Any]:
    crd = definition(group)
    crd["metadata"]["name"] = f"rules.{group}"
    crd["spec"]["names"] = {"plural": "rules", "kind": "Rule"}
    crd["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": RULES}
    del crd["spec"]["versions"][0]["subresources"]
    return crd


async def test_rules(api: Api) -> None:
    """One definition, since a new one takes a current server two seconds."""
    path = await define(api, ruled(api.group))

    def rule(name: str, **spec: object) -> dict[str, Any]:
        return {
            "apiVersion": f"{api.group}/v1",
            "kind": "Rule",
            "metadata": {"name": name},
            "spec": spec,
        }

    assert await api.causes("POST", path, rule("r", low=11)) == [
        ("spec.low", "FieldValueForbidden", "Forbidden: 11 is above 10")
    ]
    for name, spec, field, words in (
        ("r" * 12, {}, "<nil>", "the name is too long"),
        ("r", {"text": "no"}, "spec.text", "failed rule: self.matches('^[a-z]*$') && self != 'no'"),
    ):
        causes = await api.causes("POST", path, rule(name, **spec))
        assert [(found, words in text) for found, _, text in causes] == [(field, True)], causes
    made = await api.create(path, rule("r", once="a", items=[{"name": "a", "value": 1}]))
    causes = await api.causes("PATCH", f"{path}/r", {"spec": {"once": "b"}}, MERGE)
    assert [(field, "once set" in text) for field, _, text in causes] == [("spec.once", True)]
    causes = await api.causes("PATCH", f"{path}/r", {"spec": {"once": None}}, MERGE)
    assert [(field, "once is for good" in text) for field, _, text in causes] == [("spec", True)]
    lower = {"spec": {"items": [{"name": "b", "value": 0}, {"name": "a", "value": 0}]}}
    causes = await api.causes("PATCH", f"{path}/r", lower, MERGE)
    assert [(field, "values only grow" in text) for field, _, text in causes] == [
        ("spec.items[1].value", True)
    ]
    fine = {"spec": {"items": [{"name": "b", "value": 0}, {"name": "a", "value": 1}]}}
    assert (await api.merge(f"{path}/r", fine))["metadata"]["generation"] == 2
    assert made["spec"]["high"] == 10
    causes = await api.causes("POST", path, rule("s", low=60, high=60))
    assert ("spec.high", "FieldValueInvalid") in [(field, reason) for field, reason, _ in causes]


async def test_equality_in_a_rule_compares_fields_without_a_schema(api: Api) -> None:
    crd = ruled(api.group)
    crd["metadata"]["name"] = f"frozens.{api.group}"
    crd["spec"]["names"] = {"plural": "frozens", "kind": "Frozen"}
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    listed = {**free, "properties": {"known": {"type": "string"}}}
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {"free": free, "listed": listed},
                "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "frozen"}],
            }
        },
    }
    path = await define(api, crd)
    spec = {"free": {"a": {"b": 1}}, "listed": {"known": "x", "other": 1}}
    head = {"apiVersion": f"{api.group}/v1", "kind": "Frozen", "metadata": {"name": "f"}}
    await api.create(path, {**head, "spec": spec})
    for change in ({"free": {"a": {"b": 2}}}, {"free": {"c": 1}}, {"listed": {"other": 2}}):
        causes = await api.causes("PATCH", f"{path}/f", {"spec": change}, MERGE)
        assert [(field, "frozen" in text) for field, _, text in causes] == [("spec", True)], change
    same = await api.merge(f"{path}/f", {"metadata": {"labels": {"a": "b"}}, "spec": spec})
    assert same["metadata"]["generation"] == 1


NOT_STRUCTURAL: list[tuple[dict[str, Any], str]] = [
    ({"type": "object", "properties": {"a": {}}}, "properties[a].type"),
    ({"type": "array", "items": {"type": "string"}}, "type"),
    ({"type": "object", "properties": {"metadata": {"type": "string"}}}, "properties[metadata].type"),
    ({"type": "object", "properties": {"a": {"type": "strin"}}}, "properties[a].type"),
    ({"type": "object", "properties": {"a": {"type": "array"}}}, "properties[a].items"),
    ({"type": "object", "properties": {"a": {"type": "string", "default": 1}}}, "properties[a].default"),
    (
            {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}}}},
            "properties[a].additionalProperties",
        ),
    ({"type": "object", "anyOf": [{"type": "object"}]}, "anyOf[0].type"),
    (
            {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"}}},
            "properties[a].x-kubernetes-list-map-keys",
        ),
    (
            {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "bag"}}},
            "properties[a].x-kubernetes-list-type",
        ),
    ({"type": "object", "x-kubernetes-preserve-unknown-fields": False}, "x-kubernetes-preserve-unknown-fields"),
    ({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}, "properties[a].pattern"),
    ({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}, "uniqueItems": True}}}, "properties[a].uniqueItems"),
    ({"type": "object", "nullable": True}, "nullable"),
]  # fmt: skip


async def test_schemas_that_are_no_structural_schemas(api: Api) -> None:
    for schema, field in NOT_STRUCTURAL:
        crd = definition(api.group, schema={"openAPIV3Schema": schema})
        del crd["spec"]["versions"][0]["subresources"]
        causes = await api.causes("POST", f"{DEFINITIONS}?dryRun=All", crd)
        wanted = f"spec.validation.openAPIV3Schema.{field}"
        assert any(found[0] == wanted for found in causes), (wanted, causes)


async def test_paths_of_versions_with_schemas_of_their_own(api: Api) -> None:
    crd = definition(api.group)
    wrong = {"openAPIV3Schema": {"type": "object", "properties": {"a": {}}}}
    second = {**crd["spec"]["versions"][0], "name": "v2", "storage": False, "schema": wrong}
    crd["spec"]["versions"].append(second)
    fields = {cause[0] for cause in await api.causes("POST", f"{DEFINITIONS}?dryRun=All", crd)}
    assert "spec.versions[1].schema.openAPIV3Schema.properties[a].type" in fields
    for version in crd["spec"]["versions"]:
        version["schema"] = wrong
    fields = {cause[0] for cause in await api.causes("POST", f"{DEFINITIONS}?dryRun=All", crd)}
    assert "spec.validation.openAPIV3Schema.properties[a].type" in fields
    assert not any(field.startswith("spec.versions[") for field in fields)


@pytest.mark.parametrize(
    "rules",
    [
        {"self.nothing == 1": "undefined field 'nothing'", "self.a +": "Syntax error"},
        pytest.param(
            {
                "1": "must evaluate to a bool",
                "self.a == 'x'": "found no matching overload",
                "self.list.all(x, self.list.all(y, self.list.all(z, x + y + z > 0)))": "exceeds budget",
            },
            marks=pytest.mark.real("types and costs of rules are not checked"),
        ),
    ],
)
async def test_rules_are_compiled_when_the_definition_is_written(
    api: Api, rules: dict[str, str]
) -> None:
    fields = {
        "a": {"type": "integer"},
        "list": {"type": "array", "items": {"type": "integer"}},
    }
    for rule, text in rules.items():
        spec = {
            "type": "object",
            "x-kubernetes-validations": [{"rule": rule}],
            "properties": fields,
        }
        schema = {"type": "object", "properties": {"spec": spec}}
        crd = definition(api.group, schema={"openAPIV3Schema": schema})
        del crd["spec"]["versions"][0]["subresources"]
        causes = await api.causes("POST", f"{DEFINITIONS}?dryRun=All", crd)
        field = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule"
        assert any(found[0] == field and text in found[2] for found in causes), causes
