"""One turn at a time, shared by groups: who has used the least time goes first."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class FairTurns:
    """Start-time fair queueing. A turn is never cut short; within a group turns go in the order of arrival.

    `clock` returns seconds. What a group did not use while no other waited, it cannot save up.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._used: dict[str, float] = {}
        """Seconds by group, of those that used more than the group served last had when its turn began."""
        self._floor = 0.0
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._taken = False

    @asynccontextmanager
    async def turn(self, group: str) -> AsyncIterator[None]:
        """Wait for a turn and have it until the end of the block."""
        if self._taken:
            await self._wait(group)
        self._taken = True
        self._floor = max(self._floor, self._used_by(group))
        try:
            yield
        finally:
            self._taken = False
            self._wake()

    @asynccontextmanager
    async def charged(self, group: str) -> AsyncIterator[None]:
        """Count the time of the block, within a turn, as used by the group."""
        began = self._clock()
        try:
            yield
        finally:
            self._used[group] = self._used_by(group) + self._clock() - began

    def _used_by(self, group: str) -> float:
        return max(self._floor, self._used.get(group, 0.0))

    async def _wait(self, group: str) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(group, deque()).append(future)
        try:
            await future
        except asyncio.CancelledError:
            if (
                future.done() and not future.cancelled()
            ):  # the turn came in the same turn of the loop
                self._taken = False
                self._wake()
            raise

    def _wake(self) -> None:
        """Hand the turn to the next that waits: it is taken from now on, so that no newcomer comes first."""
        self._used = {group: used for group, used in self._used.items() if used > self._floor}
        while self._waiting:
            group = min(self._waiting, key=self._used_by)
            future = self._waiting[group].popleft()
            if not self._waiting[group]:
                del self._waiting[group]
            if not future.done():
                future.set_result(None)
                self._taken = True
                return
