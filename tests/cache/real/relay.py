"""A TCP relay between a client and a server, for the faults of a network."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from types import TracebackType
from urllib.parse import urlsplit


class Relay:
    """Passes bytes, TLS and all. What it is told concerns connections made so far, or new ones."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self.refusing = False
        """New connections are closed at once."""

    async def __aenter__(self) -> Relay:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await asyncio.gather(*(each.ended.wait() for each in self._connections))

    @property
    def url(self) -> str:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return f"{self._target.scheme}://127.0.0.1:{port}"

    def freeze(self) -> int:
        """Connections of now fall silent without ending; how many there are."""
        for connection in self._connections:
            connection.flowing.clear()
        return len(self._connections)

    def thaw(self) -> None:
        """Frozen connections go on, with everything that waited."""
        for connection in self._connections:
            connection.flowing.set()

    def cut(self) -> None:
        """Connections of now break."""
        for connection in self._connections:
            connection.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            writer.transport.abort()
            return
        connection = _Connection(writer)
        self._connections.add(connection)
        try:
            await connection.run(reader, self._target.hostname or "", self._target.port or 0)
        finally:
            self._connections.discard(connection)
            connection.ended.set()


class _Connection:
    def __init__(self, client: asyncio.StreamWriter) -> None:
        self._writers = [client]
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.ended = asyncio.Event()

    async def run(self, reader: asyncio.StreamReader, host: str, port: int) -> None:
        try:
            upstream, server = await _connect(host, port)
        except OSError:
            self.abort()
            return
        self._writers.append(server)
        client = self._writers[0]
        pumps = [
            asyncio.create_task(self._pump(reader, server)),
            asyncio.create_task(self._pump(upstream, client)),
        ]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        self.abort()
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self.flowing.wait()
                writer.write(data)
                await writer.drain()

    def abort(self) -> None:
        self.flowing.set()
        for writer in self._writers:
            writer.transport.abort()


async def _connect(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """With a small buffer, so that a server soon notices that nobody reads."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    sock.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(sock, (host, port))
    except OSError:
        sock.close()
        raise
    return await asyncio.open_connection(sock=sock)
