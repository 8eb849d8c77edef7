"""Desired objects: what a builder makes and a control brings about."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, Final, Self

import msgspec
import orjson

from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupKind, GroupVersionKind, RESTMapping
from ctrlruntime.api.meta import OwnerNotAllowed
from ctrlruntime.api.resource import Resource, assumed_mapping, gvk_of
from ctrlruntime.cache.entry import Owner as Reference
from ctrlruntime.client.selectors import not_text
from ctrlruntime.fast_dataclass import fast_dataclass
from ctrlruntime.resources.builder_changes import INPUTS
from ctrlruntime.resources.ordinal import ORDINAL
from ctrlruntime.resources.ownership import OWNER, OWNER_UID, Owner
from ctrlruntime.resources.revision import REVISION, revision

Manifest = dict[str, Any]

INHERITED: Final = "ctrlruntime.dev/inherited-labels"
"""Annotation: names of the labels that an object has from its owner, by comma."""


@fast_dataclass(frozen=True, slots=True, order=True)
class ObjectKey:
    """Identity of an object within one cluster; its version does not count."""

    kind: GroupKind
    namespace: str = field(kw_only=True)
    name: str

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {place}"


class PatchStrategy(StrEnum):
    """How an object is written once it exists."""

    APPLY = "apply"
    """Server-side apply: fields we do not set stay with their owners."""
    MERGE = "merge"
    """JSON merge patch (RFC 7386): lists are replaced, other fields stay."""
    REPLACE = "replace"
    """Update of the whole object: fields we do not set are removed."""


@fast_dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """One desired object, without any tracking metadata in `manifest`.

    `ordinal` orders objects of one owner; creates and updates go up, deletes go down.
    `reference` gives the object a controller reference to its owner (same namespace only).
    `labels` and `annotations` are tracking metadata that is added to the manifest when written.
    `inherited` are labels of the owner that the object gets too, unless it has them itself. They are no part
    of the revision; their names are recorded, so that one that leaves the owner leaves the object.
    `instance` is the number of the instance that the object belongs to; it is recorded on it.
    `inputs` is the hash of what the builder was given (:func:`inputs_of`), recorded too: where it is
    that of the existing object, another revision is held back, unless `roll_on_builder_change`.
    """

    mapping: RESTMapping
    manifest: Manifest
    revision: str = ""
    ordinal: int = 0
    strategy: PatchStrategy = PatchStrategy.APPLY
    force: bool = False
    once: bool = False
    reference: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    """Paths (`spec.replicas`) whose loss is no drift; others may own them."""
    instance: int | None = None
    inputs: str = ""
    roll_on_builder_change: bool = False
    force_own_fields: bool = False
    inherited: Mapping[str, str] = field(default_factory=dict)
    name: str = field(init=False, repr=False, compare=False)
    namespace: str = field(init=False, repr=False, compare=False)
    """Empty for a cluster-scoped object."""
    key: ObjectKey = field(init=False, repr=False, compare=False)

    @classmethod
    def of(cls, obj: Resource[Any, Any]) -> Self:
        """Return the desired object that a typed one describes: what was set, without its status.

        ``dataclasses.replace`` sets the other fields.
        """
        manifest = obj.to_manifest()
        manifest.pop("status", None)
        return cls(mapping=obj.mapping(), manifest=manifest)

    def __post_init__(self) -> None:
        """Raise TypeError or ValueError, with what to write, for another mapping or manifest than is needed."""
        if not isinstance(self.mapping, RESTMapping):
            raise TypeError(_mapping_instead(self.mapping))
        if not isinstance(self.manifest, Mapping):
            raise TypeError(
                f"Desired(manifest=...) is a manifest, not a {type(self.manifest).__name__}: write "
                "manifest=obj.to_manifest()"
            )
        if not (self.manifest.get("metadata") or {}).get("name"):
            raise ValueError(
                "Desired(manifest=...) has no metadata.name: every desired object has one"
            )
        for where, texts in (("labels", self.labels), ("annotations", self.annotations)):
            for text, value in dict[str, object](texts).items():
                if not isinstance(value, str):
                    raise TypeError(not_text(f"Desired({where}=...)", text, value))
        if not self.revision:
            object.__setattr__(self, "revision", revision(self.manifest))
        metadata = self.manifest["metadata"]
        name, namespace = str(metadata["name"]), str(metadata.get("namespace") or "")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "namespace", namespace)
        key = ObjectKey(self.mapping.gvk.group_kind, name, namespace=namespace)
        object.__setattr__(self, "key", key)

    @property
    def records(self) -> dict[str, str]:
        """The annotations that are kept as they are given here, whatever the revision."""
        recorded = dict(self.annotations)
        if self.instance is not None:
            recorded[ORDINAL] = str(self.instance)
        if self.inputs:
            recorded[INPUTS] = self.inputs
        if self.inherited:
            recorded[INHERITED] = self.inherited_names
        return recorded

    @property
    def records_fields(self) -> bool:
        """Whether a write records which fields it sets: an apply in which another manager may dispute some."""
        forced = self.force or self.force_own_fields
        return self.strategy is PatchStrategy.APPLY and not forced

    @property
    def inherited_names(self) -> str:
        """The text of the annotation INHERITED; empty: it is not there."""
        return ",".join(sorted(self.inherited))

    def tracking(self, owner: Owner) -> dict[str, str]:
        """Return the annotations that record revision, owner, instance and inputs."""
        return {
            REVISION: self.revision,
            OWNER: owner.key,
            OWNER_UID: owner.uid,
            **self.records,
        }

    def check_reference(self, owner: Owner) -> None:
        """Raise OwnerNotAllowed if the object would get an owner reference to another namespace.

        The garbage collector deletes such an object, and each reconcile would create it again.
        """
        if not self.reference or not owner.namespace or owner.namespace == self.namespace:
            return
        where = f"namespace {self.namespace}" if self.namespace else "no namespace"
        raise OwnerNotAllowed(
            f"{self.key} is in {where} and cannot have an owner reference to {owner.key}: the garbage collector "
            "would delete it. Use Desired(reference=False) and delete it under a finalizer of the owner, or "
            "create it in the namespace of the owner"
        )

    def body(self, owner: Owner) -> Manifest:
        """Return the manifest as it is written: a fresh copy with tracking metadata. Raises OwnerNotAllowed."""
        self.check_reference(owner)
        manifest: Manifest = orjson.loads(orjson.dumps(self.manifest))
        metadata = manifest["metadata"]
        metadata["annotations"] = {
            **(metadata.get("annotations") or {}),
            **self.tracking(owner),
        }
        if self.labels or self.inherited:
            own = metadata.get("labels") or {}
            metadata["labels"] = {**self.inherited, **own, **self.labels}
        if self.reference:
            metadata["ownerReferences"] = [owner_reference(owner)]
        return manifest


def _mapping_instead(kind: object) -> str:
    """Return the message for what names a kind, and is no REST mapping."""
    if isinstance(kind, type):
        return (
            f"Desired(mapping={kind.__name__}) is a class: write mapping={kind.__name__}.mapping()"
        )
    if not isinstance(kind, str | GroupVersionKind):
        return f"Desired(mapping=...) is a RESTMapping, not {type(kind).__name__}"
    gvk = gvk_of(kind)
    name = f'GroupVersionKind("{gvk.group}", "{gvk.version}", "{gvk.kind}")'
    plural = assumed_mapping(gvk).plural
    known = f'RESTMapping({name}, "{plural}", True)' if gvk not in BUILTIN else f"BUILTIN[{name}]"
    return f"Desired(mapping={str(gvk)!r}) names a kind, and a mapping is needed: write mapping={known}"


def owner_reference(owner: Owner) -> dict[str, Any]:
    """Return the controller reference to `owner` as it stands in `metadata.ownerReferences`.

    Raises ValueError for an owner in another cluster: a garbage collector deletes what names an owner that
    its own cluster does not have.
    """
    if owner.cluster:
        raise ValueError(
            f"{owner.key} is in another cluster: an object of this one cannot have it as its owner "
            "reference; set reference=False"
        )
    return {
        "apiVersion": owner.gvk.api_version,
        "kind": owner.gvk.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def reference_manifest(reference: Reference) -> Manifest:
    """Return an owner reference of a cached object as it stands in `metadata.ownerReferences`."""
    fields = msgspec.to_builtins(reference)
    return {name: value for name, value in fields.items() if value is not None}
