"""What is new of an object since a reconcile of it last succeeded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Generic, cast

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.resource import TypedKindRef, gvk_of
from ctrlruntime.cache.entry import Entry, KindT
from ctrlruntime.resources.field_changes import FieldChange, field_changes

BOOKKEEPING: Final = ("resourceVersion", "generation", "managedFields")
"""Fields of the metadata that the server changes with every write."""


@dataclass(frozen=True, slots=True)
class ObjectChange(Generic[KindT]):
    """An object as the last successful reconcile found it, and as this one does: copies, to be changed at will."""

    old: KindT | None
    """None in the first pass of an object since the process started."""
    new: KindT | None
    """None if the object is gone."""
    diff: tuple[FieldChange, ...]
    """The fields that differ, in the order of their paths; empty without an `old`, or a `new`.
    The status is left out, and what the server counts up in the metadata."""


@dataclass(frozen=True, slots=True)
class Versions:
    """The two entries behind an `ObjectChange`, which are decoded when it is read."""

    old: Entry | None
    new: Entry | None

    def read_as(self, kind: TypedKindRef[KindT]) -> ObjectChange[KindT]:
        """Return the change. Raises LookupError for a kind other than the object's."""
        found = self.new or self.old
        if found is not None and found.gvk.group_kind != gvk_of(kind).group_kind:
            raise LookupError(
                f"this controller keeps objects of {found.gvk}, not of {gvk_of(kind)}"
            )
        diff: list[FieldChange] = []
        if self.old is not None and self.new is not None and self.old is not self.new:
            diff = field_changes(_essence(self.old), _essence(self.new))
        old, new = (None if each is None else _view(each, kind) for each in (self.old, self.new))
        return ObjectChange(old, new, tuple(diff))


def _view(entry: Entry, kind: TypedKindRef[KindT]) -> KindT:
    return cast("KindT", entry.typed(kind) if isinstance(kind, type) else entry.decode())


def _essence(entry: Entry) -> Manifest:
    manifest: dict[str, Any] = entry.decode()
    manifest.pop("status", None)
    for name in BOOKKEEPING:
        manifest["metadata"].pop(name, None)
    return manifest
