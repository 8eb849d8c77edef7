"""CustomResourceDefinitions themselves: defaults and rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.name_rules import label_1035, subdomain
from ctrlruntime.envtest.schema.crd import validate_crd_schema
from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.errors import (
    FieldError,
    bad_value,
    duplicate,
    forbidden_field,
    not_supported,
    required,
)
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.kinds.kind import EXTENSION
from ctrlruntime.envtest.server.printers.column import CREATED_AT

_Object = dict[str, Any]


def _default(obj: Manifest) -> None:
    """Defaults of a definition: names, conversion, scope left as they are where given."""
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
    names = spec.get("names")
    if isinstance(names, dict) and names.get("kind"):
        if not names.get("singular"):
            names["singular"] = str(names["kind"]).lower()
        if not names.get("listKind"):
            names["listKind"] = f"{names['kind']}List"
    conversion = spec.setdefault("conversion", {"strategy": "None"})
    if isinstance(conversion, dict) and not conversion.get("strategy"):
        conversion["strategy"] = "None"


def _check(obj: _Object, prefix: str) -> Iterator[FieldError]:
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
    if spec.get("preserveUnknownFields"):
        text = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        yield bad_value("spec.preserveUnknownFields", True, text)


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
        mixed = field in {"kind", "listKind"}
        lead = "may have mixed case, but should otherwise match: " if mixed else ""
        for text in label_1035(value.lower() if mixed else value):
            yield bad_value(f"spec.names.{field}", value, lead + text)
    for field in ("shortNames", "categories"):
        for index, value in enumerate(names.get(field) or ()):
            for text in label_1035(value):
                yield bad_value(f"spec.names.{field}[{index}]", value, text)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        detail = "kind and listKind may not be the same"
        yield bad_value("spec.names.listKind", names["listKind"], detail)


def _versions(spec: _Object) -> Iterator[FieldError]:
    versions = spec.get("versions") or []
    if not versions:
        detail = "must have exactly one version marked as storage version"
        yield bad_value("spec.versions", [], detail)
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
    yield from _schemas(versions)
    yield from _columns(versions)
    yield from _scales(versions)
    if sum(1 for version in versions if version.get("storage")) != 1:
        detail = "must have exactly one version marked as storage version"
        yield bad_value("spec.versions", versions, detail)
    if not any(version.get("storage") for version in versions):
        yield bad_value("status.storedVersions", None, "must have at least one stored version")


def _shared(versions: list[_Object], field: str) -> bool:
    """Whether all versions agree: upstream then keeps, and reports, the value once."""
    return all(version.get(field) == versions[0].get(field) for version in versions)


def _schemas(versions: list[_Object]) -> Iterator[FieldError]:
    paths = [f"spec.versions[{i}].schema.openAPIV3Schema" for i in range(len(versions))]
    if _shared(versions, "schema") and versions[0].get("schema"):
        versions, paths = versions[:1], ["spec.validation.openAPIV3Schema"]
    for version, path in zip(versions, paths, strict=True):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        for cause in validate_crd_schema(schema, path):
            yield FieldError(cause.field, cause.type, cause.message)


def _columns(versions: list[_Object]) -> Iterator[FieldError]:
    field = "additionalPrinterColumns"
    if _shared(versions, field):
        yield from _column_list(versions[0].get(field), f"spec.{field}")
        return
    for index, version in enumerate(versions):
        yield from _column_list(version.get(field), f"spec.versions[{index}].{field}")


def _column_list(columns: list[_Object] | None, path: str) -> Iterator[FieldError]:
    for index, column in enumerate(columns or ()):
        where = f"{path}[{index}]"
        if not column.get("name"):
            yield required(f"{where}.name")
        allowed = ("boolean", "date", "integer", "number", "string")
        if not column.get("type"):
            yield required(f"{where}.type", f"must be one of {','.join(allowed)}")
        elif column["type"] not in allowed:
            yield bad_value(f"{where}.type", column["type"], f"must be one of {','.join(allowed)}")
        json_path = column.get("jsonPath")
        if not json_path:
            yield required(f"{where}.JSONPath")
        elif not json_path.startswith(".") or json_path.count("[") != json_path.count("]"):
            yield bad_value(
                f"{where}.JSONPath", json_path, "must be a simple json path starting with ."
            )


def _scales(versions: list[_Object]) -> Iterator[FieldError]:
    if _shared(versions, "subresources"):
        yield from _scale(versions[0], "spec.subresources")
        return
    for index, version in enumerate(versions):
        yield from _scale(version, f"spec.versions[{index}].subresources")


def _scale(version: _Object, path: str) -> Iterator[FieldError]:
    scale = (version.get("subresources") or {}).get("scale")
    if scale is None:
        return
    for field, roots in (
        ("specReplicasPath", (".spec.",)),
        ("statusReplicasPath", (".status.",)),
        ("labelSelectorPath", (".spec.", ".status.")),
    ):
        value, where = scale.get(field) or "", f"{path}.scale.{field}"
        if not value:
            if field != "labelSelectorPath":
                yield required(where)
        elif not value.startswith(roots):
            listed = " or ".join(root.rstrip(".") for root in roots)
            either = "either " if len(roots) > 1 else ""
            yield bad_value(where, value, f"should be a json path under {either}{listed}")


def _conversion(conversion: _Object) -> Iterator[FieldError]:
    strategy = conversion.get("strategy")
    if strategy not in {None, "None", "Webhook"}:
        yield not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))
    webhook = conversion.get("webhook")
    if strategy == "Webhook":
        if not webhook or not webhook.get("clientConfig"):
            text = "required when strategy is set to Webhook"
            yield required("spec.conversion.webhookClientConfig", text)
        if not (webhook or {}).get("conversionReviewVersions"):
            yield required("spec.conversion.conversionReviewVersions")
    elif webhook:
        text = "should not be set when strategy is not set to Webhook"
        for field, name in (
            ("clientConfig", "webhookClientConfig"),
            ("conversionReviewVersions", "conversionReviewVersions"),
        ):
            if webhook.get(field):
                yield forbidden_field(f"spec.conversion.{name}", text)


def _check_update(new: _Object, old: _Object) -> Iterator[FieldError]:
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


def _create(obj: Manifest) -> None:
    """Begin with the status of a definition before its names were checked."""
    versions = obj["spec"].get("versions") or ()
    stored = [version.get("name") for version in versions if version.get("storage")]
    obj["status"] = {"acceptedNames": {"kind": "", "plural": ""}, "storedVersions": stored}


CUSTOM_RESOURCE_DEFINITION: Final = builtin_kind(
    "apiextensions.k8s.io",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    "crd crds",
    subresources=("status",),
    **EXTENSION,
    defaults=Defaults(rules=(_default,)),
    before_create=_create,
    rules=Rules(checks=(_check,)),
    updates=(_check_update,),
    printer=CREATED_AT,
)
