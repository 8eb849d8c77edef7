"""An aiohttp application that is served while a manager runs. Imported by what has one."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from weakref import WeakValueDictionary

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.log import server_logger
from aiohttp.typedefs import Handler, Middleware

from ctrlruntime.graceful_server import closing_connections, hanging_up
from ctrlruntime.manager.http import ListeningServer
from ctrlruntime.manager.runnables import Group

__all__ = ["AppServer"]

IDLE_TIMEOUT = 90.0
"""Seconds between two requests of a connection, and for the head of the first."""

_LOGGER = server_logger.getChild("requests")


def _is_own(record: logging.LogRecord) -> bool:
    """Return whether a failure is the server's own, and not what a peer sent, or that it is gone.

    Such a peer has its answer. aiohttp logs a traceback for each, so that whoever reaches the port could fill the log.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError | ConnectionResetError)


_LOGGER.addFilter(_is_own)


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
            logger=_LOGGER,
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
            try:
                return await handler(request)
            except ConnectionResetError as error:
                if request.transport is None or request.transport.is_closing():
                    raise  # the peer is gone
                raise RuntimeError("a connection of the handler's own was reset") from error

        return register
