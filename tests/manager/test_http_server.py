"""The manager's HTTP server: what it answers, what it takes of a client, and how connections end."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Unpack, cast

import pytest
import structlog
import trustme
from structlog.testing import capture_logs

from ctrlruntime.envtest.eventually import eventually_holds
from ctrlruntime.manager.http import HTTPServer, listen
from ctrlruntime.manager.http_connection import HTTPLimits
from ctrlruntime.manager.http_message import ServerRequest, ServerResponse
from ctrlruntime.manager.http_routes import Routes
from tests.manager.http_server import ServerOptions
from tests.support.waiting import let_pass

from .http_server import http_server

LONG = 60.0
LARGE = 8 * 2**20
"""Bytes that the buffers of a connection do not hold."""


async def echo(request: ServerRequest) -> ServerResponse:
    fields = " ".join(f"{name}={values}" for name, values in sorted(request.query.items()))
    return ServerResponse.text(f"{request.method} {request.path} {fields}".strip())


async def failing(_request: ServerRequest) -> ServerResponse:
    raise RuntimeError("the password is wrong")


async def large(_request: ServerRequest) -> ServerResponse:
    return ServerResponse(b"x" * LARGE)


def routes() -> Routes:
    found = Routes()
    found.add("/echo", echo)
    found.add_subtree("/tree/", echo)
    found.add("/failing", failing)
    found.add("/large", large)
    return found


class Caller:
    """One connection, with answers read as HTTP/1.1 has them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    def send(self, text: str) -> None:
        self.writer.write(text.encode("latin-1"))

    async def answer(self, *, without_body: bool = False) -> tuple[int, dict[str, str], bytes]:
        async with asyncio.timeout(LONG):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            line, *rest = head.strip().split("\r\n")
            headers = {name.lower(): value for name, _, value in (e.partition(": ") for e in rest)}
            length = 0 if without_body else int(headers.get("content-length", "0"))
            return int(line.split()[1]), headers, await self._reader.readexactly(length)

    async def ended(self) -> bytes:
        """Read to the end. Returns what came before it."""
        async with asyncio.timeout(LONG):
            try:
                return await self._reader.read()
            except ConnectionError:
                return b""


@asynccontextmanager
async def connected(port: int, tls: ssl.SSLContext | None = None) -> AsyncIterator[Caller]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    try:
        yield Caller(reader, writer)
    finally:
        writer.transport.abort()


@asynccontextmanager
async def caller(**options: Unpack[ServerOptions]) -> AsyncIterator[Caller]:
    async with http_server(routes(), **options) as port, connected(port) as found:
        yield found


def get(path: str, *fields: str, method: str = "GET") -> str:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: a", *fields, "", ""])


@contextmanager
def nothing_logged() -> Iterator[None]:
    with capture_logs() as lines:
        yield
    assert lines == []


async def test_paths_and_queries_are_decoded() -> None:
    async with caller() as subject:
        subject.send(get("/echo?exclude=a%20b&exclude=c&verbose"))
        code, headers, body = await subject.answer()
        assert (code, body) == (200, b"GET /echo exclude=['a b', 'c'] verbose=['']")
        assert headers["content-type"] == "text/plain; charset=utf-8"
        assert headers["date"].endswith(" GMT")
        subject.send(get("/tree/a%20b"))
        assert (await subject.answer())[2] == b"GET /tree/a b"
        subject.send(get("http://a/echo"))
        assert (await subject.answer())[2] == b"GET /echo"


async def test_head_has_the_fields_of_get_and_no_body() -> None:
    async with caller() as subject:
        subject.send(get("/echo", method="HEAD"))
        code, headers, _ = await subject.answer(without_body=True)
        assert (code, headers["content-length"]) == (200, "10")
        subject.send(get("/echo"))
        assert (await subject.answer())[2] == b"GET /echo", "the connection goes on"


async def test_unknown_paths_and_methods_are_refused_and_the_connection_goes_on() -> None:
    async with caller() as subject:
        for path in ("/", "/ech", "/echo/", "/tree"):
            subject.send(get(path))
            assert (await subject.answer())[0] == 404
        subject.send(get("/echo", "Content-Length: 4", method="POST") + "body")
        code, headers, _ = await subject.answer()
        assert (code, headers["allow"]) == (405, "GET,HEAD")
        subject.send(
            get("/echo", "Transfer-Encoding: chunked") + "4\r\nbody\r\n0\r\nEcho: b\r\n\r\n"
        )
        assert (await subject.answer())[0] == 200


