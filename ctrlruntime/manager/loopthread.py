"""A second event loop in a thread: what runs there never waits for a busy first one, and measures how long that stands still."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final

PERIOD: Final = 0.25
"""Seconds between measurements of a :class:`Heartbeat`."""


class Heartbeat:
    """For how long a loop has run no callback, measured from another thread every ``PERIOD`` seconds.

    ``call`` has the loop run a callback soon; ``clock`` returns seconds.
    """

    def __init__(
        self, call: Callable[[Callable[[], None]], None], clock: Callable[[], float]
    ) -> None:
        self._call = call
        self._clock = clock
        self._measured = clock()
        self._answered = True
        self._still = 0.0

    def measure(self) -> float:
        """Return for how many seconds the loop has stood still; never more than it did.

        A pause of the caller counts as two periods at most: then the whole process stood still, the caller's own work
        included.
        """
        now = self._clock()
        passed, self._measured = now - self._measured, now
        if self._answered:
            self._still = 0.0
            self._answered = False
            self._call(self._answer)
        else:
            self._still += min(passed, 2 * PERIOD)
        return self._still

    @property
    def answered(self) -> bool:
        """Whether the loop has run since it was measured."""
        return self._answered

    def _answer(self) -> None:
        self._answered = True


class LoopThread:
    """Runs one coroutine. It shares nothing with the owner's loop but what both can bear.

    ``main`` makes the coroutine, on the new loop. The thread ends with the process, whatever it is doing.
    """

    def __init__(self, main: Callable[[LoopThread], Coroutine[Any, Any, None]], name: str) -> None:
        self.owner = asyncio.get_running_loop()
        self._main = main
        self._loop = asyncio.SelectorEventLoop()
        self._task: asyncio.Task[None] | None = None
        self._cancelled = False
        self._ended: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call_owner(self, function: Callable[[], None]) -> None:
        """Have the owner's loop call something as soon as it can; nothing if that loop is closed."""
        if not self.owner.is_closed():
            self.owner.call_soon_threadsafe(function)

    def call(self, function: Callable[[], None]) -> None:
        """Have this loop call something as soon as it can; nothing if the coroutine has ended."""
        if not self._ended.done():
            with contextlib.suppress(RuntimeError):  # it ends in this very moment
                self._loop.call_soon_threadsafe(function)

    @property
    def orphaned(self) -> bool:
        """Whether the owner's loop is closed: this one can no longer be stopped."""
        return self.owner.is_closed()

    async def stop(self) -> None:
        """Cancel the coroutine and wait until it has ended."""
        if not self._ended.done():
            self._loop.call_soon_threadsafe(self._cancel)
        await asyncio.shield(asyncio.wrap_future(self._ended))

    def _cancel(self) -> None:
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._guarded())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._ended.set_result(None)
            self._loop.close()

    async def _guarded(self) -> None:
        if self._cancelled:
            return
        self._task = asyncio.create_task(self._main(self))
        await asyncio.gather(self._task, return_exceptions=True)
