"""Validation of CustomResourceDefinitions themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from ctrlruntime.envtest.server.errors import (
    FieldError,
    bad_value,
    duplicate,
    forbidden_field,
    not_supported,
    required,
)
from ctrlruntime.envtest.server.metadata import label_1035, subdomain

_Object = dict[str, Any]
_KEYS: Final = ("allOf", "anyOf", "oneOf")
_STRUCTURAL_ONLY: Final = ("type", "default", "additionalProperties", "nullable", "title")
_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")


def check_definition(obj: _Object, prefix: str) -> Iterator[FieldError]:
    """Names, versions and structural schemas."""
    del prefix
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        yield required("spec")
        return
    yield from _names(obj, spec)
    scope = spec.get("scope")
    if not scope:
        yield required("spec.scope")
    elif scope not in {"Cluster", "Namespaced"}:
        yield not_supported("spec.scope", scope, ("Cluster", "Namespaced"))
    yield from _versions(spec)
    yield from _conversion(spec.get("conversion") or {})


def _names(obj: _Object, spec: _Object) -> Iterator[FieldError]:
    names = spec.get("names") or {}
    group, plural = spec.get("group") or "", names.get("plural") or ""
    name = obj["metadata"].get("name") or ""
    if name != f"{plural}.{group}":
        yield bad_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    if not group:
        yield required("spec.group")
    else:
        for text in subdomain(group):
            yield bad_value("spec.group", group, text)
        if "." not in group:
            yield bad_value("spec.group", group, "should be a domain with at least one dot")
    for field in ("plural", "singular", "kind", "listKind"):
        value = names.get(field) or ""
        if not value:
            yield required(f"spec.names.{field}")
            continue
        for text in label_1035(value.lower() if field in {"kind", "listKind"} else value):
            yield bad_value(f"spec.names.{field}", value, text)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        detail = "kind and listKind may not be the same"
        yield bad_value("spec.names.listKind", names["listKind"], detail)


def _versions(spec: _Object) -> Iterator[FieldError]:
    versions = spec.get("versions") or []
    if not versions:
        yield required("spec.versions", "must have exactly one version marked as storage version")
        return
    seen: set[str] = set()
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        name = version.get("name") or ""
        for text in label_1035(name):
            yield bad_value(f"{path}.name", name, text)
        if name in seen:
            yield duplicate(f"{path}.name", name)
        seen.add(name)
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is None:
            yield required(f"{path}.schema.openAPIV3Schema", "schemas are required")
            continue
        yield from check_schema(schema, f"{path}.schema.openAPIV3Schema", root=True)
        yield from _columns(version, path)
    if sum(1 for version in versions if version.get("storage")) != 1:
        detail = "must have exactly one version marked as storage version"
        yield bad_value("spec.versions", versions, detail)


def _columns(version: _Object, path: str) -> Iterator[FieldError]:
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        where = f"{path}.additionalPrinterColumns[{index}]"
        if not column.get("name"):
            yield required(f"{where}.name")
        allowed = ("boolean", "date", "integer", "number", "string")
        if not column.get("type"):
            yield required(f"{where}.type", f"must be one of {','.join(allowed)}")
        elif column["type"] not in allowed:
            yield bad_value(f"{where}.type", column["type"], f"must be one of {','.join(allowed)}")
        json_path = column.get("jsonPath")
        if not json_path:
            yield required(f"{where}.jsonPath")
        elif not json_path.startswith("."):
            yield bad_value(
                f"{where}.jsonPath", json_path, "must be a simple json path starting with ."
            )


def _conversion(conversion: _Object) -> Iterator[FieldError]:
    strategy = conversion.get("strategy")
    if strategy not in {None, "None", "Webhook"}:
        yield not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))
    webhook = conversion.get("webhook")
    if strategy == "Webhook":
        if not webhook or not webhook.get("clientConfig"):
            text = 'required when strategy is set to "Webhook"'
            yield required("spec.conversion.webhook.clientConfig", text)
        elif not webhook.get("conversionReviewVersions"):
            yield required("spec.conversion.webhook.conversionReviewVersions")
    elif webhook:
        text = 'should not be set when strategy is not set to "Webhook"'
        yield forbidden_field("spec.conversion.webhook", text)


def check_schema(
    schema: _Object, path: str, *, root: bool = False, nested: bool = False
) -> Iterator[FieldError]:
    """The rules of structural schemas; `nested` is inside allOf, anyOf, oneOf or not."""
    kind = schema.get("type")
    if nested:
        yield from _nested(schema, path)
    elif not kind and not schema.get("x-kubernetes-int-or-string"):
        if not schema.get("x-kubernetes-preserve-unknown-fields") or root:
            detail = (
                "must not be empty at the root"
                if root
                else "must not be empty for specified object fields"
            )
            detail = (
                "must not be empty for specified array items" if path.endswith(".items") else detail
            )
            yield required(f"{path}.type", detail)
    elif root and kind != "object":
        yield bad_value(f"{path}.type", kind, "must be object at the root")
    elif kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    if "$ref" in schema:
        yield forbidden_field(f"{path}.$ref", "$ref is not supported")
    if pattern := schema.get("pattern"):
        try:
            re.compile(pattern)
        except re.error as error:
            text = f"must be a valid regular expression, but isn't: {error}"
            yield bad_value(f"{path}.pattern", pattern, text)
    yield from _members(schema, path, nested=nested)


def _nested(schema: _Object, path: str) -> Iterator[FieldError]:
    for field in _STRUCTURAL_ONLY:
        if field in schema and not (field == "type" and schema.get("x-kubernetes-int-or-string")):
            if field == "type" and path.rpartition(".")[0].endswith("int"):
                continue
            yield forbidden_field(f"{path}.{field}", "must be empty to be structural")


def _members(schema: _Object, path: str, *, nested: bool) -> Iterator[FieldError]:
    properties = schema.get("properties") or {}
    if properties and schema.get("additionalProperties"):
        yield forbidden_field(
            f"{path}.additionalProperties",
            "additionalProperties and properties are mutual exclusive",
        )
    for name, member in properties.items():
        yield from check_schema(member, f"{path}.properties[{name}]", nested=nested)
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        yield from check_schema(extra, f"{path}.additionalProperties", nested=nested)
    items = schema.get("items")
    if isinstance(items, dict):
        yield from check_schema(items, f"{path}.items", nested=nested)
    elif schema.get("type") == "array" and not nested:
        yield required(f"{path}.items", "must be specified")
    yield from _list_keys(schema, path)
    if schema.get("x-kubernetes-int-or-string"):
        return
    for key in _KEYS:
        for index, member in enumerate(schema.get(key) or ()):
            yield from check_schema(member, f"{path}.{key}[{index}]", nested=True)
    if isinstance(schema.get("not"), dict):
        yield from check_schema(schema["not"], f"{path}.not", nested=True)


def _list_keys(schema: _Object, path: str) -> Iterator[FieldError]:
    kind = schema.get("x-kubernetes-list-type")
    if kind not in {None, "atomic", "map", "set"}:
        yield not_supported(f"{path}.x-kubernetes-list-type", kind, ("atomic", "map", "set"))
    keys = schema.get("x-kubernetes-list-map-keys") or []
    if kind == "map" and not keys:
        text = "must not be empty if x-kubernetes-list-type is map"
        yield required(f"{path}.x-kubernetes-list-map-keys", text)
    items = schema.get("items") or {}
    needed = items.get("required") or []
    for key in keys if kind == "map" else ():
        member = (items.get("properties") or {}).get(key)
        if member is None:
            text = "entries must all be names of item properties"
            yield bad_value(f"{path}.x-kubernetes-list-map-keys", keys, text)
        elif key not in needed and "default" not in member:
            yield required(
                f"{path}.items.properties[{key}].default",
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            )


def check_definition_update(new: _Object, old: _Object) -> Iterator[FieldError]:
    """Scope and names stay once established; stored versions stay in the list."""
    established = any(
        item.get("type") == "Established" and item.get("status") == "True"
        for item in (old.get("status") or {}).get("conditions") or ()
    )
    if new["spec"].get("group") != old["spec"].get("group"):
        yield bad_value("spec.group", new["spec"].get("group"), "field is immutable")
    if new["spec"]["names"].get("plural") != old["spec"]["names"].get("plural"):
        plural = new["spec"]["names"].get("plural")
        yield bad_value("spec.names.plural", plural, "field is immutable")
    if established and new["spec"].get("scope") != old["spec"].get("scope"):
        yield bad_value("spec.scope", new["spec"].get("scope"), "field is immutable")
    if established and new["spec"]["names"].get("kind") != old["spec"]["names"].get("kind"):
        yield bad_value("spec.names.kind", new["spec"]["names"].get("kind"), "field is immutable")
    listed = {version.get("name") for version in new["spec"].get("versions") or ()}
    for index, name in enumerate((old.get("status") or {}).get("storedVersions") or ()):
        if name not in listed:
            text = "missing from spec.versions; "
            text += f"{name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            yield bad_value(f"status.storedVersions[{index}]", name, text)
