"""The manager's HTTP server on a free port of loopback."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypedDict, Unpack

import structlog

from ctrlruntime.manager.http import HTTPServer, listen
from ctrlruntime.manager.http_connection import HTTPLimits
from ctrlruntime.manager.http_routes import Routes


class ServerOptions(TypedDict, total=False):
    """Options of `HTTPServer`."""

    tls: ssl.SSLContext | None
    limits: HTTPLimits | None
    shutdown_timeout: float
    may_persist: Callable[[asyncio.BaseTransport], bool]


@asynccontextmanager
async def http_server(routes: Routes, **options: Unpack[ServerOptions]) -> AsyncIterator[int]:
    """Serve ``routes`` for the length of the block. Yields the port."""
    listener = listen("127.0.0.1:0", "a test")
    assert listener is not None
    server = HTTPServer("test", routes, listener, structlog.get_logger(), **options)
    running = asyncio.create_task(server.start())
    await server.wait_ready()
    try:
        yield server.port
    finally:
        running.cancel()
        await asyncio.wait([running])
