"""Doors of an API server that answers: what a data plane, or the cluster of a kubeconfig, may send."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import Callable, Iterable
from functools import partial

from ctrlruntime.client.answer_limits import FOREIGN, MIB
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import APIError, TransportError
from internal.fleet.plane_check import NAMESPACE, check_plane
from internal.fleet.targets import TargetError
from tests.client.wire import WireServer
from tests.hostile.measure import Door

HEALTHY = b'{"metadata":{"name":"kube-system","uid":"u"}}'
LIMITS = f"{FOREIGN.body // MIB} MiB an answer, also inflated; {FOREIGN.line // MIB} MiB a line; a sum over all servers"
TOO_MUCH = 40 * MIB
"""Bytes: more than is kept of one answer."""
Body = Callable[[], Iterable[bytes]]
HEAD = "HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{fields}\r\n"


def endless(piece: bytes, first: bytes = b"") -> Iterable[bytes]:
    """Yield a beginning and then one piece, again and again."""
    yield first
    while True:
        yield piece


def bomb(size: int = TOO_MUCH) -> Iterable[bytes]:
    """Yield the compressed form of that many zeros, a piece at a time."""
    stream = zlib.compressobj(wbits=31)
    for _ in range(size // MIB):
        yield stream.compress(bytes(MIB))
    yield stream.flush()


def nested(depth: int) -> bytes:
    """Return a Namespace with mappings that deep."""
    return (
        b'{"metadata":{"name":"x","uid":"u"},"spec":'
        + b'{"a":' * depth
        + b"1"
        + b"}" * depth
        + b"}"
    )


def many_keys() -> bytes:
    """Return a Namespace with 100,000 annotations and no uid."""
    return json.dumps(
        {"metadata": {"annotations": {f"k{n}": "v" for n in range(100_000)}}}
    ).encode()


CHUNKED = "Transfer-Encoding: chunked\r\n"
SHAPES: dict[str, tuple[str, Body]] = {
    "a gzip bomb": ("Content-Encoding: gzip\r\n", bomb),
    "gzip in gzip": ("Content-Encoding: gzip\r\n", lambda: [gzip.compress(gzip.compress(b"{}"))]),
    "no gzip": ("Content-Encoding: gzip\r\n", lambda: [b"\x1f\x8b garbage"]),
    "an endless body": ("", lambda: endless(bytes(65536))),
    "an endless line of spaces": ("", lambda: endless(b" " * 65536, HEALTHY[:-1])),
    "a length of 2^60": (f"Content-Length: {2**60}\r\n", lambda: endless(bytes(65536))),
    "a length that is a lie": ("Content-Length: 1000\r\n", lambda: [HEALTHY]),
    "endless headers": ("X: ", lambda: endless(b"a" * 65536)),
    "many headers": ("", lambda: endless(b"A: b\r\n" * 10_000)),
    "depth 100": ("", lambda: [nested(100)]),
    "depth 1,000": ("", lambda: [nested(1_000)]),
    "depth 10,000": ("", lambda: [nested(10_000)]),
    "100,000 keys": ("", lambda: [many_keys()]),
    "1.5 MB": ("", lambda: [b'{"metadata":{"uid":"' + b"u" * 1_500_000 + b'"}}']),
    "no JSON": ("", lambda: [b"<html>"]),
    "a list": ("", lambda: [b"[]"]),
    "no metadata": ("", lambda: [b"{}"]),
    "no uid": ("", lambda: [b'{"metadata":{}}']),
    "null": ("", lambda: [b"null"]),
    "other types": ("", lambda: [b'{"metadata":{"uid":{"a":1}}}']),
    "no UTF-8": ("", lambda: [b'{"metadata":{"uid":"\xff\xfe"}}']),
    "a chunk that is longer than it says": (CHUNKED, lambda: [b"2\r\n%b\r\n0\r\n\r\n" % HEALTHY]),
    "a chunk of 2^60": (CHUNKED, lambda: endless(bytes(65536), b"1000000000000000\r\n")),
    "a chunk below nothing": (CHUNKED, lambda: [b"-1\r\nx\r\n0\r\n\r\n"]),
    "a size of a chunk without an end": (CHUNKED, lambda: endless(b"0" * 65536)),
    "endless small chunks": (CHUNKED, lambda: endless(b"1\r\n \r\n" * 10_000)),
    "endless trailers": (CHUNKED, lambda: endless(b"A: b\r\n" * 10_000, b"0\r\n")),
    "an endless extension of a chunk": (CHUNKED, lambda: endless(b"a" * 65536, b"1;x=")),
    "a length and chunks": (f"{CHUNKED}Content-Length: 3\r\n", lambda: [b"0\r\n\r\n"]),
    "two lengths": ("Content-Length: 3\r\nContent-Length: 45\r\n", lambda: [HEALTHY]),
    "a length below nothing": ("Content-Length: -1\r\n", lambda: [HEALTHY]),
    "another encoding": ("Content-Encoding: br\r\n", lambda: [b"\0"]),
    "a bomb of zlib": ("Content-Encoding: deflate\r\n", bomb),
    "a header of 1 MB": (f"A: {'b' * MIB}\r\n", lambda: [b"{}"]),
    "a header without a name": (": b\r\n", lambda: [b"{}"]),
    "a header of no UTF-8": ("A: \xff\0\x1b\r\n", lambda: [b"{}"]),
}
"""Fields of the head, and the body, of an answer to `get`."""
NOT_UNREADABLE = frozenset({"depth 100", "depth 1,000"})
"""What may be read, or refused."""


def serving(fields: str, body: Body, status: str = "200 OK") -> WireServer:
    """Return a server that answers every request so, and closes the connection then."""
    server = WireServer()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.request(reader)
        head = HEAD.format(status=status, fields=fields)
        if fields == "X: ":
            head = head.removesuffix("\r\n")
        writer.write((head.removesuffix("\r\n") if "headers" in fields else head).encode())
        for piece in body():
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)

    server._scripts = [script]
    return server


def client_of(server: WireServer) -> Client:
    """Return a client of a server that a kubeconfig from a Secret named."""
    return Client.connect(Config(host=server.url, foreign=True))


async def check(shape: str) -> None:
    """Check a data plane that answers so: its check fails."""
    async with serving(*SHAPES[shape]) as server, client_of(server) as client:
        try:
            await check_plane(client, [])
        except TargetError:
            pass
        else:
            assert shape in NOT_UNREADABLE, "the check passed"


async def healthy() -> None:
    """Get an object of a healthy server beside it."""
    async with serving("", lambda: [HEALTHY]) as server, client_of(server) as client:
        assert (await client.get(NAMESPACE, "kube-system"))["metadata"]["uid"] == "u"


PLANE = Door(
    "answers of a data plane",
    {shape: partial(check, shape) for shape in SHAPES},
    healthy,
    limits=LIMITS,
)


LINES: dict[str, tuple[str, Body]] = {
    "an endless line": ("", lambda: endless(b"a" * 65536, b'{"type":"ADDED","object":{"a":"')),
    "a bomb as a line": ("Content-Encoding: gzip\r\n", bomb),
    "no JSON": ("", lambda: [b"<html>\n"]),
    "no type": ("", lambda: [b"{}\n"]),
    "depth 10,000": ("", lambda: [b'{"type":"ADDED","object":' + nested(10_000) + b"}\n"]),
    "endless headers": ("X: ", lambda: endless(b"a" * 65536)),
}


async def watch(shape: str, status: str = "200 OK") -> None:
    """Watch a server that sends such a line: the watch fails by a typed error."""
    async with serving(*LINES[shape], status) as server, client_of(server) as client:
        lines = client.transport.watch_lines("/watch", {}, inactivity=30.0)
        try:
            async for line in lines:
                assert len(line) <= FOREIGN.line
        except (TransportError, APIError):
            pass
        else:
            assert "JSON" in shape or "type" in shape or "depth" in shape, "the watch ended well"


WATCH = Door(
    "a watch of a data plane",
    {shape: partial(watch, shape) for shape in LINES}
    | {"an endless error": partial(watch, "an endless line", "500 No")},
    healthy,
    limits=LIMITS,
)


FULL_PAGE = b'{"metadata":{"continue":"x"},"items":[' + b" " * 4 * MIB + b"]}"
TOO_LARGE_PAGE = b" " * (FOREIGN.body + 1)


async def listed(pages: Callable[[int], bytes]) -> None:
    """List from a server that answers a page so, by its number: the list fails by a typed error."""
    server = WireServer()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in range(10**6):
            await server.request(reader)
            body = memoryview(pages(number))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
            for start in range(0, len(body), MIB):  # what is buffered is moved at each write
                writer.write(body[start : start + MIB])
                await writer.drain()

    server._scripts = [script]
    async with server, client_of(server) as client:
        try:
            await client.list(NAMESPACE)
        except TransportError:
            return
    raise AssertionError("the list came to an end")


LIST = Door(
    "a list of a data plane",
    {
        "endless empty pages": lambda: listed(
            lambda _: b'{"metadata":{"continue":"x"},"items":[]}'
        ),
        "endless full pages": lambda: listed(lambda _: FULL_PAGE),
        "pages that no limit makes smaller": lambda: listed(lambda _: TOO_LARGE_PAGE),
    },
    healthy,
    limits=f"{LIMITS}; {FOREIGN.pages // MIB} MiB of all pages",
)
