"""How many requests are under way at once."""

from __future__ import annotations

import asyncio
from collections import deque


class RequestSlots:
    """A semaphore that costs nothing while there is room: no coroutine is made for a slot that is free.

    Those who wait get slots in the order in which they came.
    """

    def __init__(self, count: int) -> None:
        if count < 1:
            raise ValueError(f"there has to be one request at a time at least, not {count}")
        self._count = count
        self._free = count
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def taken(self) -> int:
        """Slots that are taken or waited for."""
        return self._count - self._free + len(self._waiting)

    def take(self) -> bool:
        """Take a slot, unless none is free: then `wait` for one. Give it back by `release` in any case."""
        if self._free <= 0:
            return False
        self._free -= 1
        return True

    async def wait(self) -> None:
        """Take the next slot that is given back."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.release()  # it was given to this one, who no longer wants it
            raise

    def release(self) -> None:
        """Give a slot back: to whoever waits longest, if anyone does."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1
