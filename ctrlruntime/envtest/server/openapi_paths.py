"""The operations of a kind, from which the paths of both OpenAPI versions are written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.envtest.schema.builtin import definitions
from ctrlruntime.envtest.server.discovery import subresource_kind, subresources
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.openapi_schemas import (
    DELETE_OPTIONS,
    GVK,
    PATCH,
    PREFIX,
    STATUS,
    Dialect,
    schema_name,
)

_LIST: Final = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
)
_WRITE: Final = ("dryRun", "fieldManager", "fieldValidation")
_DELETE: Final = (
    "dryRun",
    "gracePeriodSeconds",
    "orphanDependents",
    "propagationPolicy",
)
_TYPES: Final = {
    "allowWatchBookmarks": "boolean",
    "force": "boolean",
    "gracePeriodSeconds": "integer",
    "limit": "integer",
    "orphanDependents": "boolean",
    "sendInitialEvents": "boolean",
    "timeoutSeconds": "integer",
    "watch": "boolean",
}
_TEXTS: Final = {
    "allowWatchBookmarks": "Ask for bookmark events in a watch.",
    "continue": "The token of the previous page.",
    "dryRun": "Which stages not to persist; the only value is All.",
    "fieldManager": "The name under which the fields written are owned.",
    "fieldSelector": "Selects objects by their fields.",
    "fieldValidation": "What to do about unknown and duplicate fields: Ignore, Warn or Strict.",
    "force": "Take fields over from other managers; for apply patches only.",
    "gracePeriodSeconds": "Seconds before the object is deleted.",
    "labelSelector": "Selects objects by their labels.",
    "limit": "The most objects to return in a page.",
    "orphanDependents": "Deprecated: use propagationPolicy.",
    "propagationPolicy": "Whether and how dependents are deleted.",
    "resourceVersion": "The version to read at, or to watch from.",
    "resourceVersionMatch": "How resourceVersion is applied to a list.",
    "sendInitialEvents": "Begin a watch with the present state.",
    "timeoutSeconds": "Ends the call after this time.",
    "watch": "Follow the changes instead of listing.",
}
_JSON: Final = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
_PATCHES: Final = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
_CODES: Final = {"post": ("200", "201", "202"), "put": ("200", "201"), "patch": ("200", "201")}


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path; `body` and `result` are names of schemas."""

    path: str
    method: str
    action: str
    gvk: tuple[str, str, str]
    subject: str
    result: str
    query: tuple[str, ...] = ()
    body: str = ""
    custom: bool = False

    @property
    def id(self) -> str:
        verb = {"put": "replace", "post": "create", "deletecollection": "deleteCollection"}.get(
            self.action, self.action
        )
        group, version, _ = self.gvk
        where = "".join(part.title() for part in (group or "core").split("."))
        return f"{verb}{where}{version.title()}{self.subject}"

    @property
    def codes(self) -> tuple[str, ...]:
        return _CODES.get(self.method, ("200",))

    @property
    def consumes(self) -> tuple[str, ...]:
        if self.method != "patch":
            return ("*/*",)
        return tuple(p for p in _PATCHES if not (self.custom and "strategic" in p))

    @property
    def path_parameters(self) -> tuple[str, ...]:
        return tuple(name for name in ("name", "namespace") if f"{{{name}}}" in self.path)


def operations(kind: Kind, version: str) -> Iterator[Operation]:
    """Everything that can be done with the kind, its subresources included."""
    root = f"/apis/{kind.group}/{version}" if kind.group else f"/api/{version}"
    scoped = f"{root}/namespaces/{{namespace}}" if kind.namespaced else root
    space = "Namespaced" if kind.namespaced else ""
    gvk = (kind.group, version, kind.kind)
    name = schema_name(kind, version)
    collection, item = f"{scoped}/{kind.plural}", f"{scoped}/{kind.plural}/{{name}}"
    subject = space + kind.kind

    def on(
        path: str,
        method: str,
        action: str,
        result: str,
        *,
        subject: str = subject,
        query: tuple[str, ...] = (),
        body: str = "",
    ) -> Operation:
        return Operation(path, method, action, gvk, subject, result, query, body, kind.custom)

    if "create" in kind.verbs:
        yield on(collection, "post", "post", name, query=_WRITE, body=name)
    if "list" in kind.verbs:
        listed = schema_name(kind, version, "List")
        yield on(collection, "get", "list", listed, query=_LIST)
        if kind.namespaced:
            everywhere = f"{kind.kind}ForAllNamespaces"
            path = f"{root}/{kind.plural}"
            yield on(path, "get", "list", listed, query=_LIST, subject=everywhere)
    if "deletecollection" in kind.verbs:
        query = (*_DELETE, *_LIST)
        subject_all = f"{space}{kind.kind}"
        yield on(collection, "delete", "deletecollection", STATUS, query=query, subject=subject_all)
    if "get" in kind.verbs:
        yield on(item, "get", "get", name)
        yield on(item, "put", "put", name, query=_WRITE, body=name)
        yield on(item, "patch", "patch", name, query=(*_WRITE, "force"), body=PATCH)
        yield on(item, "delete", "delete", STATUS, query=_DELETE, body=DELETE_OPTIONS)
    for sub in subresources(kind, version):
        yield from _subresource(kind, version, sub, f"{item}/{sub}", subject)


