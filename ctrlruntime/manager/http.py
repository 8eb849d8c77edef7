"""HTTP servers of a manager: bound early, served while the manager runs."""

from __future__ import annotations

import asyncio
import socket
import ssl

from aiohttp import web

from ctrlruntime.listening import hanging_up, stop_listening
from ctrlruntime.manager.runnables import Group

IDLE_TIMEOUT = 90.0
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
    """Binds and listens at once, so that a port in use is noticed when the manager is made.

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


class HTTPServer:
    """An aiohttp application on a socket, as a runnable of a manager.

    ``shutdown_timeout`` bounds the wait for requests in progress when it stops; ``only_when_leader``
    makes it serve after the election only.
    """

    def __init__(
        self,
        name: str,
        app: web.Application,
        listener: socket.socket,
        *,
        tls: ssl.SSLContext | None = None,
        shutdown_timeout: float = 5.0,
        only_when_leader: bool = False,
    ) -> None:
        self.name = name
        self.runnable_group = Group.LEADER_ELECTION if only_when_leader else Group.HTTP_SERVERS
        self.app = app
        self._listener = listener
        self._tls = tls
        self._shutdown_timeout = shutdown_timeout
        self._ready = asyncio.Event()

    def __repr__(self) -> str:
        return f"HTTPServer({self.name!r})"

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._listener.getsockname()[1])

    async def start(self) -> None:
        """Serves until cancelled."""
        runner = web.AppRunner(
            self.app,
            handle_signals=False,
            access_log=None,
            keepalive_timeout=IDLE_TIMEOUT,
            shutdown_timeout=self._shutdown_timeout,
        )
        await runner.setup()
        assert runner.server is not None  # noqa: S101 - setup() made it
        try:
            await self._serve(runner.server)
        finally:
            async with hanging_up(runner.server):
                await runner.cleanup()
            self._listener.close()

    async def _serve(self, web_server: web.Server) -> None:
        server = await asyncio.get_running_loop().create_server(
            web_server, sock=self._listener, ssl=self._tls, backlog=_BACKLOG, start_serving=False
        )
        try:
            await server.start_serving()
            self._ready.set()
            await asyncio.Event().wait()
        finally:
            await stop_listening(server)

    async def wait_ready(self) -> None:
        await self._ready.wait()

    def close(self) -> None:
        """Gives the port back if the server was never started."""
        self._listener.close()
