"""Reconcilers of objects: the object of a request is read first, and handed over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar, cast, overload, runtime_checkable

from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.api.resource import KindRef, Resource, UntypedKindRef
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import NotFound
from ctrlruntime.controller.reconcile import (
    AsyncReconcileFunc,
    Reconciler,
    Result,
    check_reconciler,
)
from ctrlruntime.controller.threads import as_asynchronous
from ctrlruntime.queue import Request

ObjectT = TypeVar("ObjectT", bound=Resource[Any, Any])
AnyObjectT_contra = TypeVar("AnyObjectT_contra", contravariant=True)

ObjectReconcileFunc = Callable[[AnyObjectT_contra], Awaitable[Result | None] | Result | None]


@runtime_checkable
class ObjectReconciler(Protocol[AnyObjectT_contra]):
    """Like a :class:`Reconciler`, of the object itself: a copy of its own, to be changed at will."""

    async def reconcile(self, obj: AnyObjectT_contra, /) -> Result | None: ...


ClientOf = Client | Callable[[str], Client]
"""A client, or a function that returns the one of a cluster by its name."""


@overload
def as_reconciler(
    client: ClientOf,
    kind: type[ObjectT],
    reconciler: ObjectReconciler[ObjectT] | ObjectReconcileFunc[ObjectT],
) -> Reconciler: ...
@overload
def as_reconciler(
    client: ClientOf,
    kind: UntypedKindRef,
    reconciler: ObjectReconciler[Manifest] | ObjectReconcileFunc[Manifest],
) -> Reconciler: ...
def as_reconciler(client: ClientOf, kind: KindRef, reconciler: Any) -> Reconciler:
    """Make a reconciler of one that takes the object, or a function of it; a plain one runs in a thread.

    The object is read by ``client``: ``manager.client`` reads from the cache. A controller for several
    clusters passes ``manager.client_of``, a function of the name of the request's cluster. If there is none, the
    request is done; an object that is being deleted is handed over, as its finalizers may need it.
    Other errors of the read fail the reconcile. Raises TypeError for what cannot reconcile.
    """
    check_reconciler(reconciler)
    return _ByObject(client, kind, as_asynchronous(reconciler).reconcile)


class _ByObject:
    def __init__(self, client: ClientOf, kind: KindRef, func: AsyncReconcileFunc[Any]) -> None:
        self._client = client
        self._kind = cast("GroupVersionKind", kind)  # or any other KindRef
        self._func = func

    async def reconcile(self, request: Request, /) -> Result | None:
        """Raise what the read and the reconciler raise, other than NotFound of the read."""
        client = self._client
        if not isinstance(client, Client):
            client = client(request.cluster)
        try:
            obj = await client.get(self._kind, request.name, namespace=request.namespace or None)
        except NotFound:
            return None
        return await self._func(obj)
