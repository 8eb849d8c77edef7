"""A server that speaks in bytes: what it answers to each request is written out, connection by connection."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class WireServer:
    """Runs one script a connection; the last one serves for all that follow."""

    def __init__(self, *scripts: Script, tls: ssl.SSLContext | None = None) -> None:
        self._scripts = list(scripts)
        self._tls = tls
        self.connections = 0
        self.heads: list[str] = []
        """The head of each request that `request` read."""
        self.url = ""
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> WireServer:
        self._server = await asyncio.start_server(self._open, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _open(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        script = self._scripts[min(self.connections, len(self._scripts) - 1)]
        self.connections += 1
        try:
            await script(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    async def request(self, reader: asyncio.StreamReader) -> str:
        """Read one request; return its head."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        for line in head.splitlines():
            name, _, value = line.partition(": ")
            if name.lower() == "content-length":
                await reader.readexactly(int(value))
        return head

    def answers(self, *answers: bytes, keep: bool = True) -> Script:
        """Answer a request with each; then wait for the peer to close, or without `keep` close."""

        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for answer in answers:
                await self.request(reader)
                writer.write(answer)
                await writer.drain()
            if keep:
                await reader.read()

        return script


async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass everything on until one side ends."""
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.close()
