"""What each object was when it was last reconciled without an error, kept in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ctrlruntime.cache.entry import Entry
from ctrlruntime.controller.object_change import Versions
from ctrlruntime.controller.reconcile import Reconciler, Result, reconcile_context
from ctrlruntime.queue import Request

_SLACK: Final = 64


class LastReconciled:
    """Wraps a reconciler: `ReconcileContext.change` compares with the object of the last pass that succeeded.

    The entries are those of the cache, so one that has not changed since takes no memory of its own.
    """

    def __init__(
        self,
        reconciler: Reconciler,
        entry_of: Callable[[Request], Entry | None],
        *,
        cluster: str = "",
    ) -> None:
        """`entry_of` returns the object of a request of the cluster named `cluster`."""
        self._reconciler = reconciler
        self._entry_of = entry_of
        self._cluster = cluster
        self._last: dict[Request, Entry] = {}
        self._limit = _SLACK

    async def reconcile(self, request: Request) -> Result | None:
        """Raise what the reconciler raises; then the object stays as it was remembered."""
        if request.cluster != self._cluster:
            return await self._reconciler.reconcile(request)
        new, old = self._entry_of(request), self._last.get(request)
        if old is not None and new is not None and old.uid != new.uid:
            old = None  # another object of the same name
        reconcile_context().show(Versions(old, new))
        result = await self._reconciler.reconcile(request)
        if result is None or isinstance(result, Result):
            self._remember(request, new)
        return result

    def _remember(self, request: Request, entry: Entry | None) -> None:
        if entry is None:
            self._last.pop(request, None)
            return
        self._last[request] = entry
        if len(self._last) > self._limit:  # those whose deletion led to no pass
            self._last = {each: kept for each, kept in self._last.items() if self._entry_of(each)}
            self._limit = 2 * len(self._last) + _SLACK
