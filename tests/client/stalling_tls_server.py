"""A TLS server that lets some callers stand at the door: their connections are never made."""

from __future__ import annotations

import asyncio
import ssl

import trustme

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Doorman:
    """Ignores as many callers as told, and answers every request of those that follow."""

    def __init__(self, ignored: int) -> None:
        self.ignored = ignored
        self.callers = 0
        self.requests: list[bytes] = []
        """The first line of each."""
        self.url = ""
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert("127.0.0.1").configure_cert(self._context)
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Doorman:
        self._server = await asyncio.start_server(self._open, "127.0.0.1", 0)
        self.url = f"https://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await self._server.wait_closed()

    async def _open(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self.callers += 1
        if self.callers <= self.ignored:
            return
        await writer.start_tls(self._context)
        while head := await reader.readuntil(b"\r\n\r\n"):
            self.requests.append(head.partition(b"\r\n")[0])
            writer.write(ANSWER)
