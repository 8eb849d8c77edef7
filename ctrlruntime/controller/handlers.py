"""Which requests an event leads to."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.api.resource import KindRef, mapping_of
from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.events import Event, Updated
from ctrlruntime.controller.intake import EventQueue, Handler
from ctrlruntime.controller.predicates import entry_of
from ctrlruntime.queue import Request

MapFunc = Callable[[Entry], Iterable[Request]]


def enqueue_self(event: Event, queue: EventQueue) -> None:
    """Requests the object itself. A generic event may name it by key alone."""
    entry = entry_of(event)
    if entry is not None:
        queue.add(Request(entry.namespace, entry.name, queue.cluster))
        return
    key = getattr(event, "key", None)
    if key is not None:
        queue.add(Request(key[0], key[1], queue.cluster))


def enqueue_owner(kind: KindRef, *, controller_only: bool = True) -> Handler:
    """Requests the owners of kind ``kind``: of an update those of the old and of the new object.

    Group and kind are compared, never the version. With ``controller_only`` only the owner reference
    marked as controller counts. Raises ValueError for a kind whose scope is not known here.
    """
    owner_kind = known_mapping(kind)
    return enqueue_mapped(lambda entry: _owners(entry, owner_kind, controller_only))


def enqueue_mapped(fn: MapFunc) -> Handler:
    """Requests what ``fn`` finds for the object: of an update for the old and the new, each once.

    Requests of the source's own cluster may leave ``cluster`` empty.
    """

    def handle(event: Event, queue: EventQueue) -> None:
        if isinstance(event, Updated):
            found = dict.fromkeys(fn(event.old))
            found.update(dict.fromkeys(fn(event.new)))
        else:
            entry = entry_of(event)
            if entry is None:
                return
            found = dict.fromkeys(fn(entry))
        for request in found:
            if queue.cluster and not request.cluster:
                request = Request(request.namespace, request.name, queue.cluster)
            queue.add(request)

    return handle


def known_mapping(kind: KindRef) -> RESTMapping:
    """The mapping of a kind that needs no question to a server.

    Raises ValueError, naming the fix, for a GroupVersionKind that is not built in, and pydantic's
    errors for a class with a field that it cannot read.
    """
    if isinstance(kind, type):
        kind.model_rebuild()  # what is wrong with its fields is told now, not by the first object
    mapping = mapping_of(kind)
    if mapping is None:
        raise ValueError(
            f"{kind} is not a built-in kind: pass its Resource class or a RESTMapping, "
            "which says how it is served"
        )
    return mapping


def _owners(entry: Entry, kind: RESTMapping, controller_only: bool) -> list[Request]:
    namespace = entry.namespace if kind.namespaced else ""
    return [
        Request(namespace, owner.name)
        for owner in entry.owners
        if owner.kind == kind.gvk.kind
        and owner.group == kind.gvk.group
        and (owner.controller or not controller_only)
    ]
