"""The moment in which a request is sent: from then on its answer is waited for, and may have an effect.

Connections take their own time. What failed before that moment can be tried again, a write too.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING

import aiohttp

if TYPE_CHECKING:
    from types import TracebackType

    from aiohttp.client_reqrep import ClientResponse
    from aiohttp.connector import Connection


class Sending:
    """One attempt of a request, as a context manager around it.

    Raises TimeoutError when ``timeout`` seconds have passed since it was sent; ``begun`` says
    whether anything was.
    """

    def __init__(self, timeout: float) -> None:
        self.begun = False
        self._timeout = timeout
        self._limit = asyncio.timeout(None)

    async def __aenter__(self) -> Sending:
        await self._limit.__aenter__()
        self._token: Token[Sending | None] = _under_way.set(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _under_way.reset(self._token)
        await self._limit.__aexit__(kind, error, traceback)

    def begin(self) -> None:
        """There is a connection, and it is used now."""
        self.begun = True
        self._limit.reschedule(asyncio.get_running_loop().time() + self._timeout)


_under_way: ContextVar[Sending | None] = ContextVar("_under_way", default=None)
"""aiohttp makes its requests itself, so they cannot be told."""


class Request(aiohttp.ClientRequest):
    """Tells the attempt that it is part of when it is sent."""

    async def send(self, conn: Connection) -> ClientResponse:
        attempt = _under_way.get()
        if attempt is not None:
            attempt.begin()
        return await super().send(conn)
