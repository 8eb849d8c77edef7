"""A write without an answer: the object is read from the server once before it is reconciled again."""

from __future__ import annotations

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.cache.cache import Cache
from ctrlruntime.controller.reconcile import Reconciler, Result
from ctrlruntime.queue import Request


class DoubtSettling:
    """Wraps a reconciler of the kind ``mapping``: it never acts on a state older than its own last
    write, even if that write's answer was lost. Raises the client's errors when the read fails."""

    def __init__(self, reconciler: Reconciler, cache: Cache, mapping: RESTMapping) -> None:
        self._reconciler = reconciler
        self._cache = cache
        self._mapping = mapping

    async def reconcile(self, request: Request) -> Result | None:
        place = (request.name, request.namespace or None)
        if not request.cluster and self._cache.uncertain(self._mapping, *place):
            await self._cache.refresh(self._mapping, *place)
        return await self._reconciler.reconcile(request)
