"""Servers that stop leave no connection behind that they have accepted."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager

import pytest
import structlog
import trustme
from aiohttp import web

from ctrlruntime.envtest.proxy.proxy import Proxy, ProxyOptions
from ctrlruntime.envtest.server import APIServer, ServerOptions
from ctrlruntime.graceful_server import hanging_up
from ctrlruntime.manager.app_server import AppServer
from ctrlruntime.manager.http import HTTPServer, listen
from ctrlruntime.manager.http_routes import Routes
from ctrlruntime.manager.runnables import Group
from ctrlruntime.manager.webhooks import WebhookServer
from ctrlruntime.webhook.options import WebhookOptions
from ctrlruntime.webhook.tls import ServingTLS
from tests.manager.http_server import http_server as served
from tests.support.waiting import eventually

CALLERS = 4


@asynccontextmanager
async def proxy() -> AsyncIterator[int]:
    async with Proxy("http://127.0.0.1:1") as server:
        yield server.port


@asynccontextmanager
async def api_server() -> AsyncIterator[int]:
    async with APIServer(ServerOptions()) as server:
        yield server.port


@asynccontextmanager
async def http_server() -> AsyncIterator[int]:
    async with served(Routes()) as port:
        yield port


@asynccontextmanager
async def webhook_server(tls: ssl.SSLContext) -> AsyncIterator[int]:
    serving = ServingTLS()
    serving.context = tls
    server = WebhookServer(web.Application(), WebhookOptions(host="127.0.0.1", port=0), serving)
    running = asyncio.create_task(server.start())
    await server.wait_ready()
    yield server.port
    running.cancel()
    await asyncio.wait([running])


@pytest.mark.parametrize("turns", range(5))
@pytest.mark.parametrize("server", [proxy, api_server, http_server])
async def test_who_comes_while_a_server_stops_is_hung_up_on(
    server: Callable[[], AbstractAsyncContextManager[int]], turns: int
) -> None:
    with ExitStack() as callers:
        async with server() as port:
            sockets = [
                callers.enter_context(socket.create_connection(("127.0.0.1", port)))
                for _ in range(CALLERS)
            ]
            for _ in range(turns):
                await asyncio.sleep(0)
        for each in sockets:
            each.settimeout(60)
            assert await asyncio.to_thread(ended, each)


async def test_a_handshake_that_ends_during_the_shutdown_keeps_no_server() -> None:
    """An API server may open a connection to its webhooks at the moment when they stop, and send nothing on it."""
    tls, trusting = contexts()
    callers: list[socket.socket] = []

    async def shake_hands(_: web.Application) -> None:
        raw = callers.pop()
        callers.append(
            await asyncio.to_thread(trusting.wrap_socket, raw, server_hostname="127.0.0.1")
        )

    app = web.Application()
    app.on_shutdown.append(shake_hands)
    serving = ServingTLS()
    serving.context = tls
    server = WebhookServer(app, WebhookOptions(host="127.0.0.1", port=0), serving)
    running = asyncio.create_task(server.start())
    await server.wait_ready()
    callers.append(socket.create_connection(("127.0.0.1", server.port)))
    await asyncio.sleep(0.1)  # it is accepted, and says nothing yet
    running.cancel()
    done, _ = await asyncio.wait([running], timeout=60)
    assert done
    with callers.pop() as caller:
        assert await asyncio.to_thread(ended, caller)


async def test_a_tls_connection_that_is_lost_in_the_turn_of_the_end_is_no_error() -> None:
    tls, trusting = contexts()

    class Accepted(asyncio.Protocol):
        transport: asyncio.Transport | None = None

        @property
        def connections(self) -> list[Accepted]:
            return [self]

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            self.transport = transport

    accepted = Accepted()
    loop = asyncio.get_running_loop()
    async with await loop.create_server(lambda: accepted, "127.0.0.1", 0, ssl=tls) as server:
        port = server.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
        transport = await eventually(lambda: accepted.transport)
        assert transport is not None
        transport.abort()
        await asyncio.sleep(0)
        assert transport.get_extra_info("socket") is None
        async with hanging_up(accepted):
            pass
        writer.transport.abort()


def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return those of a server on loopback and of its callers."""
    authority = trustme.CA()
    tls, trusting = (
        ssl.SSLContext(each) for each in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT)
    )
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.configure_trust(trusting)
    return tls, trusting


