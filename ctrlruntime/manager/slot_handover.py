"""What a manager does when slots come and go: its caches, then its controllers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from ctrlruntime.cache.cache import Cache
from ctrlruntime.controller.controller import Controller


class ManagerHandOver:
    """A SlotHandOver over what a manager has at the time."""

    def __init__(
        self,
        caches: Callable[[], Iterable[Cache]],
        controllers: Callable[[], Iterable[Controller]],
    ) -> None:
        self._caches = caches
        self._controllers = controllers

    async def take(self, slots: frozenset[int]) -> None:
        """List slots in every cache; controllers keep what the lists bring. Raises what a list raises."""
        for controller in self._controllers():
            controller.expect_slots(slots)
        await asyncio.gather(*(cache.take_slots(slots) for cache in self._caches()))

    def begin(self, slots: frozenset[int]) -> None:
        """Have controllers work on slots that are held now."""
        for controller in self._controllers():
            controller.begin_slots(slots)

    async def release(self, slots: frozenset[int]) -> None:
        """Let passes that run end, then forget the objects of slots."""
        await asyncio.gather(*(each.release_slots(slots) for each in self._controllers()))
        await asyncio.gather(*(cache.drop_slots(slots) for cache in self._caches()))
