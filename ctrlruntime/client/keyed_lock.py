"""One at a time for each key."""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary


class KeyedLock:
    """Lets those who come with the same key in one after the other. A key that is not held costs nothing."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    def __len__(self) -> int:
        """How many keys are in use."""
        return len(self._locks)

    @asynccontextmanager
    async def of(self, key: Hashable) -> AsyncIterator[None]:
        """Wait for one's turn, and have it until the block is left."""
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        async with lock:
            yield
