"""Whose object is it: the recorded owner key and UID, and what they allow.

Every object a :class:`~ctrlruntime.resources.control.Control` writes records its owner twice: by
key (`ctrlruntime.dev/owner`), which survives a backup and a restore, and by UID
(`ctrlruntime.dev/owner-uid`, and the owner reference where there is one), which does not.

- a live owner with another UID, or another key: a conflict, the object is left alone;
- our key, and no living object has the recorded UID: adopted;
- the recorded owner releases its objects to us (`Owner.predecessors`): adopted, alive or not;
- no record at all: foreign, unless our own server-side-apply entry shows that we wrote it.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final, Self

from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.api.resource import Resource
from ctrlruntime.cache.entry import Entry
from ctrlruntime.fast_dataclass import fast_dataclass

UNRECORDED: Final = "no recorded owner, as it was there before"
"""Whose an object is that has no trace of an owner. No advice to delete it: it may be another's disk."""
OWNER: Final = "ctrlruntime.dev/owner"
"""Annotation: the owner's key, `Kind.group/namespace/name`; of an owner in another cluster with `@` and its id."""
OWNER_UID: Final = "ctrlruntime.dev/owner-uid"
"""Annotation: the owner's UID at the time of the last write."""


@fast_dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The custom resource on whose behalf objects are written.

    `predecessors` are the UIDs of owners that hand their objects over to this one. `cluster` identifies the
    cluster of the owner where its objects are written to another one, such as by the UID of the namespace
    `kube-system`; it is part of the key, and no owner reference is possible then. Empty: the same cluster.
    """

    gvk: GroupVersionKind
    namespace: str
    name: str
    uid: str
    predecessors: frozenset[str] = frozenset()
    cluster: str = ""

    @classmethod
    def of(cls, obj: Resource[Any, Any] | Manifest | Entry) -> Self:
        """Return the owner that an object from the server is. Raises ValueError for one without a UID."""
        if isinstance(obj, Entry):
            gvk, namespace, name, uid = obj.gvk, obj.namespace, obj.name, obj.uid
        elif isinstance(obj, dict):
            metadata = obj.get("metadata") or {}
            gvk, namespace = GroupVersionKind.of(obj), metadata.get("namespace", "")
            name, uid = metadata.get("name", ""), metadata.get("uid", "")
        else:
            meta = obj.metadata
            gvk, namespace = type(obj).gvk(), meta.namespace or ""
            name, uid = meta.name or "", meta.uid or ""
        if not name or not uid:
            raise ValueError(
                f"{gvk.kind} {name!r} has no uid: the owner is an object as the server returned it"
            )
        return cls(gvk=gvk, namespace=namespace, name=name, uid=uid)

    @property
    def key(self) -> str:
        """`Kind.group/namespace/name`, of another cluster with `@` and its id: what identifies the owner across a restore."""
        return owner_key(self.gvk, self.name, namespace=self.namespace, cluster=self.cluster)


def owner_key(gvk: GroupVersionKind, name: str, *, namespace: str, cluster: str = "") -> str:
    """Return the key under which an owner is recorded: `Kind.group/namespace/name`, or with `@cluster` after it."""
    key = f"{gvk.group_kind}/{namespace}/{name}"
    return f"{key}@{cluster}" if cluster else key


@fast_dataclass(frozen=True, slots=True)
class OwnerKey:
    """The key of an owner, in its parts."""

    kind: str
    """`Kind.group`."""
    namespace: str
    name: str
    cluster: str = ""
    """The id of the owner's cluster, where the object is in another one."""

    @classmethod
    def parse(cls, key: str) -> Self | None:
        """Return the parts of what `owner_key` made; None for any other text."""
        place, _, cluster = key.partition("@")
        parts = place.split("/")
        if len(parts) != 3 or not parts[0] or not parts[2]:
            return None
        return cls(parts[0], parts[1], parts[2], cluster)

    @classmethod
    def of(cls, entry: Entry) -> Self | None:
        """Return the owner that an object records, or None."""
        return cls.parse(entry.annotations.get(OWNER, ""))


class Ownership(StrEnum):
    """What an object is to an owner."""

    OURS = "ours"
    ADOPTABLE = "adoptable"
    """Our key under a UID that no longer lives (restored from a backup, or kept as an orphan), or an object
    that its owner releases."""
    FOREIGN = "foreign"


@fast_dataclass(frozen=True, slots=True)
class OwnershipResult:
    """The standing of an object, and for a foreign one a phrase naming whose it is."""

    standing: Ownership
    holder: str = ""


def check_ownership(
    entry: Entry,
    owner: Owner,
    *,
    alive: Callable[[str], bool] = lambda _uid: False,
    wrote: bool = False,
    same: bool = False,
) -> OwnershipResult:
    """Decide what `entry` is to `owner`.

    `alive(uid)` returns whether some known object has that UID. `wrote`: the caller has its
    own record of having applied an object of that name, which counts together with our entry in its
    managed fields; `same` that this very object, by UID, was held before. Both are consulted only when
    every record on the object itself is gone. In doubt the object is foreign.
    """
    recorded_key = entry.annotations.get(OWNER)
    recorded_uid = entry.annotations.get(OWNER_UID)
    controller = next((ref for ref in entry.owners if ref.controller), None)
    if is_handed_over(entry, owner):
        return OwnershipResult(Ownership.ADOPTABLE)
    if controller is not None and controller.uid != owner.uid and alive(controller.uid):
        return OwnershipResult(Ownership.FOREIGN, f"{controller.kind} {controller.name!r}")
    if recorded_uid == owner.uid or (controller is not None and controller.uid == owner.uid):
        return OwnershipResult(Ownership.OURS)  # whatever became of the key
    if recorded_key == owner.key:
        if recorded_uid is not None and alive(recorded_uid):
            return OwnershipResult(Ownership.FOREIGN, f"another object of UID {recorded_uid}")
        return OwnershipResult(Ownership.ADOPTABLE)
    if recorded_key is not None:
        return OwnershipResult(Ownership.FOREIGN, recorded_key)
    if any(ref.uid == owner.uid for ref in entry.owners):
        return OwnershipResult(Ownership.OURS)
    if controller is not None:
        return OwnershipResult(Ownership.FOREIGN, f"{controller.kind} {controller.name!r}")
    if same or (wrote and entry.owned is not None):
        return OwnershipResult(Ownership.OURS)
    return OwnershipResult(Ownership.FOREIGN, UNRECORDED)


def is_controlled(entry: Entry, owner: Owner) -> bool:
    """Whether `entry` has the reference to `owner` as it is written: as controller, and blocking its deletion."""
    return any(
        ref.uid == owner.uid and ref.controller and ref.block_owner_deletion for ref in entry.owners
    )


def is_referenced(entry: Entry, owner: Owner) -> bool:
    """Whether `entry` has an owner reference to `owner`, or to a predecessor, from a place where one counts."""
    if owner.cluster or (owner.namespace and owner.namespace != entry.namespace):
        return False
    uids = {owner.uid, *owner.predecessors}
    return any(reference.uid in uids for reference in entry.owners)


def is_handed_over(entry: Entry, owner: Owner) -> bool:
    """Whether `entry` is still recorded as that of a predecessor of `owner`."""
    if not owner.predecessors:
        return False
    controller = next((ref for ref in entry.owners if ref.controller), None)
    if controller is not None and controller.uid != entry.annotations.get(OWNER_UID):
        return controller.uid in owner.predecessors
    return entry.annotations.get(OWNER_UID) in owner.predecessors
