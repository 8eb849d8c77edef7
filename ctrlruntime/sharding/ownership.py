"""Which slots a process may work on: what caches, queues, workers and the fence see of sharding."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, Protocol


class SlotHandOver(Protocol):
    """What takes part when slots come and go. The calls for one slot never overlap."""

    async def take(self, slots: frozenset[int]) -> None:
        """Widen scopes and list; return when the cache has the slots.

        Called before the slots are held, so that the list is there when work may begin: they come into
        ``held`` afterwards, and :meth:`begin` is called. An error is tried again. Cancelled where the slots go elsewhere
        before they were held; :meth:`release` follows then.
        """
        ...

    def begin(self, slots: frozenset[int]) -> None:
        """Queue the keys of slots that have come into ``held`` in this very turn of the loop. Quick: the cache has them."""
        ...

    async def release(self, slots: frozenset[int]) -> None:
        """Take no more keys, let running passes end, drop the entries without delete events.

        Returns when no pass of the slots runs any more: another process works on them then. May be called for slots that
        were taken and never held. ``may_write`` still is true meanwhile, so that passes that run may end.
        """
        ...


class SlotOwnership(Protocol):
    """The slots of this process, by the clock."""

    @property
    def held(self) -> frozenset[int]:
        """Slots that this process may work on now: assigned to it, taken and not being released."""
        ...

    def may_write(self, slot: int) -> bool:
        """Whether a write for a slot may leave now; by the clock, in the turn in which bytes leave. Callable in any thread."""
        ...

    def subscribe(self, handover: SlotHandOver) -> None:
        """Take part in every hand-over from now on; to be called before the ownership runs. Raises RuntimeError afterwards."""
        ...


current_slot: Final[ContextVar[int | None]] = ContextVar("current_slot", default=None)
"""The slot of the pass that runs: set by its worker, read by the fence. None: no pass of a slot."""
