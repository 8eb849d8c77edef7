"""What is kept in memory of objects goes when their slot does, where several managers share them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from inspect import isawaitable

from ctrlruntime.controller.slot_gate import SlotOf, slot_of_request
from ctrlruntime.manager import Manager
from ctrlruntime.queue import Request


@dataclass(frozen=True, slots=True)
class SlotMemory:
    """A SlotHandOver. The manager, which is called before, has had the passes of released slots end."""

    kept: Callable[[], Iterable[Request]]
    """Returns what may be kept in memory, of whatever slot."""
    forget: Callable[[Request], object]
    """May be a coroutine function."""
    slot_of: SlotOf = slot_of_request

    async def take(self, slots: frozenset[int]) -> None:
        """Do nothing: passes find out anew what they remember."""

    def begin(self, slots: frozenset[int]) -> None:
        """Do nothing."""

    async def release(self, slots: frozenset[int]) -> None:
        """Forget what was kept of these slots: what comes back to this process was another's meanwhile."""
        for request in list(self.kept()):
            if self.slot_of(request) in slots:
                done = self.forget(request)
                if isawaitable(done):
                    await done


def forget_with_slots(
    manager: Manager,
    kept: Callable[[], Iterable[Request]],
    forget: Callable[[Request], object],
    slot_of: SlotOf = slot_of_request,
) -> None:
    """Have `forget` called for what is `kept` of slots that leave this process; never for a manager that works alone."""
    if manager.shards is not None:
        manager.shards.subscribe(SlotMemory(kept, forget, slot_of))
