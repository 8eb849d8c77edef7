"""OpenAPI v2 documents as protobuf, the form that kubectl up to 1.28 validates with.

Field numbers are those of gnostic's `openapi.v2` package, as far as clients read them. Documents
are written piece by piece: protobuf merges repeated occurrences of a message, so the pieces are
simply put one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

import orjson
from google.protobuf.message import Message

from ctrlruntime.envtest.server.protobuf import messages

_TABLE: Final = {
    "Any": "yaml=2",
    "NamedAny": "name=1 value:Any=2",
    "Info": "title=1 version=2",
    "TypeItem": "value:string*=1",
    "ItemsItem": "schema:Schema*=1",
    "AdditionalPropertiesItem": "schema:Schema=1 boolean:bool=2",
    "NamedSchema": "name=1 value:Schema=2",
    "Properties": "additional_properties:NamedSchema*=1",
    "Definitions": "additional_properties:NamedSchema*=1",
    "Schema": (
        "_ref=1 format=2 title=3 description=4 default:Any=5 multiple_of:double=6 "
        "maximum:double=7 exclusive_maximum:bool=8 minimum:double=9 exclusive_minimum:bool=10 "
        "max_length:int64=11 min_length:int64=12 pattern=13 max_items:int64=14 "
        "min_items:int64=15 unique_items:bool=16 max_properties:int64=17 min_properties:int64=18 "
        "required:string*=19 enum:Any*=20 additional_properties:AdditionalPropertiesItem=21 "
        "type:TypeItem=22 items:ItemsItem=23 all_of:Schema*=24 properties:Properties=25 "
        "vendor_extension:NamedAny*=31"
    ),
    "QueryParameterSubSchema": "required:bool=1 in=2 description=3 name=4 type=6 unique_items:bool=20",
    "PathParameterSubSchema": "required:bool=1 in=2 description=3 name=4 type=5 unique_items:bool=19",
    "NonBodyParameter": (
        "query_parameter_sub_schema:QueryParameterSubSchema=3 "
        "path_parameter_sub_schema:PathParameterSubSchema=4"
    ),
    "BodyParameter": "description=1 name=2 in=3 required:bool=4 schema:Schema=5",
    "Parameter": "body_parameter:BodyParameter=1 non_body_parameter:NonBodyParameter=2",
    "ParametersItem": "parameter:Parameter=1",
    "SchemaItem": "schema:Schema=1",
    "Response": "description=1 schema:SchemaItem=2",
    "ResponseValue": "response:Response=1",
    "NamedResponseValue": "name=1 value:ResponseValue=2",
    "Responses": "response_code:NamedResponseValue*=1",
    "Operation": (
        "operation_id=5 produces:string*=6 consumes:string*=7 parameters:ParametersItem*=8 "
        "responses:Responses=9 vendor_extension:NamedAny*=13"
    ),
    "PathItem": (
        "get:Operation=2 put:Operation=3 post:Operation=4 delete:Operation=5 patch:Operation=8 "
        "parameters:ParametersItem*=9"
    ),
    "NamedPathItem": "name=1 value:PathItem=2",
    "Paths": "path:NamedPathItem*=2",
    "Document": "swagger=1 info:Info=2 paths:Paths=8 definitions:Definitions=9",
}
_SAME: Final = {
    "format": "format",
    "title": "title",
    "description": "description",
    "multipleOf": "multiple_of",
    "maximum": "maximum",
    "exclusiveMaximum": "exclusive_maximum",
    "minimum": "minimum",
    "exclusiveMinimum": "exclusive_minimum",
    "maxLength": "max_length",
    "minLength": "min_length",
    "pattern": "pattern",
    "maxItems": "max_items",
    "minItems": "min_items",
    "uniqueItems": "unique_items",
    "maxProperties": "max_properties",
    "minProperties": "min_properties",
    "required": "required",
    "$ref": "_ref",
}


@cache
def document_type() -> type[Message]:
    """Return the message class `openapi.v2.Document`, made at the first call."""
    return messages("openapi.v2", _TABLE)["Document"]


def encode_head(version: str) -> bytes:
    info = {"title": "Kubernetes", "version": version}
    return document_type()(swagger="2.0", info=info).SerializeToString()


def encode_definitions(schemas: Mapping[str, dict[str, Any]]) -> bytes:
    """Return a piece of a document with these definitions."""
    named = [{"name": name, "value": _schema(schema)} for name, schema in schemas.items()]
    return document_type()(definitions={"additional_properties": named}).SerializeToString()


def encode_paths(paths: Mapping[str, dict[str, Any]]) -> bytes:
    """Return a piece of a document with these paths."""
    named = [{"name": path, "value": _path_item(item)} for path, item in paths.items()]
    return document_type()(paths={"path": named}).SerializeToString()


def _schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _SAME:
            out[_SAME[key]] = value
        elif key == "type":
            out["type"] = {"value": [value]}
        elif key == "properties":
            named = [{"name": name, "value": _schema(child)} for name, child in value.items()]
            out["properties"] = {"additional_properties": named}
        elif key == "items":
            out["items"] = {"schema": [_schema(value)]}
        elif key == "additionalProperties":
            inner = {"boolean": value} if isinstance(value, bool) else {"schema": _schema(value)}
            out["additional_properties"] = inner
        elif key == "allOf":
            out["all_of"] = [_schema(each) for each in value]
        elif key == "enum":
            out["enum"] = [_any(each) for each in value]
        elif key == "default":
            out["default"] = _any(value)
        elif key.startswith("x-"):
            out.setdefault("vendor_extension", []).append({"name": key, "value": _any(value)})
    return out


def _any(value: object) -> dict[str, str]:
    """JSON is YAML too."""
    return {"yaml": orjson.dumps(value).decode() + "\n"}


def _path_item(item: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {
        method: _operation(operation)
        for method, operation in item.items()
        if method != "parameters"
    }
    out["parameters"] = _parameters(item["parameters"])
    return out


def _operation(operation: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "operation_id": operation["operationId"],
        "produces": operation["produces"],
        "consumes": operation["consumes"],
        "parameters": _parameters(operation["parameters"]),
        "responses": {"response_code": _responses(operation["responses"])},
        "vendor_extension": [
            {"name": key, "value": _any(value)}
            for key, value in operation.items()
            if key.startswith("x-")
        ],
    }


def _responses(responses: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    for code, response in responses.items():
        answer = {
            "description": response["description"],
            "schema": {"schema": _schema(response["schema"])},
        }
        yield {"name": code, "value": {"response": answer}}


def _parameters(parameters: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for parameter in parameters:
        fields = {key: parameter[key] for key in ("name", "in")}
        if "required" in parameter:
            fields["required"] = parameter["required"]
        if parameter["in"] == "body":
            body = {**fields, "schema": _schema(parameter["schema"])}
            found.append({"parameter": {"body_parameter": body}})
            continue
        fields |= {"description": parameter["description"], "type": parameter["type"]}
        place = f"{parameter['in']}_parameter_sub_schema"
        found.append({"parameter": {"non_body_parameter": {place: fields}}})
    return found
