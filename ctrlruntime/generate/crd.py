"""CustomResourceDefinitions from typed kinds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ctrlruntime.api.kinds import GroupKind, Manifest
from ctrlruntime.api.markers import RULES, PrintColumn
from ctrlruntime.api.resource import KindOptions, NoStatus, Resource

from .errors import SchemaError
from .jsonschema import json_schema_of
from .lint import check_rules
from .structural import Found, Schema, SchemaOptions, Structural

__all__ = ["SchemaOptions", "crd_of", "crds_of", "file_name", "open_api_schema"]

Kind = type[Resource[Any, Any]]

_API_VERSION = {
    "description": (
        "APIVersion defines the versioned schema of this representation of an object.\n"
        "Servers convert recognized schemas to the latest internal value and may reject "
        "unrecognized ones."
    ),
    "type": "string",
}
_KIND = {
    "description": (
        "Kind is the REST resource that this object represents, in CamelCase. It cannot be updated."
    ),
    "type": "string",
}
_HEAD: dict[str, Schema] = {
    "apiVersion": _API_VERSION,
    "kind": _KIND,
    "metadata": {"type": "object"},
}


def open_api_schema(kind: Kind, options: SchemaOptions | None = None) -> tuple[Schema, Found]:
    """Return the structural schema of a kind, and the columns and selectable fields found in it.

    Raises SchemaError, naming the field, for a type without a structural form.
    """
    options = options or SchemaOptions()
    raw = json_schema_of(kind)
    structural = Structural(raw.get("$defs", {}), options)
    root = dict(_resolved(raw))
    properties: Schema = {key: dict(value) for key, value in _HEAD.items()}
    required: list[str] = []
    for key, value in root["properties"].items():
        if key in _HEAD or (key == "status" and not _has_status(kind)):
            continue
        properties[key] = structural.convert(
            value,
            name=f"{kind.__name__}.{key}",
            json_path=f".{key}",
            defaults=key != "status",
        )
        if key in root.get("required", ()) and (key != "spec" or "required" in properties[key]):
            required.append(key)
    schema: Schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = sorted(required)
    description = structural.convert(
        {"type": "object", "properties": {}, "description": root.get("description", "")},
        name=kind.__name__,
        json_path=None,
    ).get("description")
    if description:
        schema["description"] = description
    if RULES in root:
        schema[RULES] = root[RULES]
    check_rules(schema, kind.__name__)
    return schema, structural.found


def crd_of(kinds: Sequence[Kind], options: SchemaOptions | None = None) -> Manifest:
    """Return the CRD of one kind, from one class for each of its versions.

    Raises SchemaError if the classes do not agree on names and scope, if not exactly one is the
    stored version, or if none is served.
    """
    versions = sorted(kinds, key=lambda kind: kind.gvk())
    _check_versions(versions)
    stored = next(kind for kind in versions if kind.options().storage)
    first = stored.options()
    names: dict[str, Any] = {
        "kind": first.gvk.kind,
        "listKind": first.list_kind,
        "plural": first.plural,
        "singular": first.singular,
    }
    if first.short_names:
        names["shortNames"] = list(first.short_names)
    if first.categories:
        names["categories"] = list(first.categories)
    metadata: dict[str, Any] = {"name": f"{first.plural}.{first.gvk.group}"}
    for key in ("annotations", "labels"):
        merged = {k: v for kind in versions for k, v in getattr(kind.options(), key).items()}
        if merged:
            metadata[key] = merged
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": first.gvk.group,
            "names": names,
            "scope": first.scope,
            "versions": [_version(kind, options) for kind in versions],
        },
    }


def crds_of(kinds: Iterable[Kind], options: SchemaOptions | None = None) -> list[Manifest]:
    """One CRD for each kind among the classes, in the order of their file names; versions that are skipped are left out."""
    grouped: dict[GroupKind, list[Kind]] = {}
    for kind in kinds:
        if kind.options().skip:
            continue
        grouped.setdefault(kind.gvk().group_kind, []).append(kind)
    return sorted((crd_of(versions, options) for versions in grouped.values()), key=file_name)


def file_name(crd: Manifest) -> str:
    """``<group>_<plural>.yaml``, as controller-gen names them."""
    spec = crd["spec"]
    return f"{spec['group']}_{spec['names']['plural']}.yaml"


def _version(kind: Kind, options: SchemaOptions | None) -> dict[str, Any]:
    about = kind.options()
    schema, found = open_api_schema(kind, options)
    version: dict[str, Any] = {
        "name": about.gvk.version,
        "served": about.served,
        "storage": about.storage,
        "schema": {"openAPIV3Schema": schema},
    }
    if about.deprecated:
        version["deprecated"] = True
        if isinstance(about.deprecated, str):
            version["deprecationWarning"] = about.deprecated
    subresources = _subresources(about)
    if subresources:
        version["subresources"] = subresources
    columns = [*found.columns, *about.print_columns]
    if columns:
        version["additionalPrinterColumns"] = [_column(column) for column in columns]
    selectable = sorted({*found.selectable, *about.selectable_fields})
    if len(selectable) > 8:
        raise SchemaError(kind.__name__, "a kind has at most 8 selectable fields")
    if selectable:
        version["selectableFields"] = [{"jsonPath": path} for path in selectable]
    return version


def _subresources(about: KindOptions) -> dict[str, Any]:
    subresources: dict[str, Any] = {}
    if about.status:
        subresources["status"] = {}
    if about.scale:
        subresources["scale"] = {
            "specReplicasPath": about.scale.spec_replicas_path,
            "statusReplicasPath": about.scale.status_replicas_path,
        }
        if about.scale.label_selector_path:
            subresources["scale"]["labelSelectorPath"] = about.scale.label_selector_path
    return subresources


def _column(column: PrintColumn) -> dict[str, Any]:
    result: dict[str, Any] = {
        "name": column.name,
        "type": column.type or "string",
        "jsonPath": column.json_path,
    }
    if column.description:
        result["description"] = column.description
    if column.format:
        result["format"] = column.format
    if column.priority:
        result["priority"] = column.priority
    return result


def _check_versions(versions: Sequence[Kind]) -> None:
    if not versions:
        raise ValueError("a CRD needs at least one class")
    name = versions[0].__name__
    about = [kind.options() for kind in versions]
    if len({o.gvk.group_kind for o in about}) != 1:
        raise SchemaError(name, "classes of different kinds are no versions of one")
    for option in ("plural", "singular", "list_kind", "scope"):
        found = {o.gvk.version: str(getattr(o, option)) for o in about}
        if len(set(found.values())) != 1:
            texts = ", ".join(f"{text!r} in {version}" for version, text in found.items())
            raise SchemaError(name, f"{option} is {texts}: give its versions the same")
    if len({o.gvk.version for o in about}) != len(about):
        raise SchemaError(name, "two classes stand for the same version")
    stored = [o.gvk.version for o in about if o.storage]
    if len(stored) != 1:
        raise SchemaError(
            name,
            f"exactly one version is stored, here {', '.join(stored) or 'none'}: "
            "set storage=False on the others",
        )
    if not any(o.served for o in about):
        raise SchemaError(name, "at least one version must be served")


def _has_status(kind: Kind) -> bool:
    status = kind.model_fields["status"].annotation
    return not (isinstance(status, type) and issubclass(status, NoStatus))


def _resolved(raw: Schema) -> Schema:
    ref = raw.get("$ref")
    return raw["$defs"][ref.rpartition("/")[2]] if ref else raw
