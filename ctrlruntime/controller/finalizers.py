"""Finalizers by name, run in order when their object is being deleted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ctrlruntime.api import meta
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.resource import Resource

ObjT = TypeVar("ObjT", bound=Resource[Any, Any] | Manifest)

Finalizer = Callable[[ObjT], Awaitable[bool | None]]
"""Cleans up after an object that goes. True if it changed the object's status. Raises to be tried again."""


@dataclass(frozen=True, slots=True)
class Finalized:
    """What is left to write, and what went wrong."""

    changed: bool = False
    """The object's finalizers are others than before: it is to be updated."""
    status_changed: bool = False
    errors: tuple[Exception, ...] = ()

    def check(self) -> None:
        """Raises what failed, all of it, as an ExceptionGroup. Call it after writing the object."""
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

    async def run(self, obj: ObjT) -> Finalized:
        """Puts missing finalizers on an object that lives; cleans up after one that is being deleted.

        Changes ``obj`` and writes nothing. A finalizer that raises stays on the object, the others go on.
        """
        if not meta.is_deleting(obj):
            added = [name for name in self._finalizers if meta.add_finalizer(obj, name)]
            return Finalized(changed=bool(added))
        changed = status_changed = False
        errors: list[Exception] = []
        for name, finalizer in self._finalizers.items():
            if not meta.has_finalizer(obj, name):
                continue
            try:
                status_changed = bool(await finalizer(obj)) or status_changed
            except Exception as error:  # noqa: BLE001 - whatever fails, the others clean up
                error.add_note(f"finalizer {name}")
                errors.append(error)
            else:
                changed = meta.remove_finalizer(obj, name) or changed
        return Finalized(changed, status_changed, tuple(errors))
