"""A page followed live: server-sent events that say that it changed, at most one a second."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from aiohttp import web

PERIOD: Final = 1.0
"""Seconds between two events of a stream, at least."""
ALIVE: Final = 20.0
"""Seconds after which an idle stream sends a comment, so that proxies keep it."""
TAKEN: Final = 10.0
"""Seconds that a client has to take an event; a slower one is dropped."""

Wait = Callable[[], Awaitable[None]]
Check = Callable[[], Awaitable[bool]]


class Streams:
    """Sends events until the client disconnects, loses the right, or the server stops."""

    def __init__(self) -> None:
        self._stopping = asyncio.Event()

    async def send(
        self, request: web.Request, changed: Wait, may_see: Check, headers: Mapping[str, str]
    ) -> web.StreamResponse:
        """Answer a request with a stream of `changed`."""
        response = web.StreamResponse(headers={**headers, "X-Accel-Buffering": "no"})
        response.content_type = "text/event-stream"
        response.charset = "utf-8"
        await response.prepare(request)
        try:
            await self._send(response, changed, may_see)
        except (TimeoutError, ConnectionError):
            if request.transport is not None:
                request.transport.abort()
        return response

    async def _send(self, response: web.StreamResponse, changed: Wait, may_see: Check) -> None:
        await self._write(response, "retry: 2000\nevent: open\ndata: {}\n\n")
        while await self._next(response, changed):
            if not await may_see():
                await self._write(response, "event: end\ndata: {}\n\n")
                return
            await self._write(response, "event: change\ndata: {}\n\n")
            await self._pause(PERIOD)

    def stop(self) -> None:
        """End all streams."""
        self._stopping.set()

    async def _next(self, response: web.StreamResponse, changed: Wait) -> bool:
        """Wait for a change. Returns False when the server stops."""
        change = asyncio.ensure_future(changed())
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            while True:
                done, _ = await asyncio.wait(
                    {change, stopping}, timeout=ALIVE, return_when=asyncio.FIRST_COMPLETED
                )
                if stopping in done:
                    return False
                if change in done:
                    return True
                await self._write(response, ": alive\n\n")
        finally:
            change.cancel()
            stopping.cancel()
            await asyncio.gather(change, stopping, return_exceptions=True)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    async def _write(self, response: web.StreamResponse, text: str) -> None:
        async with asyncio.timeout(TAKEN):
            await response.write(text.encode())
