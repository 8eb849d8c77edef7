"""Objects of one instance in its cluster: applied and pruned; never those of others."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from apis.cloud import GROUP
from ctrlruntime.api.kinds import GroupKind, Manifest, RESTMapping
from ctrlruntime.client import Client
from ctrlruntime.client.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Invalid,
    NoKindMatch,
    NotFound,
)
from ctrlruntime.gate import Cause
from ctrlruntime.resources import evidence_of, removal_of, remove_object
from internal.cloud.tasks.kubernetes.documents import Document, ObjectRef, unique
from internal.cloud.tasks.kubernetes.inventory import FIELD_MANAGER, OWNER, WORKLOAD
from internal.cloud.tasks.task import TaskError, TaskRejected

UPGRADES: Final = f"{GROUP}/upgrades"
"""Label of what upgrades leave in the cluster, which goes with the workload: the key of the instance."""
PRUNE: Final = f"{GROUP}/prune"
"""Annotation of an object: "false" keeps it when it leaves the bundle; "true" lets even a kind go that
holds data."""
KEPT_KINDS: Final = frozenset(
    {"Namespace", "CustomResourceDefinition", "PersistentVolumeClaim", "PersistentVolume"}
)
"""Kinds whose end is the end of data: they go only if they say so themselves."""

_FIRST_CONTACT: Final = "1"
_FIRST: Final[Sequence[frozenset[str]]] = (
    frozenset({"Namespace"}),
    frozenset({"CustomResourceDefinition"}),
    frozenset({"PriorityClass", "StorageClass", "IngressClass", "RuntimeClass"}),
    frozenset({"ResourceQuota", "LimitRange", "NetworkPolicy"}),
    frozenset({"ServiceAccount", "ClusterRole", "Role"}),
    frozenset({"ClusterRoleBinding", "RoleBinding"}),
    frozenset({"ConfigMap", "Secret"}),
    frozenset({"PersistentVolume", "PersistentVolumeClaim"}),
    frozenset({"Service"}),
    frozenset({"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Pod", "Job", "CronJob"}),
    frozenset({"PodDisruptionBudget", "HorizontalPodAutoscaler", "Ingress"}),
)
_WEBHOOKS: Final = frozenset({"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"})
AWAITED: Final = frozenset({"Namespace", "CustomResourceDefinition"})
"""Kinds that must be ready before anything of a later rank is applied."""


def annotations_of(manifest: Mapping[str, object]) -> Mapping[str, object]:
    """Return the annotations of a live object."""
    metadata = manifest.get("metadata")
    found = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def prunable(kind: str, annotations: Mapping[str, object], owner: str) -> bool:
    """Whether a live object may be deleted: it is this instance's, and does not say otherwise."""
    if annotations.get(OWNER) != owner:
        return False
    wish = annotations.get(PRUNE)
    return wish == "true" or (wish != "false" and kind not in KEPT_KINDS)


_Names: TypeAlias = tuple[str, bool]
"""Plural, and whether it is namespaced."""


@dataclass(slots=True)
class Applied:
    """What became of the objects."""

    written: dict[ObjectRef, Manifest] = field(default_factory=dict)
    """As the server answered."""
    changed: int = 0
    pruned: list[ObjectRef] = field(default_factory=list)
    kept: list[ObjectRef] = field(default_factory=list)
    """Left the bundle, and are not deleted: they hold data, are annotated, have another owner, or were not written by it."""


@dataclass(frozen=True, slots=True)
class Located:
    """A document and where its object lives."""

    ref: ObjectRef
    mapping: RESTMapping
    document: Document