async def test_a_handler_that_raises_is_logged_and_its_message_is_withheld() -> None:
    async with caller() as subject:
        with capture_logs() as lines:
            subject.send(get("/failing"))
            code, _, body = await subject.answer()
        assert (code, body) == (500, b"500: Internal Server Error")
        (line,) = lines
        assert (line["event"], line["path"]) == ("Request failed", "/failing")
        subject.send(get("/echo"))
        assert (await subject.answer())[0] == 200


async def test_requests_sent_at_once_are_answered_in_their_order() -> None:
    async with caller(limits=HTTPLimits(waiting_requests=4)) as subject:
        subject.send("".join(get(f"/tree/{number}") for number in range(50)))
        bodies = [(await subject.answer())[2] for _ in range(50)]
        assert bodies == [f"GET /tree/{number}".encode() for number in range(50)]


@pytest.mark.parametrize(
    "request_",
    [
        get("/echo", "Connection: close"),
        "GET /echo HTTP/1.0\r\n\r\n",
        get("/echo", "Connection: Upgrade", "Upgrade: h2c") + "PRI * HTTP/2.0\r\n\r\n",
    ],
)
async def test_the_end_of_a_connection_is_announced(request_: str) -> None:
    async with caller() as subject:
        subject.send(request_)
        code, headers, _ = await subject.answer()
        assert (code, headers["connection"]) == (200, "close")
        assert await subject.ended() == b""


async def test_a_client_that_waits_before_its_body_is_answered() -> None:
    async with caller() as subject:
        subject.send(get("/echo", "Content-Length: 4", "Expect: 100-continue"))
        assert (await subject.answer())[0] == 100
        subject.send("body")
        assert (await subject.answer())[0] == 200


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ("hello\r\n\r\n", 400),
        (get("/\xff"), 400),
        (get("/%ff"), 400),
        (get("/echo", "Content-Length: 1", "Content-Length: 2"), 400),
        (get("/echo", "Content-Length: 4", "Transfer-Encoding: chunked"), 400),
        (get("/echo", f"Cookie: {'a' * 2000}"), 431),
        (get("/echo?" + "a" * 2000), 431),
        ("GET /echo HTTP/1.1\r\nCookie: " + "a" * 2000, 431),
        (get("/echo", "Content-Length: 9999999") + "a" * 2000, 413),
    ],
)
async def test_what_is_no_request_or_too_large_ends_the_connection(sent: str, code: int) -> None:
    async with caller(limits=HTTPLimits(request_bytes=1000)) as subject:
        with nothing_logged():
            subject.send(sent)
            found, headers, _ = await subject.answer()
            assert (found, headers["connection"]) == (code, "close")
            assert await subject.ended() == b""


async def test_a_client_that_sends_too_slowly_is_cut_off() -> None:
    async with caller(limits=HTTPLimits(read_seconds=3600)) as subject:
        subject.send(get("/echo") + "GET /ec")
        await subject.answer()  # the server has read what came after it, too
        for _ in range(10):
            subject.send("o")
            await asyncio.sleep(0.001)
        let_pass(3600)
        code, headers, _ = await subject.answer()
        assert (code, headers["connection"]) == (408, "close")
        await subject.ended()


async def test_a_client_that_sends_nothing_is_cut_off() -> None:
    async with caller(limits=HTTPLimits(read_seconds=0.05)) as subject:
        assert await subject.ended() == b""


async def test_an_idle_connection_is_closed() -> None:
    async with caller(limits=HTTPLimits(idle_seconds=0.05)) as subject:
        subject.send(get("/echo"))
        assert (await subject.answer())[0] == 200
        assert await subject.ended() == b""


