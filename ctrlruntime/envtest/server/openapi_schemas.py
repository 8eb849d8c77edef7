"""Schemas of the kinds served, as OpenAPI v2 and v3 publish them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.envtest.schema.builtin import (
    OBJECT_META,
    definitions,
    openapi_closure,
    openapi_schema,
)
from ctrlruntime.envtest.server.discovery import subresource_kind, subresources
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.json import Json

Dialect = Literal["v2", "v3"]
Schema = dict[str, Any]

PREFIX: Final[dict[Dialect, str]] = {"v2": "#/definitions/", "v3": "#/components/schemas/"}
LIST_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
STATUS: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.Status"
DELETE_OPTIONS: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
PATCH: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch"
GVK: Final = "x-kubernetes-group-version-kind"

_META: Final = tuple(
    GroupVersionKind("meta", "v1", kind) for kind in ("Status", "DeleteOptions", "Patch")
)
_UNIONS: Final[dict[str, Schema]] = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
        "oneOf": [{"type": "integer"}, {"type": "string"}],
        "format": "int-or-string",
    },
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {
        "oneOf": [{"type": "string"}, {"type": "number"}]
    },
}


def schema_name(kind: Kind, version: str, suffix: str = "") -> str:
    """Return the name of the kind's schema, or with suffix "List" that of its list."""
    if kind.custom:
        reverse = ".".join(reversed(kind.group.split(".")))
        return f"{reverse}.{version}.{kind.list_name if suffix else kind.kind}"
    return definitions().name_of(GroupVersionKind(kind.group, version, kind.kind + suffix))


def builtin_names(kinds: Iterable[tuple[Kind, str]]) -> list[str]:
    """Names of all built-in schemas that these kinds and their subresources lead to."""
    wanted: list[GroupVersionKind] = list(_META)
    for kind, version in kinds:
        for name in subresources(kind, version):
            group, sub_version, sub_kind, _ = subresource_kind(kind, name, version)
            if (group, sub_kind) != (kind.group, kind.kind):
                wanted.append(GroupVersionKind(group, sub_version, sub_kind))
        if kind.custom:
            wanted += [GroupVersionKind("meta", "v1", name) for name in ("ObjectMeta", "ListMeta")]
            continue
        wanted.append(kind.gvk(version))
        if "list" in kind.verbs:
            wanted.append(GroupVersionKind(kind.group, version, kind.list_name))
    return openapi_closure(wanted)


def builtin_schema(name: str, dialect: Dialect) -> Schema:
    """One built-in schema by name."""
    schema = openapi_schema(name, prefix=PREFIX[dialect])
    if dialect == "v2":
        return schema
    if name in _UNIONS:
        return {**_UNIONS[name], "description": schema.get("description", "")}
    wrapped: Schema = _wrap_references(schema)
    return wrapped


def _wrap_references(schema: object) -> Json:
    """In v3 a reference stands alone: with a description beside it, it moves into `allOf`."""
    if isinstance(schema, list):
        return [_wrap_references(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema and len(schema) > 1:
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        return {"allOf": [{"$ref": schema["$ref"]}], **rest}
    return {key: _wrap_references(value) for key, value in schema.items()}


# -- custom kinds ----------------------------------------------------------------------------


def custom_schemas(kind: Kind, version: str, dialect: Dialect) -> dict[str, Schema]:
    """Return the schemas of a custom kind and of its list, by name."""
    declared = kind.version_entry(version)["schema"]["openAPIV3Schema"]
    root: Schema = _v2(declared) if dialect == "v2" else dict(declared)
    root["type"] = "object"
    if not root.get("x-kubernetes-preserve-unknown-fields") or root.get("properties"):
        root["properties"] = {**_type_fields(), **_metadata(dialect, OBJECT_META), **_own(root)}
    root[GVK] = [_gvk(kind, version, kind.kind)]
    name, list_name = schema_name(kind, version), schema_name(kind, version, "List")
    reference = {"$ref": PREFIX[dialect] + name}
    listed: Schema = {
        "description": f"{kind.list_name} is a list of {kind.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            **_type_fields(),
            "items": {
                "description": f"List of {kind.plural}.",
                "type": "array",
                "items": reference,
            },
            **_metadata(dialect, LIST_META),
        },
        GVK: [_gvk(kind, version, kind.list_name)],
    }
    return {name: root, list_name: listed}


def _own(root: Schema) -> Schema:
    shared = {"apiVersion", "kind", "metadata"}
    return {
        key: value for key, value in (root.get("properties") or {}).items() if key not in shared
    }


def _type_fields() -> Schema:
    """`apiVersion` and `kind`, in the words of the built-in kinds."""
    source = definitions().get(STATUS)["properties"]
    return {
        name: {"description": source[name]["description"], "type": "string"}
        for name in ("apiVersion", "kind")
    }


def _metadata(dialect: Dialect, name: str) -> Schema:
    text = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
    reference: Schema = {"$ref": PREFIX[dialect] + name}
    if dialect == "v3":
        reference = {"allOf": [reference]}
    return {"metadata": {"description": text, **reference}}


def _gvk(kind: Kind, version: str, name: str) -> dict[str, str]:
    return {"group": kind.group, "kind": name, "version": version}


_V3_ONLY: Final = frozenset(
    [
        "allOf",
        "anyOf",
        "default",
        "not",
        "nullable",
        "oneOf",
        "x-kubernetes-validations",
    ]
)


def _v2(schema: Schema) -> Schema:
    """Return what v2 can express of a structural schema: it has no null, no unions and no defaults."""
    out: Schema = {}
    free = schema.get("x-kubernetes-preserve-unknown-fields")
    loose = schema.get("nullable") or schema.get("x-kubernetes-int-or-string")
    for key, value in schema.items():
        if key in _V3_ONLY or (key == "type" and loose):
            continue
        if key == "properties":
            if not (free or schema.get("nullable")):
                out[key] = {name: _v2(child) for name, child in value.items()}
        elif key in {"items", "additionalProperties"} and isinstance(value, dict):
            if not schema.get("nullable"):
                out[key] = _v2(value)
        elif key == "required":
            if not (free or schema.get("nullable")):
                out[key] = value
        else:
            out[key] = value
    return out
