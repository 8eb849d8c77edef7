"""HTTP servers of a manager: bound early, served while the manager runs."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from structlog.typing import FilteringBoundLogger

from ctrlruntime.graceful_server import hanging_up, stop_listening
from ctrlruntime.manager.http_connection import HTTPConnection, HTTPLimits
from ctrlruntime.manager.http_message import ServerRequest, ServerResponse
from ctrlruntime.manager.http_routes import Routes
from ctrlruntime.manager.runnables import Group

_BACKLOG = 128


class AddressError(ValueError):
    """An address that cannot be read, or cannot be listened on."""


def parse_address(address: str) -> tuple[str, int] | None:
    """``":8080"``, ``"127.0.0.1:0"``, ``"[::1]:80"``; ``""`` and ``"0"`` are None: do not listen."""
    if address in {"", "0"}:
        return None
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise AddressError(f'address {address!r} is not "host:port", ":port", or "0" for none')
    return host.strip("[]"), int(port)


def listen(address: str, purpose: str) -> socket.socket | None:
    """Bind and listen at once, so that a port in use is noticed when the manager is made.

    An empty host is all interfaces, over IPv6 where the machine has it. Raises AddressError.
    """
    parsed = parse_address(address)
    if parsed is None:
        return None
    host, port = parsed
    try:
        if host:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            return socket.create_server((host, port), family=family)
        if socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server(("", port))
    except OSError as error:
        raise AddressError(
            f"cannot listen on {address} for {purpose}: {error.strerror or error}; choose another "
            'address, or "0" to do without'
        ) from error


class ListeningServer:
    """A socket that is served while a manager runs, as a runnable of it."""

    def __init__(
        self,
        name: str,
        listener: socket.socket,
        *,
        tls: ssl.SSLContext | None = None,
        shutdown_timeout: float = 5.0,
    ) -> None:
        """Take over the listener. ``shutdown_timeout``: seconds for requests in progress at the end."""
        self.name = name
        self.runnable_group = Group.HTTP_SERVERS
        self.shutdown_timeout = shutdown_timeout
        self._listener = listener
        self.port = int(listener.getsockname()[1])
        """The port it listens on, or did."""
        self._tls = tls
        self._ready = asyncio.Event()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    async def start(self) -> None:
        """Serve until cancelled."""
        raise NotImplementedError

    async def wait_ready(self) -> None:
        """Return once it serves."""
        await self._ready.wait()

    def close(self) -> None:
        """Give the port back if the server was never started."""
        self._listener.close()

    @asynccontextmanager
    async def _listening(self, factory: Callable[[], asyncio.BaseProtocol]) -> AsyncIterator[None]:
        """Accept connections for the length of the block. The socket stays open after it."""
        server = await asyncio.get_running_loop().create_server(
            factory, sock=self._listener, ssl=self._tls, backlog=_BACKLOG, start_serving=False
        )
        try:
            await server.start_serving()
            self._ready.set()
            yield
        finally:
            await stop_listening(server)


class HTTPServer(ListeningServer):
    """Routes on a socket.

    ``may_persist`` returns whether a connection may go on after an answer.
    """

    def __init__(
        self,
        name: str,
        routes: Routes,
        listener: socket.socket,
        logger: FilteringBoundLogger,
        *,
        tls: ssl.SSLContext | None = None,
        limits: HTTPLimits | None = None,
        shutdown_timeout: float = 5.0,
        may_persist: Callable[[asyncio.BaseTransport], bool] = lambda _: True,
    ) -> None:
        super().__init__(name, listener, tls=tls, shutdown_timeout=shutdown_timeout)
        self.routes = routes
        self.connections: set[HTTPConnection] = set()
        self._limits = limits if limits is not None else HTTPLimits()
        self._logger = logger
        self._may_persist = may_persist
        self._stopping = False

    async def start(self) -> None:
        """Serve until cancelled."""
        try:
            async with self._listening(self._connection):
                await asyncio.Event().wait()
        finally:
            self._stopping = True
            async with hanging_up(self):
                await self._finish_requests()
            self._listener.close()

    def _connection(self) -> HTTPConnection:
        return HTTPConnection(
            self._answer,
            self._limits,
            may_persist=self._may_persist,
            made=self._made,
            lost=self.connections.discard,
        )

    def _made(self, connection: HTTPConnection) -> None:
        self.connections.add(connection)
        if self._stopping:
            connection.close()

    async def _answer(self, request: ServerRequest) -> ServerResponse:
        try:
            return await self.routes.answer(request)
        except Exception as error:
            self._logger.error(
                "Request failed", server=self.name, path=request.path, exc_info=error
            )
            return ServerResponse.of_status(500)

    async def _finish_requests(self) -> None:
        """Close idle connections, and the others after their answers, which have a time limit."""
        for connection in list(self.connections):
            connection.close()
        tasks = {each.task for each in self.connections if each.task is not None}
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=self.shutdown_timeout)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
