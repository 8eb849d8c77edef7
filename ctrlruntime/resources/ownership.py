"""Whose object is it: the recorded owner key and UID, and what they allow.

Every object a :class:`~ctrlruntime.resources.control.Control` writes records its owner twice: by
key (`ctrlruntime.dev/owner`), which survives a backup and a restore, and by UID
(`ctrlruntime.dev/owner-uid`, and the owner reference where there is one), which does not.

- a live owner with another UID, or another key: a conflict, the object is left alone;
- our key, and no living object has the recorded UID: adopted;
- no record at all: foreign, unless our own server-side-apply entry shows that we wrote it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.entry import Entry

OWNER: Final = "ctrlruntime.dev/owner"
"""Annotation: the owner's key, `Kind.group/namespace/name`."""
OWNER_UID: Final = "ctrlruntime.dev/owner-uid"
"""Annotation: the owner's UID at the time of the last write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The custom resource on whose behalf objects are written."""

    gvk: GroupVersionKind
    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        """`Kind.group/namespace/name`: what identifies the owner across a restore."""
        return owner_key(self.gvk, self.namespace, self.name)


def owner_key(gvk: GroupVersionKind, namespace: str, name: str) -> str:
    """The key under which an owner is recorded: `Kind.group/namespace/name`."""
    return f"{gvk.group_kind}/{namespace}/{name}"


class Standing(StrEnum):
    """What an object is to an owner."""

    OURS = "ours"
    ADOPTABLE = "adoptable"
    """Our key under a UID that no longer lives: restored from a backup, or kept as an orphan."""
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The standing of an object, and for a foreign one a phrase naming whose it is."""

    standing: Standing
    holder: str = ""


def judge(
    entry: Entry,
    owner: Owner,
    *,
    alive: Callable[[str], bool] = lambda _uid: False,
    wrote: bool = False,
    same: bool = False,
) -> Verdict:
    """Decide what `entry` is to `owner`.

    `alive(uid)` tells whether some known object has that UID. `wrote` says that the caller has its
    own record of having applied an object of that name, which counts together with our entry in its
    managed fields; `same` that this very object, by UID, was ours. Both are consulted only when
    every record on the object itself is gone. In doubt the object is foreign.
    """
    recorded_key = entry.annotations.get(OWNER)
    recorded_uid = entry.annotations.get(OWNER_UID)
    controller = next((ref for ref in entry.owners if ref.controller), None)
    if controller is not None and controller.uid != owner.uid and alive(controller.uid):
        return Verdict(Standing.FOREIGN, f"{controller.kind} {controller.name!r}")
    if recorded_uid == owner.uid or (controller is not None and controller.uid == owner.uid):
        return Verdict(Standing.OURS)  # whatever became of the key
    if recorded_key == owner.key:
        if recorded_uid is not None and alive(recorded_uid):
            return Verdict(Standing.FOREIGN, f"another object of UID {recorded_uid}")
        return Verdict(Standing.ADOPTABLE)
    if recorded_key is not None:
        return Verdict(Standing.FOREIGN, recorded_key)
    if any(ref.uid == owner.uid for ref in entry.owners):
        return Verdict(Standing.OURS)
    if controller is not None:
        return Verdict(Standing.FOREIGN, f"{controller.kind} {controller.name!r}")
    if same or (wrote and entry.owned is not None):
        return Verdict(Standing.OURS)
    return Verdict(Standing.FOREIGN, "nobody recorded")
