"""Which requests of a controller are queued: those of slots that this process holds."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic

from ctrlruntime.api.resource import KindRef
from ctrlruntime.cache.cache import Cache
from ctrlruntime.queue import PriorityQueue, Request, RequestT
from ctrlruntime.sharding.ownership import SlotOwnership
from ctrlruntime.sharding.slots import slot_of

SlotOf = Callable[[Any], int]
"""Returns the slot of a request."""


def slot_of_request(request: Hashable) -> int:
    """Return the slot of the object that a request names. Raises TypeError for one of another type."""
    if not isinstance(request, Request):
        raise TypeError(
            f"the slot of {request!r} is not known: pass sharded(slot=...) a function that returns it"
        )
    return slot_of(request.name, namespace=request.namespace)


def requests_of(cache: Cache, kind: KindRef | None) -> list[Any]:
    """Return the requests of all objects of a kind that the cache has; none of no kind."""
    if kind is None:
        return []
    keys = list(cache.informer(kind).store.keys())
    return [Request(name, namespace=namespace) for namespace, name in keys]


class SlotGate(Generic[RequestT]):
    """Lets requests of held slots through. Those of slots that come are kept until they are held, others are dropped."""

    def __init__(
        self,
        ownership: SlotOwnership,
        slot_of: SlotOf = slot_of_request,
        roots: Callable[[], Iterable[RequestT]] = tuple,
    ) -> None:
        """`roots` returns the requests of what is cached of all slots: no list brings them when their slot comes."""
        self.slot_of = slot_of
        self._roots = roots
        self._ownership = ownership
        self._coming: dict[int, dict[RequestT, tuple[int, str]]] = {}
        """By slot, requests with their priority and reason."""

    def admits(self, request: RequestT, priority: int, reason: str) -> bool:
        slot = self.slot_of(request)
        kept = self._coming.get(slot)
        if kept is None:
            return slot in self._ownership.held
        known = kept.get(request, (priority, reason))
        kept[request] = (max(priority, known[0]), known[1])
        return False

    def expect(self, slots: frozenset[int]) -> None:
        """Keep requests of slots that come."""
        for slot in slots - self._ownership.held:
            self._coming.setdefault(slot, {})

    def begin(self, slots: frozenset[int], queue: PriorityQueue[RequestT]) -> None:
        """Queue what was kept of slots that are held now."""
        for slot in sorted(slots):
            for request, (priority, reason) in self._coming.pop(slot, {}).items():
                queue.add(request, priority=priority, reason=reason)
        for root in list(self._roots()):
            if self.slot_of(root) in slots:
                queue.add(root, reason="its slot is held now")

    async def release(self, slots: frozenset[int], queue: PriorityQueue[RequestT]) -> None:
        """Drop what was kept or queued of slots, and wait for the passes that run."""
        for slot in slots:
            self._coming.pop(slot, None)
        await queue.drain(lambda request: self.slot_of(request) in slots)