async def test_a_client_that_does_not_take_its_answer_is_cut_off() -> None:
    listener = listen("127.0.0.1:0", "a test")
    assert listener is not None
    limits = HTTPLimits(write_seconds=0.1)
    server = HTTPServer("test", routes(), listener, structlog.get_logger(), limits=limits)
    running = asyncio.create_task(server.start())
    await server.wait_ready()
    async with connected(server.port) as subject:
        subject.send(get("/echo"))
        await subject.answer()
        assert server.connections
        cast("asyncio.Transport", subject.writer.transport).pause_reading()
        subject.send(get("/large"))
        await eventually_holds(lambda: not server.connections)
    running.cancel()
    await asyncio.wait([running])


async def test_a_large_answer_arrives_whole() -> None:
    async with caller() as subject:
        for _ in range(2):
            subject.send(get("/large"))
            assert len((await subject.answer())[2]) == LARGE


async def test_a_request_in_progress_is_answered_when_the_server_stops() -> None:
    held, begun = asyncio.Event(), asyncio.Event()

    async def wait(_request: ServerRequest) -> ServerResponse:
        begun.set()
        await held.wait()
        return ServerResponse.text("done")

    waiting = Routes()
    waiting.add("/", wait)
    listener = listen("127.0.0.1:0", "a test")
    assert listener is not None
    server = HTTPServer("test", waiting, listener, structlog.get_logger(), shutdown_timeout=LONG)
    running = asyncio.create_task(server.start())
    await server.wait_ready()
    async with connected(server.port) as subject, connected(server.port) as idle:
        subject.send(get("/"))
        await begun.wait()
        running.cancel()
        assert await idle.ended() == b""
        held.set()
        code, headers, body = await subject.answer()
        assert (code, headers["connection"], body) == (200, "close", b"done")
        await asyncio.wait([running])
        assert await subject.ended() == b""


@pytest.mark.parametrize("end", ["stop", "disconnect"])
async def test_a_request_is_cancelled_with_its_server_or_its_client(end: str) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def hang(_request: ServerRequest) -> ServerResponse:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    hanging = Routes()
    hanging.add("/", hang)
    async with http_server(hanging, shutdown_timeout=0.05) as port, connected(port) as subject:
        subject.send(get("/"))
        await begun.wait()
        if end == "disconnect":
            subject.writer.transport.abort()
            await asyncio.wait_for(cancelled.wait(), LONG)
    assert cancelled.is_set()


async def test_the_filter_is_called_for_every_path() -> None:
    seen: list[str] = []

    async def refuse(request: ServerRequest) -> ServerResponse | None:
        seen.append(f"{request.path} {request.headers.get('authorization')}")
        return ServerResponse.text("no", 403) if request.path != "/echo" else None

    filtered = Routes(refuse)
    filtered.add("/echo", echo)
    filtered.add("/other", echo)
    async with http_server(filtered) as port, connected(port) as subject:
        codes = []
        for path in ("/echo", "/other", "/unknown"):
            subject.send(get(path, "AUTHORIZATION: Bearer a"))
            codes.append((await subject.answer())[0])
    assert codes == [200, 403, 403]
    assert seen == [f"{path} Bearer a" for path in ("/echo", "/other", "/unknown")]


async def test_over_tls_a_connection_goes_on_for_as_long_as_it_may() -> None:
    serving, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority = trustme.CA()
    authority.issue_cert("127.0.0.1").configure_cert(serving)
    authority.configure_trust(trusting)
    allowed = True
    limits = HTTPLimits(write_seconds=2 * LONG)  # what waits for answers that are sent fails
    options: ServerOptions = {"tls": serving, "may_persist": lambda _: allowed, "limits": limits}
    async with http_server(routes(), **options) as port, connected(port, trusting) as subject:
        for _ in range(3):
            subject.send(get("/echo"))
            assert "connection" not in (await subject.answer())[1]
        allowed = False
        subject.send(get("/echo"))
        assert (await subject.answer())[1]["connection"] == "close"
        assert await subject.ended() == b""


def test_an_answer_takes_no_line_breaks_into_its_head() -> None:
    for wrong in ({"content_type": "a\r\nb: c"}, {"headers": {"a": "b\nc: d"}}):
        with pytest.raises(ValueError, match="line break"):
            ServerResponse(**wrong)


def test_a_path_has_one_handler() -> None:
    subject = routes()
    for wrong in ("/echo", "echo", "/echo?a"):
        with pytest.raises(ValueError, match="path"):
            subject.add(wrong, echo)
