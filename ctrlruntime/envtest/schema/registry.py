"""Where a server gets the schema of a kind from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.envtest.merge import fields
from ctrlruntime.envtest.merge.fields import FieldSet
from ctrlruntime.envtest.merge.typed import TypeNode
from ctrlruntime.envtest.schema import builtin, pruning
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
from ctrlruntime.envtest.schema.defaulting import default, drop_nulls
from ctrlruntime.envtest.schema.embedded import check_embedded, embedded_metadata, has_embedded
from ctrlruntime.envtest.schema.structural import Structural, merge_type
from ctrlruntime.envtest.schema.validation import (
    ABSENT,
    BLOCKING,
    NOWHERE,
    UNCHECKED,
    duplicates,
    validate,
)
from ctrlruntime.envtest.schema.zero import zero_value

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
