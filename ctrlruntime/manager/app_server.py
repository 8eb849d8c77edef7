"""An aiohttp application that is served while a manager runs. Imported by what has one."""

from __future__ import annotations

import asyncio
import socket
import ssl
from weakref import WeakValueDictionary

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from ctrlruntime.graceful_server import closing_connections, hanging_up
from ctrlruntime.manager.http import ListeningServer
from ctrlruntime.manager.runnables import Group

__all__ = ["AppServer"]

IDLE_TIMEOUT = 90.0
"""Seconds between two requests of a connection."""


class AppServer(ListeningServer):
    """Serves an application on a listener, in a group of the manager's."""

    def __init__(
        self,
        name: str,
        app: web.Application,
        listener: socket.socket,
        *,
        group: Group,
        tls: ssl.SSLContext | None = None,
        shutdown_timeout: float = 60.0,
        handler_cancellation: bool = False,
    ) -> None:
        """``handler_cancellation``: whether a handler is cancelled when its client disconnects."""
        super().__init__(name, listener, tls=tls, shutdown_timeout=shutdown_timeout)
        self.runnable_group = group
        self._app = app
        self._handler_cancellation = handler_cancellation
        self._requests: WeakValueDictionary[int, web.Request] = WeakValueDictionary()
        app.middlewares.append(self._registering())

    async def start(self) -> None:
        """Serve until cancelled."""
        runner = web.AppRunner(
            self._app,
            handle_signals=False,
            access_log=None,
            keepalive_timeout=IDLE_TIMEOUT,
            shutdown_timeout=self.shutdown_timeout,
            handler_cancellation=self._handler_cancellation,
        )
        await runner.setup()
        assert runner.server is not None  # noqa: S101 - setup() made it
        try:
            async with self._listening(runner.server):
                await asyncio.Event().wait()
        finally:
            async with (
                hanging_up(runner.server),
                closing_connections(runner.server, self._requests.values),
            ):
                await runner.cleanup()
            self._listener.close()

    def _registering(self) -> Middleware:
        @web.middleware
        async def register(request: web.Request, handler: Handler) -> web.StreamResponse:
            self._requests[id(request)] = request
            return await handler(request)

        return register
