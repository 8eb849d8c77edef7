"""A server of one prepared list and watch, so that nothing but the reader is measured.

Plain HTTP in a process of its own. `GET /go` releases the events that open watches wait for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any
from urllib.parse import parse_qs, urlsplit

import click
import orjson
import uvloop

from benchmarks.cache import deployment
from ctrlruntime.envtest.process import report_ready

_CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)
_GONE = b'{"kind":"Status","apiVersion":"v1","code":404,"reason":"NotFound","message":"none"}'
PATH = "/apis/apps/v1/deployments"
PACKET = 32
"""Events in one write."""


class Served:
    """`objects` Deployments, then `events` changes of them."""

    def __init__(self, objects: int, events: int) -> None:
        self.objects = objects
        self.events = events
        self.released = asyncio.Event()
        self._lines: list[bytes] = []

    def prepare(self) -> None:
        """Encode the events."""
        first = self.objects + 2
        changes = (deployment(n % self.objects, first + n) for n in range(self.events))
        self._lines = list(_packets("MODIFIED", changes))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests without bodies until the peer leaves."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                url = urlsplit(head.split(b" ", 2)[1].decode())
                query = {key: values[0] for key, values in parse_qs(url.query).items()}
                if url.path == "/go":
                    self.released.set()
                    writer.write(_whole(b"{}"))
                elif url.path != PATH:
                    writer.write(_whole(_GONE, b"404 Not Found"))
                elif "watch" in query:
                    await self._watch(writer, initial="sendInitialEvents" in query)
                else:
                    writer.write(_whole(self._page(query)))
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.transport.abort()

    def _page(self, query: dict[str, str]) -> bytes:
        start = int(query.get("continue", "0"))
        end = min(start + int(query.get("limit", self.objects)), self.objects)
        metadata = {"resourceVersion": str(self.objects + 1)}
        if end < self.objects:
            metadata["continue"] = str(end)
        items = [deployment(n, n + 1) for n in range(start, end)]
        head = {"kind": "DeploymentList", "apiVersion": "apps/v1", "metadata": metadata}
        return orjson.dumps({**head, "items": items})

    async def _watch(self, writer: asyncio.StreamWriter, *, initial: bool) -> None:
        writer.write(_CHUNKED)
        if initial:
            listed = (deployment(n, n + 1) for n in range(self.objects))
            for packet in _packets("ADDED", listed):
                writer.write(packet)
                await writer.drain()
            annotations = {"k8s.io/initial-events-end": "true"}
            metadata = {"resourceVersion": str(self.objects + 1), "annotations": annotations}
            end = {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": metadata}
            writer.writelines(_packets("BOOKMARK", [end]))
        await self.released.wait()
        for packet in self._lines:
            writer.write(packet)
            await writer.drain()
        await asyncio.Event().wait()


def _packets(change: str, objects: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    """Chunks of a watch, with some events in each."""
    lines = (orjson.dumps({"type": change, "object": each}) + b"\n" for each in objects)
    while chunk := b"".join(islice(lines, PACKET)):
        yield b"%x\r\n%b\r\n" % (len(chunk), chunk)


def _whole(body: bytes, status: bytes = b"200 OK") -> bytes:
    fields = b"Content-Type: application/json\r\nContent-Length: %d" % len(body)
    return b"HTTP/1.1 %b\r\n%b\r\n\r\n%b" % (status, fields, body)


async def serve(objects: int, events: int, ready: str) -> None:
    served = Served(objects, events)
    served.prepare()
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    report_ready(ready, {"url": f"http://127.0.0.1:{port}"})
    await server.serve_forever()


@click.command()
@click.option("--objects", default=50_000)
@click.option("--events", default=50_000)
@click.option("--ready", required=True)
def main(objects: int, events: int, ready: str) -> None:
    """Serve until killed."""
    uvloop.run(serve(objects, events, ready))


if __name__ == "__main__":
    main()
