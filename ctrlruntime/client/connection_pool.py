"""The connections to one server with one set of certificates: those in use, and those kept for the next request."""

from __future__ import annotations

import asyncio
from typing import Final

from ctrlruntime.client.dial import Dialer
from ctrlruntime.client.http1 import Connection

KEEPALIVE_SECONDS: Final = 30.0
"""How long a connection is kept without use; servers keep theirs longer."""


class ConnectionPool:
    """Unbounded: whoever sends requests limits how many there are at once."""

    def __init__(self, dialer: Dialer, *, keepalive: float = KEEPALIVE_SECONDS) -> None:
        self._dialer = dialer
        self._keepalive = keepalive
        self._loop = asyncio.get_running_loop()
        self._idle: list[Connection] = []
        """The one used last at the end."""
        self._active: set[Connection] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._retirement: asyncio.TimerHandle | None = None
        self._retired = False

    def take(self) -> Connection | None:
        """Return a connection that was kept; None where a new one has to be dialed."""
        while self._idle:
            connection = self._idle.pop()
            fresh = self._loop.time() - connection.idle_since < self._keepalive
            if connection.usable and fresh:
                self._active.add(connection)
                return connection
            connection.abort()
        return None

    async def dial(self) -> Connection:
        """Return a new connection. Raises ConnectFailed."""
        connection = await self._dialer.dial()
        self._active.add(connection)
        return connection

    def release(self, connection: Connection) -> None:
        """Take back a connection that was taken or dialed, whatever state it is in."""
        self._active.discard(connection)
        if self._retired or not connection.usable:
            connection.abort()
            return
        connection.idle_since = self._loop.time()
        self._idle.append(connection)
        if self._sweep is None:
            self._sweep = self._loop.call_later(self._keepalive, self._close_unused)

    def retire(self, seconds: float) -> None:
        """Keep no connection from now on; those in use are closed after ``seconds``."""
        self._stop()
        self._retirement = self._loop.call_later(seconds, self.close)

    @property
    def closed(self) -> bool:
        """Whether it is retired, and nothing is under way on it."""
        return self._retired and not self._active

    def close(self) -> None:
        """Close every connection; requests under way fail."""
        self._stop()
        if self._retirement is not None:
            self._retirement.cancel()
        for connection in tuple(self._active):
            connection.abort()

    def _stop(self) -> None:
        self._retired = True
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for connection in self._idle:
            connection.abort()
        self._idle.clear()

    def _close_unused(self) -> None:
        self._sweep = None
        before = self._loop.time() - self._keepalive
        kept = []
        for connection in self._idle:
            if connection.usable and connection.idle_since > before:
                kept.append(connection)
            else:
                connection.abort()
        self._idle = kept
        if kept:
            due = kept[0].idle_since + self._keepalive - self._loop.time()
            self._sweep = self._loop.call_later(max(due, 0.0) + 0.01, self._close_unused)
