"""Finalizers by name, run in order when their object is being deleted."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ctrlruntime.api import meta
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.resource import Resource

ObjT = TypeVar("ObjT", bound=Resource[Any, Any] | Manifest)

Finalizer = Callable[[ObjT], Awaitable[object]]
"""Cleans up after an object that goes, and may change its status. Raises to be retried."""


@dataclass(frozen=True, slots=True)
class FinalizeResult:
    """What is left to write, and what went wrong."""

    changed: bool = False
    """The object's finalizers are others than before: they are to be written."""
    status_changed: bool = False
    """A finalizer changed the status, whether it failed or not. Write it first: without its last
    finalizer the object is gone."""
    errors: tuple[Exception, ...] = ()

    def check(self) -> None:
        """Raise what failed, all of it, as an ExceptionGroup. Call it after writing the object."""
        if self.errors:
            raise ExceptionGroup("finalizers failed", self.errors)


class Finalizers(Generic[ObjT]):
    """controller-runtime's finalizer registry, in the order of registration."""

    def __init__(self) -> None:
        self._finalizers: dict[str, Finalizer[ObjT]] = {}

    def register(self, name: str, finalizer: Finalizer[ObjT]) -> None:
        """ValueError for a name without a domain, or one that is taken."""
        if "/" not in name:
            raise ValueError(f"finalizer {name!r} needs a domain, for example example.com/cleanup")
        if name in self._finalizers:
            raise ValueError(f"finalizer {name!r} is registered already")
        self._finalizers[name] = finalizer

    async def run(self, obj: ObjT) -> FinalizeResult:
        """Put missing finalizers on an object that lives, clean up after one that is being deleted.

        Changes ``obj`` and writes nothing. A finalizer that raises stays on the object, and what it put
        into the status is reported; the others go on.
        """
        if not meta.is_deleting(obj):
            added = [name for name in self._finalizers if meta.add_finalizer(obj, name)]
            return FinalizeResult(changed=bool(added))
        changed = False
        before = _status(obj)
        errors: list[Exception] = []
        for name, finalizer in self._finalizers.items():
            if not meta.has_finalizer(obj, name):
                continue
            try:
                await finalizer(obj)
            except Exception as error:  # noqa: BLE001 - whatever fails, the others clean up
                error.add_note(f"finalizer {name}")
                errors.append(error)
            else:
                changed = meta.remove_finalizer(obj, name) or changed
        return FinalizeResult(changed, _status(obj) != before, tuple(errors))


def _status(obj: Resource[Any, Any] | Manifest) -> object:
    """Return a copy of the status."""
    return copy.deepcopy(obj.status if isinstance(obj, Resource) else obj.get("status"))
