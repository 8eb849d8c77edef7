"""A connection that listens on a channel and reports that rows may have changed.

It only wakes up what reads rows at intervals anyway: a notification that is lost costs time, no rows.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import structlog

from ctrlruntime.backoff import exponential
from internal.tenancy.sources.errors import SourceError

SHORTEST_PAUSE = 1.0
"""Seconds between two wake-ups, at least: many notifications lead to one query."""
FIRST_RETRY = 1.0
LONGEST_RETRY = 60.0
CHECK_PERIOD = 30.0
"""Seconds of silence after which the connection is checked."""

_log = structlog.get_logger("tenancy.notifications")


class Listener:
    """Listens until it is closed, and connects again when the connection is lost."""

    def __init__(
        self, channel: str, connect: Callable[[], Awaitable[Any]], wake: Callable[[], None]
    ) -> None:
        self._channel = channel
        self._connect = connect
        self._wake = wake
        self._woken_at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self.listening = asyncio.Event()
        """Set while notifications arrive."""

    def start(self) -> None:
        """Start listening in the background; once."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """End the connection. Nothing wakes up afterwards."""
        task, self._task = self._task, None
        if self._timer is not None:
            self._timer.cancel()
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        failures = 0
        missed = False
        while True:
            try:
                async with self._listening() as (connection, lost):
                    if missed:
                        self._notify()
                    failures, missed = 0, True
                    await self._until_lost(connection, lost)
            except (asyncpg.PostgresError, asyncpg.InterfaceError, SourceError, OSError) as error:
                if failures == 0:
                    _log.warning(
                        "Notifications are not received; rows are read every syncInterval",
                        channel=self._channel,
                        error=type(error).__name__,
                    )
            await asyncio.sleep(exponential(FIRST_RETRY, LONGEST_RETRY, failures))
            failures = min(failures + 1, 16)

    async def _until_lost(self, connection: asyncpg.Connection, lost: asyncio.Event) -> None:
        """Wait for the end of a connection. One whose server is gone silently is detected."""
        while not lost.is_set():
            try:
                async with asyncio.timeout(CHECK_PERIOD):
                    await lost.wait()
            except TimeoutError:
                await connection.execute("SELECT 1", timeout=CHECK_PERIOD)

    @contextlib.asynccontextmanager
    async def _listening(self) -> AsyncIterator[tuple[Any, asyncio.Event]]:
        connection = await self._connect()
        lost = asyncio.Event()
        try:
            connection.add_termination_listener(lambda _connection: lost.set())
            await connection.add_listener(self._channel, lambda *_: self._notify())
            self.listening.set()
            yield connection, lost
        finally:
            self.listening.clear()
            connection.terminate()
            await asyncio.sleep(0)  # the transport gives up its socket in the next turn

    def _notify(self) -> None:
        if self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        pause = max(0.0, self._woken_at + SHORTEST_PAUSE - loop.time())
        self._timer = loop.call_later(pause, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._woken_at = asyncio.get_running_loop().time()
        self._wake()
