"""Where a server gets the schema of a kind from."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.envtest.merge import fields
from ctrlruntime.envtest.merge.fields import FieldSet
from ctrlruntime.envtest.merge.typed import TypeNode
from ctrlruntime.envtest.schema import builtin, causes, pruning
from ctrlruntime.envtest.schema.builtin_fields import (
    BuiltinFields,
    FieldNode,
    mismatch,
    normalize,
    unknown,
    wrap_integers,
)
from ctrlruntime.envtest.schema.builtin_types import BuiltinTypes, PatchNode
from ctrlruntime.envtest.schema.causes import Cause
from ctrlruntime.envtest.schema.cel import has_rules, run_rules
from ctrlruntime.envtest.schema.structural import NO_DEFAULT, Structural, merge_type
from ctrlruntime.envtest.schema.validation import (
    ABSENT,
    BLOCKING,
    NOWHERE,
    UNCHECKED,
    duplicates,
    validate,
)
from ctrlruntime.envtest.schema.zero import zero_value

_KIND = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_BAD_KIND = (
    "may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case "
    "alphanumeric characters or '-', start with an alphabetic character, and end with an "
    "alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)

Manifest = dict[str, Any]


_STATUS = fields.of(("f:status",))
_SPEC = fields.of(("f:spec",))

_STATUS_WRITES: dict[tuple[str, str], FieldSet] = {
    ("apps", "Deployment"): fields.of(("f:spec",), ("f:metadata", "f:labels")),
    ("", "Pod"): fields.of(
        ("f:spec",),
        ("f:metadata", "f:deletionTimestamp"),
        ("f:metadata", "f:ownerReferences"),
    ),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): fields.of(("f:metadata",), ("f:spec",)),
}


def builtin_reset(gvk: GroupVersionKind, *, status: bool) -> dict[str, FieldSet]:
    """By subresource (the empty name: the resource itself); `status`: the kind has that one."""
    if not status:
        return {}
    return {"": _STATUS, "status": _STATUS_WRITES.get((gvk.group, gvk.kind), _SPEC)}


def custom_reset(*, status: bool) -> dict[str, FieldSet]:
    """For a custom kind with or without the status subresource."""
    if not status:
        return {}
    return {"": _STATUS, "status": fields.of(("f:metadata",), ("f:spec",))}


class TypeSchema:
    """The schema of one kind in one version, for merging, decoding and validation."""

    type: TypeNode
    patch: PatchNode | None = None
    """The strategic-merge view; None for custom kinds, which the server refuses to patch so."""

    def __init__(self, type_: TypeNode, reset: dict[str, FieldSet]) -> None:
        self.type = type_
        self._reset = reset

    def reset_fields(self, subresource: str) -> FieldSet:
        """Fields that writes to this (sub)resource ignore and so never own."""
        return self._reset.get(subresource, {})

    def empty(self) -> Manifest:
        """Return what an absent object counts as when its creation is tracked."""
        return {}

    def default(self, obj: Manifest) -> None:
        """Fill in defaults in place; custom kinds only."""

    def drop_nulls(self, obj: Manifest) -> None:
        """Remove nulls that are not allowed, in place, as decoding a body does; custom kinds."""

    def normalize(self, obj: Manifest) -> None:
        """Write quantities in canonical form and drop nulls, in place; built-in kinds only."""

    def mismatch(self, obj: Manifest) -> str | None:
        """Why the body does not decode into the kind (answer: 400)."""
        return None

    def wrap_integers(self, obj: Manifest) -> None:
        """Cut integers to the bits of their type, in place; built-in kinds only."""

    def prune(self, obj: Manifest) -> list[str]:
        """Remove unknown fields in place and return their paths."""
        raise NotImplementedError

    def unknown_fields(self, obj: Manifest) -> list[str]:
        """Paths of the fields that the schema does not know."""
        raise NotImplementedError

    def validate(
        self, obj: Manifest, old: Manifest | None = None, *, subresource: str = ""
    ) -> list[Cause]:
        """Return what is wrong with ``obj``; ``old``: the stored object of an update.

        A write to ``subresource`` "status" is held against the schema of the status alone.
        """
        raise NotImplementedError


class CustomSchema(TypeSchema):
    """A structural schema of a CRD version."""

    def __init__(
        self, raw: dict[str, Any], metadata: TypeNode, *, status: bool, object_meta: FieldNode
    ) -> None:
        self.structural = Structural(raw)
        self._metadata = object_meta
        self._rules = has_rules(self.structural)
        self._embeds = has_embedded(self.structural)
        super().__init__(
            merge_type(self.structural, metadata, root=True), custom_reset(status=status)
        )

    def default(self, obj: Manifest) -> None:
        default(obj, self.structural)

    def drop_nulls(self, obj: Manifest) -> None:
        drop_nulls(obj, self.structural)

    def mismatch(self, obj: Manifest) -> str | None:
        """Only the metadata of embedded objects is decoded; the rest is left to the validation."""
        if not self._embeds:
            return None
        for path, found in embedded_metadata(obj, self.structural, ""):
            if (first := mismatch(found, self._metadata)) is not None:
                inner, wrong, wanted = first
                go = f"json: cannot unmarshal {wrong} into Go struct field ObjectMeta.{inner}"
                shown = orjson.dumps(found).decode()
                return (
                    f"{path}: Invalid value: {shown}: {go} of type {_GO_TYPES.get(wanted, wanted)}"
                )
        return None

    def prune(self, obj: Manifest) -> list[str]:
        return pruning.prune(obj, self.structural, metadata=self._metadata)

    def unknown_fields(self, obj: Manifest) -> list[str]:
        return pruning.prune(obj, self.structural, metadata=self._metadata, remove=False)

    def validate(
        self, obj: Manifest, old: Manifest | None = None, *, subresource: str = ""
    ) -> list[Cause]:
        before: Any = ABSENT if old is None else old
        if subresource == "status":
            found = self._status_problems(obj, old or {})
        else:
            found = validate(obj, self.structural.raw, "", before)
        if self._embeds:
            found.extend(check_embedded(obj, self.structural, ""))
        # An object that had duplicates before, whichever they were, may have some.
        repeated = list(duplicates(obj, self.structural, ""))
        if repeated and (old is None or not any(duplicates(old, self.structural, ""))):
            found.extend(repeated)
        if self._rules:
            if any(cause.type in BLOCKING for cause in found):
                found.append(UNCHECKED)
            else:
                found.extend(run_rules(obj, self.structural, "", before))
        return found

    def _status_problems(self, obj: Manifest, old: Manifest) -> list[Cause]:
        """As upstream does it: the messages count from the status, the fields from the object."""
        node = self.structural.properties.get("status")
        if node is None or "status" not in obj:
            return []
        found = validate(obj["status"], node.raw, "", old.get("status", ABSENT))
        return [
            replace(cause, field=f"status.{cause.field}" if cause.field else "status")
            if cause.field != NOWHERE
            else cause
            for cause in found
        ]


class BuiltinSchema(TypeSchema):
    """A built-in kind. Values are validated by the server's own rules for each kind, not here."""

    def __init__(
        self,
        gvk: GroupVersionKind,
        source: builtin.Definitions,
        types: BuiltinTypes,
        nodes: BuiltinFields,
        *,
        status: bool,
    ) -> None:
        self.gvk = gvk
        self._name = source.name_of(gvk)
        self._nodes = nodes
        super().__init__(types.named(self._name), builtin_reset(gvk, status=status))
        self.patch = PatchNode(source, {"$ref": self._name})

    def empty(self) -> Manifest:
        declared = self._nodes.named(self._name).fields
        return {key: part for key, part in zero_value(self._name).items() if key in declared}

    def normalize(self, obj: Manifest) -> None:
        normalize(obj, self._nodes.named(self._name))

    def wrap_integers(self, obj: Manifest) -> None:
        wrap_integers(obj, self._nodes.named(self._name))

    def prune(self, obj: Manifest) -> list[str]:
        return sorted(unknown(obj, self._nodes.named(self._name), remove=True))

    def unknown_fields(self, obj: Manifest) -> list[str]:
        return sorted(unknown(obj, self._nodes.named(self._name)))

    def mismatch(self, obj: Manifest) -> str | None:
        first = mismatch(obj, self._nodes.named(self._name))
        if first is None:
            return None
        path, found, wanted = first
        if found == "text":
            return wanted
        go = _GO_TYPES.get(wanted, wanted)
        return f"json: cannot unmarshal {found} into Go struct field {path} of type {go}"


