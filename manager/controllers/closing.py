"""What is given back when a manager ends."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ctrlruntime.manager import Group


@dataclass(slots=True)
class Closing:
    """Closes what controllers or webhooks use, after they have ended: sooner, what is under way would fail, and they would report that."""

    close: Callable[[], Awaitable[None]]
    runnable_group: Group = Group.CACHES

    async def start(self) -> None:
        """Run until cancelled."""
        try:
            await asyncio.Event().wait()
        finally:
            await self.close()