class Objects:
    """The objects of one owner in one cluster."""

    def __init__(
        self,
        client: Client,
        *,
        owner: str,
        key: str,
        namespace: str,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """`owner`: namespace and name of the instance. `key`: its key. `namespace`: for manifests that name none.

        `labels`: further ones of every object.
        """
        self._client = client
        self._labels = {**(labels or {}), WORKLOAD: key}
        self._owner = owner
        self._key = key
        self._namespace = namespace

    async def locate(self, documents: Iterable[Document]) -> list[Located]:
        """Where each document's object lives, in the order of application.

        Kinds that a document itself defines need not be served yet. Raises TaskRejected for what cannot be
        applied.
        """
        documents = list(documents)
        defined = dict(filter(None, (_defined(document.manifest) for document in documents)))
        located = [await self._located(document, defined) for document in documents]
        unique([(each.ref, each.document) for each in located])
        return sorted(located, key=lambda each: (rank(each.ref.kind), each.ref))

    async def _located(self, document: Document, defined: Mapping[GroupKind, _Names]) -> Located:
        gvk = document.gvk
        try:
            mapping = await self._client.mapper.resolve(gvk)
        except NoKindMatch as error:
            known = defined.get(gvk.group_kind)
            if known is None:
                raise TaskError(
                    f"{document.source}: the cluster serves no {gvk.kind} of {gvk.api_version};"
                    " add its CustomResourceDefinition to the bundle, or install it"
                ) from error
            mapping = RESTMapping(gvk, *known)
        metadata = document.manifest["metadata"]
        namespace = str(metadata.get("namespace") or self._namespace) if mapping.namespaced else ""
        return Located(
            ObjectRef(gvk.group, gvk.kind, namespace, metadata["name"]), mapping, document
        )

    async def apply(self, located: Located, into: Applied) -> None:
        """Apply one object. Raises TaskRejected if it has another owner or is not valid."""
        manifest = self._stamped(located)
        for _ in range(3):
            live = await self._metadata(located)
            try:
                if live is None:
                    answer = await self._create(located, manifest)
                else:
                    self._check_ours(located, live)
                    answer = await self._client.apply(
                        manifest, kind=located.mapping, field_manager=FIELD_MANAGER, force=True
                    )
            except (AlreadyExists, Conflict):
                continue
            except (Invalid, BadRequest) as error:
                raise TaskRejected(f"{located.document.source}: {located.ref}: {error}") from error
            into.written[located.ref] = answer
            into.changed += live is None or _version(live) != _version(answer)
            return
        raise TaskError(f"{located.ref} changes all the time: another client writes it too")

    async def _create(self, located: Located, manifest: Manifest) -> Manifest:
        """Return a first apply, which creates or fails with Conflict if another client was faster."""
        first = copy.copy(manifest)
        first["metadata"] = {**manifest["metadata"], "resourceVersion": _FIRST_CONTACT}
        return await self._client.apply(first, kind=located.mapping, field_manager=FIELD_MANAGER)

    def _stamped(self, located: Located) -> Manifest:
        manifest = copy.deepcopy(located.document.manifest)
        metadata = manifest["metadata"]
        if located.ref.namespace:
            metadata["namespace"] = located.ref.namespace
        for field_name in ("resourceVersion", "uid", "managedFields", "creationTimestamp"):
            metadata.pop(field_name, None)
        manifest.pop("status", None)
        metadata["annotations"] = {**(metadata.get("annotations") or {}), OWNER: self._owner}
        metadata["labels"] = {**(metadata.get("labels") or {}), **self._labels}
        return manifest

    def _check_ours(self, located: Located, live: Manifest) -> None:
        found = annotations_of(live).get(OWNER)
        if found == self._owner:
            return
        who = f"belongs to instance {found}" if found else "was not made by this control plane"
        raise TaskRejected(
            f"{located.ref} exists and {who}, so it is left alone: delete it, leave it out of the"
            f" bundle, or hand it over with the annotation {OWNER}={self._owner}"
        )

    async def prune(self, refs: Iterable[ObjectRef], into: Applied) -> None:
        """Delete what left the bundle, last applied first; only own objects that may go."""
        for ref in sorted(refs, key=lambda ref: (rank(ref.kind), ref), reverse=True):
            mapping, live = await self.find(ref)
            if live is None or mapping is None:
                continue
            if not prunable(ref.kind, annotations_of(live), self._owner):
                into.kept.append(ref)
                continue
            # The inventory has names, some of objects that were never written: a person's may have one of them.
            evidence = evidence_of(live["metadata"], (FIELD_MANAGER,))
            removal = removal_of(mapping, live["metadata"], Cause.SPEC_CHANGED, evidence)
            try:
                held = await remove_object(self._client, mapping, removal, propagation="Background")
            except (NotFound, Conflict):
                continue
            (into.kept if held else into.pruned).append(ref)

    async def find(self, ref: ObjectRef) -> tuple[RESTMapping | None, Manifest | None]:
        """Return the metadata of an object, and how to name its kind; None for what is not there."""
        try:
            mapping = await self._client.mapper.resolve(GroupKind(ref.group, ref.kind))
            live = await self._client.get(
                mapping, ref.name, namespace=ref.namespace or None, metadata_only=True
            )
        except (NoKindMatch, NotFound):
            return None, None
        return mapping, live

    async def _metadata(self, located: Located) -> Manifest | None:
        try:
            return await self._client.get(
                located.mapping,
                located.ref.name,
                namespace=located.ref.namespace or None,
                metadata_only=True,
            )
        except NotFound:
            return None


def _defined(manifest: Manifest) -> tuple[GroupKind, _Names] | None:
    """Return the kind that a CustomResourceDefinition brings."""
    spec = manifest.get("spec")
    names = spec.get("names") if isinstance(spec, dict) else None
    if manifest.get("kind") != "CustomResourceDefinition":
        return None
    if not isinstance(spec, dict) or not isinstance(names, dict):
        return None
    kind = GroupKind(str(spec.get("group", "")), str(names.get("kind", "")))
    return kind, (str(names.get("plural", "")), spec.get("scope") != "Cluster")


def _version(manifest: Manifest) -> str:
    return str(manifest["metadata"].get("resourceVersion", ""))


def rank(kind: str) -> int:
    """Lower ranks first. Kinds of one's own come after the known ones, webhooks last of all."""
    if kind in _WEBHOOKS:
        return len(_FIRST) + 1
    for number, kinds in enumerate(_FIRST):
        if kind in kinds:
            return number
    return len(_FIRST)