_GO_TYPES = {
    "integer": "int32",
    "number": "float64",
    "boolean": "bool",
    "array": "[]interface {}",
    "object": "map[string]interface {}",
}


class SchemaRegistry:
    """Schemas by kind, compiled at the first use and kept."""

    def __init__(self, source: builtin.Definitions | None = None) -> None:
        self._source = source or builtin.definitions()
        self._types = BuiltinTypes(self._source)
        self._nodes = BuiltinFields(self._source)
        self._builtin: dict[GroupVersionKind, BuiltinSchema] = {}
        self._custom: dict[tuple[bytes, bool], CustomSchema] = {}

    def for_builtin(self, gvk: GroupVersionKind, *, status: bool = True) -> TypeSchema:
        """Return the schema of a built-in kind; `status` as below. Raises `builtin.UnknownKind`."""
        found = self._builtin.get(gvk)
        if found is None:
            found = self._builtin[gvk] = BuiltinSchema(
                gvk, self._source, self._types, self._nodes, status=status
            )
        return found

    def for_crd_version(self, schema: dict[str, Any], *, status: bool = True) -> TypeSchema:
        """Return the schema of a CRD version from its ``openAPIV3Schema``.

        ``status``: the version has the status subresource, so that writes to the main resource
        leave ``status`` alone.
        """
        key = (orjson.dumps(schema), status)
        found = self._custom.get(key)
        if found is None:
            metadata = self._types.named(builtin.OBJECT_META)
            members = self._nodes.named(builtin.OBJECT_META)
            found = CustomSchema(schema, metadata, status=status, object_meta=members)
            self._custom[key] = found
        return found