@asynccontextmanager
async def half_sent(
    *, refuses: bool = False
) -> AsyncIterator[tuple[asyncio.Task[None], asyncio.StreamReader, asyncio.StreamWriter]]:
    """A server that echoes, and a request to it whose body has arrived by half.

    With ``refuses`` the answer does not wait for the body, of which the server still reads the rest.
    """
    began = asyncio.Event()

    async def echo(request: web.Request) -> web.Response:
        began.set()
        if refuses:
            return web.Response(status=413)
        return web.Response(body=await request.read())

    app = web.Application()
    app.router.add_post("/", echo)
    listener = listen("127.0.0.1:0", "a test")
    assert listener is not None
    port = listener.getsockname()[1]
    server = AppServer("test", app, listener, group=Group.HTTP_SERVERS, shutdown_timeout=300)
    running = asyncio.create_task(server.start())
    await server.wait_ready()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\nfirst")
    await began.wait()
    try:
        yield running, reader, writer
    finally:
        writer.transport.abort()
        running.cancel()
        await asyncio.wait([running])


@pytest.mark.parametrize(
    "sent",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: test\r\nLong: " + b"a" * 9_000 + b"\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    ],
    ids=["HTTP/2", "a long head", "two lengths"],
)
async def test_what_a_peer_sends_wrong_is_answered_and_not_logged(
    caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    """Each had a traceback of aiohttp's in the log, so that anyone who reaches the port could fill it."""
    async with half_sent() as (_, _, first):
        reader, writer = await asyncio.open_connection(*first.get_extra_info("peername"))
        writer.write(sent)
        assert (await reader.read()).startswith(b"HTTP/1.0 400")
        writer.close()
    assert [each.message for each in caplog.records] == []


async def test_a_body_under_way_when_a_server_stops_is_read_and_answered() -> None:
    async with half_sent() as (running, reader, writer):
        running.cancel()
        for _ in range(20):  # turns of the loop in which a server that does not wait closes
            await asyncio.sleep(0)
        writer.write(b"other")
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        assert await reader.readexactly(10) == b"firstother"
        await asyncio.wait([running])


@pytest.mark.parametrize("refuses", [False, True])
async def test_a_body_that_never_arrives_does_not_hold_a_server_that_stops(refuses: bool) -> None:
    async with half_sent(refuses=refuses) as (running, reader, _):
        running.cancel()
        async with asyncio.timeout(60):  # the server's own time is 300 s
            await asyncio.wait([running])
            assert (b"413" if refuses else b"") in await reader.read()


@pytest.mark.parametrize("turns", range(6))
async def test_a_server_that_is_stopped_while_it_starts_gives_its_port_back(turns: int) -> None:
    listener = listen("127.0.0.1:0", "a test")
    assert listener is not None
    port = listener.getsockname()[1]
    server = HTTPServer("test", Routes(), listener, structlog.get_logger())
    running = asyncio.create_task(server.start())
    await asyncio.sleep(0)
    for _ in range(turns):
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_a_handshake_under_way_ends_before_the_proxy_does() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority = trustme.CA()
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with Proxy("http://127.0.0.1:1", ProxyOptions(tls=context)) as proxy:
        # By hand, so that the other half of the handshake happens when it is told to.
        coming, going = ssl.MemoryBIO(), ssl.MemoryBIO()
        caller = trusting.wrap_bio(coming, going, server_hostname="127.0.0.1")
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        with pytest.raises(ssl.SSLWantReadError):
            caller.do_handshake()
        writer.write(going.read())
        coming.write(await reader.read(65536))
        stopping = asyncio.create_task(proxy.stop())
        await asyncio.sleep(0.01)
        assert not stopping.done()
        caller.do_handshake()
        writer.write(going.read())
        await stopping
    with pytest.raises(ConnectionError):
        await hung_up(reader)
    writer.close()


async def hung_up(reader: asyncio.StreamReader) -> None:
    while await reader.read(65536):
        pass
    raise ConnectionAbortedError


@pytest.mark.parametrize("kind", ["api_server", "http_server", "webhook_server"])
async def test_who_does_not_answer_the_end_of_tls_is_hung_up_on(kind: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    async with tls_server(kind, context) as port:
        silent = await asyncio.to_thread(connected, port)
    silent.settimeout(5)
    # The bytes below TLS: its goodbye, and then the end, though nobody has answered.
    raw = socket.socket(fileno=silent.detach())
    assert await asyncio.to_thread(read_to_the_end, raw)
    raw.close()


@asynccontextmanager
async def tls_server(kind: str, context: ssl.SSLContext) -> AsyncIterator[int]:
    if kind == "api_server":
        async with APIServer(ServerOptions(tls=True)) as server:
            yield server.port
        return
    manager = webhook_server(context) if kind == "webhook_server" else served(Routes(), tls=context)
    async with manager as port:
        yield port


def connected(port: int) -> ssl.SSLSocket:
    """A caller that has got an answer, and says nothing any more."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    made = context.wrap_socket(socket.create_connection(("127.0.0.1", port)))
    made.settimeout(20)
    made.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert made.recv(1000)
    return made


def read_to_the_end(raw: socket.socket) -> bool:
    raw.settimeout(20)
    try:
        while raw.recv(65536):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def ended(connection: socket.socket) -> bool:
    """Whether its peer hung up, politely or not; False when it is still there after the timeout."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False
