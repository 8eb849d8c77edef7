"""Which requests an event leads to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from itertools import chain
from typing import cast

from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.api.resource import KindRef, Resource, assumed_mapping, gvk_of, mapping_of
from ctrlruntime.cache.entry import Entry, KindT
from ctrlruntime.cache.events import Event
from ctrlruntime.cache.usercode import is_coroutine_function
from ctrlruntime.controller.event_dispatch import EventQueue, Handler
from ctrlruntime.controller.predicates import entries_of, entry_of
from ctrlruntime.queue import Request, RequestT

MapFunc = Callable[[Entry[KindT]], Iterable[RequestT]]
AsyncMapFunc = Callable[[Entry[KindT]], Awaitable[Iterable[RequestT]]]


def enqueue_object(event: Event, queue: EventQueue[Request]) -> None:
    """Request the object itself. A generic event may name it by key alone."""
    entry = entry_of(event)
    if entry is not None:
        queue.add(Request(entry.name, namespace=entry.namespace, cluster=queue.cluster))
        return
    key = getattr(event, "key", None)
    if key is not None:
        queue.add(Request(key[1], namespace=key[0], cluster=queue.cluster))


def enqueue_owner(
    kind: KindRef,
    *,
    controller_only: bool = True,
    mapping: Callable[[], RESTMapping] | None = None,
) -> Handler:
    """Request the owners of kind ``kind``: of an update those of the old and of the new object.

    Group and kind are compared, never the version. With ``controller_only`` only the owner reference
    marked as controller counts. ``mapping`` returns how the kind is served, as far as is known when an
    event comes; without it, ValueError is raised for a kind whose scope is only known to a server.
    """
    if mapping is None:
        known = known_mapping(kind)
        return enqueue_map_func(lambda entry: _owners(entry, known, controller_only))
    return enqueue_map_func(lambda entry: _owners(entry, mapping(), controller_only))


def enqueue_map_func(
    fn: MapFunc[KindT, RequestT] | AsyncMapFunc[KindT, RequestT],
    *,
    cluster: str | None = None,
) -> Handler[KindT, RequestT]:
    """Request what ``fn`` finds for the object: of an update for the old and the new, each once.

    Requests without a ``cluster`` are for the one given here, where "" is the manager's own, and by
    default for the source's. ``fn`` may be a coroutine function,
    which reads from a server or a database; it runs beside the informer, at most 16 at a time in a
    controller, and the requests are added when it returns. An exception of ``fn`` loses this event only:
    at once, or, where ``fn`` awaits, after it was retried for about six minutes.
    """
    if is_coroutine_function(fn):
        asynchronous = cast("AsyncMapFunc[KindT, RequestT]", fn)

        def defer(event: Event[KindT], queue: EventQueue[RequestT]) -> None:
            async def map_all() -> None:
                found = [await asynchronous(entry) for entry in entries_of(event)]
                _add_all(found, queue, cluster)

            queue.defer(map_all)

        return defer
    synchronous = cast("MapFunc[KindT, RequestT]", fn)

    def handle(event: Event[KindT], queue: EventQueue[RequestT]) -> None:
        _add_all([synchronous(entry) for entry in entries_of(event)], queue, cluster)

    return handle


def _add_all(
    found: Iterable[Iterable[RequestT]], queue: EventQueue[RequestT], cluster: str | None
) -> None:
    cluster = queue.cluster if cluster is None else cluster
    for request in dict.fromkeys(chain.from_iterable(found)):
        queue.add(_in_cluster(request, cluster))


def _in_cluster(request: RequestT, cluster: str) -> RequestT:
    if cluster and isinstance(request, Request) and not request.cluster:
        return replace(request, cluster=cluster)
    return request


def known_mapping(kind: KindRef) -> RESTMapping:
    """Return the mapping of a kind that needs no question to a server.

    Raises ValueError, naming the fix, for what is no kind and for a name that is not that of a built-in
    kind, and pydantic's errors for a class with a field that it cannot read.
    """
    mapping = mapping_of(checked_kind(kind))
    if mapping is None:
        raise ValueError(
            f"{kind} is not a built-in kind: pass its Resource class or a RESTMapping, "
            "which holds how it is served"
        )
    return mapping


def planned_mapping(kind: KindRef) -> RESTMapping:
    """Return the mapping of a kind, or the assumed one of a kind that discovery resolves at the start.

    Raises ValueError, naming the fix, for what is no kind.
    """
    return mapping_of(checked_kind(kind)) or assumed_mapping(gvk_of(kind))


def checked_kind(kind: KindRef) -> KindRef:
    """Return ``kind``. Raises ValueError, naming the fix, for what names no kind."""
    try:
        if _is_kind(kind):
            if isinstance(kind, type):
                kind.prepare()  # an unreadable field is an error now, not with the first object
            gvk_of(kind)
            return kind
    except ValueError as error:
        raise ValueError(f"{_not_a_kind(kind)}. {error}{_similar(kind)}") from None
    raise ValueError(_not_a_kind(kind))


def _not_a_kind(kind: object) -> str:
    return (
        f"{kind!r} is not a kind: pass a Resource class, a RESTMapping, or a GroupVersionKind, as in "
        'GroupVersionKind("apps", "v1", "Deployment")'
    )


def _similar(kind: object) -> str:
    """Return the built-in kinds of a name, to be proposed."""
    found = sorted(f'"{gvk.api_version}/{gvk.kind}"' for gvk in BUILTIN if gvk.kind == kind)
    return f"; did you mean {' or '.join(found)}?" if found else ""


def _is_kind(kind: object) -> bool:
    if isinstance(kind, type):
        return issubclass(kind, Resource)
    return isinstance(kind, GroupVersionKind | RESTMapping | str)


def _owners(entry: Entry, kind: RESTMapping, controller_only: bool) -> list[Request]:
    namespace = entry.namespace if kind.namespaced else ""
    return [
        Request(owner.name, namespace=namespace)
        for owner in entry.owners
        if owner.kind == kind.gvk.kind
        and owner.group == kind.gvk.group
        and (owner.controller or not controller_only)
    ]