def default(value: object, node: Structural) -> None:
    """Fill in the defaults of absent members (changes ``value``).

    A null for a member that is not nullable and has a default counts as absent.
    """
    if not node.has_defaults:
        return
    if isinstance(value, dict):
        _default_map(value, node)
    elif isinstance(value, list) and node.items is not None:
        for item in value:
            default(item, node.items)


def _default_map(value: dict[str, Any], node: Structural) -> None:
    for name, child in node.properties.items():
        if child.default is NO_DEFAULT:
            continue
        if name not in value or (value[name] is None and not child.nullable):
            value[name] = copy.deepcopy(child.default)
    for name, item in value.items():
        member = node.child(name)
        if member is None:
            continue
        if item is None and member.default is not NO_DEFAULT and not member.nullable:
            value[name] = copy.deepcopy(member.default)
        elif item is not None:
            default(item, member)


def drop_nulls(value: object, node: Structural) -> None:
    """Remove nulls of members that are neither nullable nor have a default (changes ``value``).

    The server does so when it decodes a body, but not to the result of an apply.
    """
    if isinstance(value, list):
        if node.items is not None:
            for item in value:
                drop_nulls(item, node.items)
        return
    if not isinstance(value, dict):
        return
    for name in list(value):
        member = node.child(name)
        if member is None:
            continue
        if value[name] is None:
            if not member.nullable and member.default is NO_DEFAULT:
                del value[name]
        else:
            drop_nulls(value[name], member)


def has_embedded(node: Structural) -> bool:
    """Whether there may be an embedded object anywhere."""
    return node.embedded or any(has_embedded(child) for child in node.children())


def check_embedded(value: object, node: Structural, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the apiVersion and kind of embedded objects."""
    if isinstance(value, list):
        if node.items is not None:
            for index, item in enumerate(value):
                yield from check_embedded(item, node.items, f"{path}[{index}]")
    elif isinstance(value, dict):
        if node.embedded:
            yield from _type_meta(value, path)
        for name, item in value.items():
            child = node.child(name)
            if child is not None and isinstance(item, dict | list):
                yield from check_embedded(item, child, f"{path}.{name}" if path else name)


def embedded_metadata(value: object, node: Structural, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the metadata of every embedded object and where it lies."""
    if isinstance(value, list):
        if node.items is not None:
            for index, item in enumerate(value):
                yield from embedded_metadata(item, node.items, f"{path}[{index}]")
    elif isinstance(value, dict):
        if node.embedded and "metadata" in value:
            yield f"{path}.metadata", value["metadata"]
        for name, item in value.items():
            child = node.child(name)
            if child is not None and isinstance(item, dict | list):
                yield from embedded_metadata(item, child, f"{path}.{name}" if path else name)


def _type_meta(value: dict[str, Any], path: str) -> Iterator[Cause]:
    version, kind = value.get("apiVersion"), value.get("kind")
    if not version:
        yield causes.required(f"{path}.apiVersion")
    elif isinstance(version, str) and version.count("/") > 1:
        detail = f"unexpected GroupVersion string: {version}"
        yield causes.invalid(f"{path}.apiVersion", version, detail)
    if not kind:
        yield causes.required(f"{path}.kind")
    elif isinstance(kind, str) and not (len(kind) <= 63 and _KIND.fullmatch(kind.lower())):
        yield causes.invalid(f"{path}.kind", kind, _BAD_KIND)
