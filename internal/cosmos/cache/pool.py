"""How many questions are under way at once, of all sets together."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Pool:
    """Lets in so many at once, in the order they came.

    Those that are suspected of taking all the time they are given share one half of it: however many nodes
    do not answer, the others get their turn.
    """

    def __init__(self, size: int) -> None:
        """Raise ValueError for a pool without places."""
        if size < 1:
            raise ValueError(f"a pool of {size} admits none; it has to have at least 1 place")
        self._all = asyncio.Semaphore(size)
        self._suspects = asyncio.Semaphore(max(size // 2, 1))
        self.waiting = 0
        """How many wait for their turn."""
        self.under_way = 0
        """How many are in."""

    @asynccontextmanager
    async def turn(self, *, suspect: bool = False) -> AsyncIterator[None]:
        """Wait for a place, and have it until the block is left."""
        self.waiting += 1
        try:
            await self._enter(suspect)
        finally:
            self.waiting -= 1
        self.under_way += 1
        try:
            yield
        finally:
            self.under_way -= 1
            self._all.release()
            if suspect:
                self._suspects.release()

    async def _enter(self, suspect: bool) -> None:
        if suspect:
            await self._suspects.acquire()
        try:
            await self._all.acquire()
        except BaseException:
            if suspect:
                self._suspects.release()
            raise