def _subresource(
    kind: Kind, version: str, name: str, path: str, subject: str
) -> Iterator[Operation]:
    group, sub_version, sub_kind, verbs = subresource_kind(kind, name, version)
    if (group, sub_kind) == (kind.group, kind.kind):
        schema = schema_name(kind, version)
    else:
        schema = definitions().name_of(GroupVersionKind(group, sub_version, sub_kind))
    methods = {"get": "get", "update": "put", "patch": "patch", "create": "post"}
    for verb in verbs:
        method = methods[verb]
        writes = method != "get"
        query = (*_WRITE, "force") if method == "patch" else _WRITE if writes else ()
        yield Operation(
            path,
            method,
            method,
            (group, sub_version, sub_kind),
            subject=subject + name.title(),
            result=schema,
            query=query,
            body=PATCH if method == "patch" else schema if writes else "",
            custom=kind.custom,
        )


def paths(found: list[Operation], dialect: Dialect) -> dict[str, Any]:
    """Return the `paths` of an OpenAPI document."""
    written: dict[str, Any] = {}
    for operation in sorted(found, key=lambda each: each.path):
        entry = written.get(operation.path)
        if entry is None:
            entry = written[operation.path] = {"parameters": _in_path(operation, dialect)}
        group, version, kind = operation.gvk
        entry[operation.method] = {
            "operationId": operation.id,
            "x-kubernetes-action": operation.action,
            GVK: {"group": group, "version": version, "kind": kind},
            "parameters": _in_query(operation, dialect),
            **(_exchange_v3 if dialect == "v3" else _exchange_v2)(operation),
        }
    return written


def _in_path(operation: Operation, dialect: Dialect) -> list[dict[str, Any]]:
    texts = {"name": f"name of the {operation.gvk[2]}", "namespace": "object name and auth scope"}
    return [
        {"name": name, "in": "path", "description": texts[name], "required": True}
        | _typed("string", dialect)
        for name in operation.path_parameters
    ]


def _in_query(operation: Operation, dialect: Dialect) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "query", "description": _TEXTS[name]}
        | _typed(_TYPES.get(name, "string"), dialect)
        for name in operation.query
    ]
    if dialect == "v2" and operation.body:
        schema = {"$ref": PREFIX["v2"] + operation.body}
        parameters.append({"name": "body", "in": "body", "required": True, "schema": schema})
    return parameters


def _typed(name: str, dialect: Dialect) -> dict[str, Any]:
    shape: dict[str, Any] = {"type": name, "uniqueItems": True}
    return {"schema": shape} if dialect == "v3" else shape


def _exchange_v3(operation: Operation) -> dict[str, Any]:
    """Return what is sent and answered."""
    result = {"schema": {"$ref": PREFIX["v3"] + operation.result}}
    answer = {"description": "OK", "content": dict.fromkeys(_JSON, result)}
    found: dict[str, Any] = {"responses": dict.fromkeys(operation.codes, answer)}
    if operation.body:
        schema = {"schema": {"$ref": PREFIX["v3"] + operation.body}}
        found["requestBody"] = {
            "content": dict.fromkeys(operation.consumes, schema),
            "required": operation.method != "delete",
        }
    return found


def _exchange_v2(operation: Operation) -> dict[str, Any]:
    answer = {"description": "OK", "schema": {"$ref": PREFIX["v2"] + operation.result}}
    return {
        "consumes": list(operation.consumes),
        "produces": list(_JSON),
        "responses": dict.fromkeys(operation.codes, answer),
    }
