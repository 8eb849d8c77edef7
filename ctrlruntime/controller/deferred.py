"""Asynchronous work of event handlers: started in order, a few at a time, cancelled at the end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

Work = Callable[[], Awaitable[None]]

CONCURRENT: Final = 16
"""How much of it runs at a time in a controller."""

WAITING: Final = 10_000
"""How much of it waits for its next attempt in a controller."""


class DeferredWork:
    """Runs what is added, at most ``CONCURRENT`` at a time. The work handles its own exceptions."""

    def __init__(self) -> None:
        self._waiting: deque[Work] = deque()
        self._running: dict[asyncio.Task[None], None] = {}  # in the order they began
        self._later: set[asyncio.TimerHandle] = set()
        self._closed = False

    def add(self, work: Work) -> None:
        """Run ``work`` as soon as there is room for it. Ignored after :meth:`close`."""
        if not self._closed:
            self._waiting.append(work)
            self._fill()

    def add_later(self, delay: float, work: Work) -> bool:
        """Add ``work`` in ``delay`` seconds. False if too much waits already, or after :meth:`close`."""
        if self._closed or len(self._later) >= WAITING:
            return False

        def due() -> None:
            self._later.discard(timer)
            self.add(work)

        timer = asyncio.get_running_loop().call_later(delay, due)
        self._later.add(timer)
        return True

    @property
    def busy(self) -> bool:
        """Whether any of it runs, or waits for room."""
        return bool(self._running or self._waiting)

    def ready_in(self) -> float | None:
        """Return the seconds until the next attempt of what failed; None if nothing did."""
        now = asyncio.get_running_loop().time()
        return min((max(0.0, timer.when() - now) for timer in self._later), default=None)

    async def close(self) -> None:
        """Cancel what runs and drop what waits."""
        self._closed = True
        self._waiting.clear()
        for timer in self._later:
            timer.cancel()
        self._later.clear()
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _fill(self) -> None:
        while self._waiting and len(self._running) < CONCURRENT:
            task = asyncio.create_task(_run(self._waiting.popleft()), name="deferred event handler")
            self._running[task] = None
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        self._fill()


async def _run(work: Work) -> None:
    await work()
