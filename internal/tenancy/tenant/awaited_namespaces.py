"""Namespaces that do not exist, as what tenants wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.cache.cache import Cache
from ctrlruntime.cache.events import Event
from ctrlruntime.client.errors import APIError, Forbidden, NotFound

NAMESPACE: Final = BUILTIN[GroupVersionKind("", "v1", "Namespace")]


def lacks_namespace(error: APIError) -> bool:
    """Return whether an object was refused for its namespace, which is not there or is being deleted."""
    if isinstance(error, NotFound):
        return error.details.get("kind") == "namespaces"
    return isinstance(error, Forbidden) and error.has_cause("NamespaceTerminating")


@dataclass(slots=True)
class AwaitedNamespaces:
    """Watches Namespaces, their metadata alone, from the first tenant on that waits for one.

    A manager of some namespaces only may have no right to that: there the tenant's own retries remain.
    """

    cache: Cache
    on_event: Callable[[RESTMapping, Event], None]
    _watches: bool = False

    def watch(self, awaited: Iterable[tuple[RESTMapping, str, str]]) -> None:
        """Watch Namespaces if one of the objects that a tenant waits for is one."""
        if self._watches or self.cache.options.namespaces:
            return
        if any(mapping.gvk == NAMESPACE.gvk for mapping, _, _ in awaited):
            self._watches = True
            handle = self.cache.declare(NAMESPACE, metadata_only=True, optional=True)
            handle.informer.add_handler(lambda event: self.on_event(NAMESPACE, event))
