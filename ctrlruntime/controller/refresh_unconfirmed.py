"""A write without an answer: the object is read from the server once before it is reconciled again."""

from __future__ import annotations

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.cache.cache import Cache
from ctrlruntime.controller.reconcile import Reconciler, Result
from ctrlruntime.queue import Request


class RefreshUnconfirmed:
    """Wraps a reconciler of the kind ``mapping``: it never acts on a state older than its own last write, even if that write's answer was lost.

    ``cluster`` is the name of the one ``cache`` is of. Raises the client's errors when the read fails.
    """

    def __init__(
        self, reconciler: Reconciler, cache: Cache, mapping: RESTMapping, *, cluster: str = ""
    ) -> None:
        self._reconciler = reconciler
        self._cache = cache
        self._mapping = mapping
        self._cluster = cluster

    async def reconcile(self, request: Request) -> Result | None:
        name, namespace = request.name, request.namespace or None
        here = request.cluster == self._cluster
        if here and self._cache.unconfirmed(self._mapping, name, namespace=namespace):
            await self._cache.refresh(self._mapping, name, namespace=namespace)
        return await self._reconciler.reconcile(request)
