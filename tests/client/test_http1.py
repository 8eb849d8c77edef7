"""The connections of a transport, byte by byte: framing, reuse, cancellation, limits, proxies, TLS."""

from __future__ import annotations

import asyncio
import gc
import gzip
import ssl
from asyncio.sslproto import SSLProtocol
from contextlib import aclosing

import pytest
import trustme
import uvloop

from ctrlruntime.client.config import Config
from ctrlruntime.client.connection_pool import ConnectionPool
from ctrlruntime.client.dial import ConnectFailed, Dialer, Endpoint
from ctrlruntime.client.errors import TransportError, WriteOutcomeUnknown
from ctrlruntime.client.transport import Transport, TransportOptions
from tests.client.wire import OK, Script, WireServer, pipe
from tests.support.waiting import eventually

pytestmark = pytest.mark.criterion("PF-2")

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def transport(server: WireServer, **options: object) -> Transport:
    return Transport(Config(host=server.url), TransportOptions(**options))  # type: ignore[arg-type]


def serving(*answers: bytes, keep: bool = True) -> WireServer:
    server = WireServer()
    server._scripts = [server.answers(*answers, keep=keep)]
    return server


# -- framing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
async def test_an_answer_is_whole_however_its_bytes_arrive(size: int) -> None:
    wire = CHUNKED + b"3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nTrailer: x\r\n\r\n"

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.request(reader)
        for start in range(0, len(wire), size):
            writer.write(wire[start : start + size])
            await writer.drain()
            await asyncio.sleep(0)
        await server.request(reader)
        writer.write(OK)
        await reader.read()

    server = WireServer(script)
    async with server, transport(server) as client:
        assert (await client.request("GET", "/x")).body == b"abcdefg"
        assert (await client.request("GET", "/x")).body == b"{}"
    assert server.connections == 1


async def test_informational_answers_are_passed_over() -> None:
    hints = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    async with serving(hints + OK, hints + OK) as server, transport(server) as client:
        lines = [line async for line in client.watch_lines("/x", {}, inactivity=60.0)]
        assert lines == [b"{}"]
        response = await client.request("GET", "/x")
    assert (response.status, response.body) == (200, b"{}")
    assert "Link" not in response.headers


async def test_an_answer_without_length_lasts_until_the_connection_ends() -> None:
    async with (
        serving(b"HTTP/1.1 200 OK\r\n\r\nall of it", keep=False) as server,
        transport(server) as client,
    ):
        assert (await client.request("GET", "/x")).body == b"all of it"
        lines = [line async for line in client.watch_lines("/x", {}, inactivity=60.0)]
    assert lines == [b"all of it"]


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}",
        CHUNKED + b"5\r\n{}",
        CHUNKED + b"x\r\n{}",
    ],
    ids=["no-http", "short", "chunk-cut-off", "no-chunk"],
)
async def test_an_answer_that_is_not_whole_is_none(answer: bytes) -> None:
    async with serving(answer, keep=False) as server, transport(server) as client:
        with pytest.raises(TransportError) as error:
            await client.request("GET", "/x")
        assert error.value.sent
        with pytest.raises(WriteOutcomeUnknown):
            await client.request("POST", "/x", body=b"{}")


async def test_header_names_have_any_case_and_fields_may_come_twice() -> None:
    answer = b"HTTP/1.1 200 OK\r\nwarning: 299 - a\r\nWARNING: 299 - b\r\ncontent-LENGTH: 0\r\n\r\n"
    async with serving(answer) as server, transport(server) as client:
        headers = (await client.request("GET", "/x")).headers
    assert headers["Warning"] == "299 - a"
    assert headers.get_all("warning") == ["299 - a", "299 - b"]  # type: ignore[attr-defined]
    assert len(headers) == 2
    assert "x" not in headers


async def test_head_has_no_body_whatever_its_length() -> None:
    async with (
        serving(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n") as server,
        transport(server) as client,
    ):
        assert (await client.request("HEAD", "/x")).body == b""


# -- reuse ---------------------------------------------------------------------------------------


async def test_a_connection_that_the_server_closed_between_requests_is_not_used_again() -> None:
    server = WireServer()
    server._scripts = [server.answers(OK, keep=False), server.answers(OK, OK)]
    async with server, transport(server) as client:
        await client.request("GET", "/x")
        await eventually(lambda: client._pool is not None and not client._pool._idle[0].usable)
        assert (await client.request("POST", "/x", body=b"{}")).status == 200
    assert server.connections == 2


def closes_with_the_second_request(server: WireServer) -> Script:
    """Answer once; close the kept connection when the next request is under way on it."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.request(reader)
        writer.write(OK)
        await server.request(reader)

    return script


async def test_a_read_on_a_kept_connection_that_closes_is_sent_again_once() -> None:
    server = WireServer()
    server._scripts = [closes_with_the_second_request(server), server.answers(OK, keep=False)]
    async with server, transport(server) as client:
        await client.request("GET", "/x")
        assert (await client.request("GET", "/y")).status == 200
    assert [head.split()[1] for head in server.heads] == ["/x", "/y", "/y"]


async def test_a_write_on_a_kept_connection_that_closes_is_not_sent_again() -> None:
    server = WireServer()
    server._scripts = [closes_with_the_second_request(server), server.answers(OK)]
    async with server, transport(server) as client:
        await client.request("GET", "/x")
        with pytest.raises(WriteOutcomeUnknown):
            await client.request("PATCH", "/y", body=b"{}")
    assert [head.split()[1] for head in server.heads] == ["/x", "/y"]


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nConnection: close", b"HTTP/1.0 200 OK"])
async def test_a_server_that_announces_the_end_gets_no_second_request(head: bytes) -> None:
    answer = head + b"\r\nContent-Length: 2\r\n\r\n{}"
    async with serving(answer, answer) as server, transport(server) as client:
        await client.request("GET", "/x")
        await client.request("GET", "/x")
    assert server.connections == 2


async def test_bytes_that_were_not_requested_end_the_connection() -> None:
    server = WireServer()
    server._scripts = [server.answers(OK + OK), server.answers(OK)]
    async with server, transport(server) as client:
        assert (await client.request("GET", "/x")).body == b"{}"
        assert (await client.request("GET", "/x")).body == b"{}"
    assert server.connections == 2


@pytest.mark.parametrize("ending", ["cancelled", "timed-out"])
async def test_the_answer_to_an_abandoned_request_reaches_no_other(ending: str) -> None:
    arrived = asyncio.Event()
    released = asyncio.Event()

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.request(reader)
        arrived.set()
        await released.wait()
        writer.write(OK.replace(b"{}", b"[]"))
        await server.request(reader)
        writer.write(OK.replace(b"{}", b"[]"))

    server = WireServer(late)
    server._scripts.append(server.answers(OK))
    async with server, transport(server) as client:
        if ending == "cancelled":
            request = asyncio.create_task(client.request("GET", "/late"))
            await arrived.wait()
            request.cancel()
            with pytest.raises(asyncio.CancelledError):
                await request
        else:
            with pytest.raises(TransportError, match="no answer in time"):
                await client.request("GET", "/late", timeout=0.05)
        released.set()
        assert (await client.request("GET", "/x")).body == b"{}"
    assert server.connections == 2


async def test_a_watch_that_is_left_early_frees_nothing_for_others() -> None:
    server = WireServer()
    server._scripts = [server.answers(CHUNKED + b"2\r\na\n\r\n"), server.answers(OK)]
    async with server, transport(server) as client:
        async with aclosing(client.watch_lines("/x", {}, inactivity=60.0)) as lines:
            assert await anext(lines) == b"a"
        assert (await client.request("GET", "/x")).body == b"{}"
    assert server.connections == 2


async def test_a_watch_read_to_its_end_leaves_its_connection_to_the_next_request() -> None:
    async with (
        serving(CHUNKED + b"2\r\na\n\r\n0\r\n\r\n", OK) as server,
        transport(server) as client,
    ):
        assert [line async for line in client.watch_lines("/x", {}, inactivity=60.0)] == [b"a"]
        assert (await client.request("GET", "/x")).body == b"{}"
    assert server.connections == 1


async def test_an_idle_connection_is_closed_after_its_time_and_a_retired_pool_keeps_none() -> None:
    async with serving(OK, OK) as server:
        dialer = Dialer(server=Endpoint.parse(server.url))
        pool = ConnectionPool(dialer, keepalive=0.02)
        connection = await pool.dial()
        assert pool.take() is None
        pool.release(connection)
        await eventually(lambda: not connection.usable)
        assert pool.take() is None
        lasting = ConnectionPool(dialer, keepalive=60.0)
        lasting.release(connection := await lasting.dial())
        assert lasting.take() is connection
        lasting.retire(60.0)
        assert not lasting.closed
        lasting.release(connection)
        assert lasting.closed
        assert lasting.take() is None
        lasting.close()


# -- what is read and sent -----------------------------------------------------------------------


async def test_a_whole_watch_ends_at_its_own_time_limit() -> None:
    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.request(reader)
        writer.write(CHUNKED)
        while True:
            writer.write(b"2\r\na\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.005)

    server = WireServer(trickle)
    async with server, transport(server) as client:
        lines = client.watch_lines("/x", {}, inactivity=60.0, timeout=0.1)
        with pytest.raises(TransportError, match="no answer in time"):
            assert not [line async for line in lines if line != b"a"]


async def test_a_stream_that_is_not_read_fills_the_socket_and_not_the_memory() -> None:
    sent = 0
    stuck = asyncio.Event()

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await server.request(reader)
        writer.write(CHUNKED)
        chunk = b"%x\r\n" % 2**16 + (b"x" * (2**16 - 1) + b"\n") + b"\r\n"
        for _ in range(1024):  # 64 MiB
            writer.write(chunk)
            drained = asyncio.ensure_future(writer.drain())
            done, _ = await asyncio.wait([drained], timeout=1.0)
            if not done:
                stuck.set()
                await drained
            sent += 1
        stuck.set()
        writer.write(b"0\r\n\r\n")
        await reader.read()

    server = WireServer(flood)
    async with server, transport(server) as client:
        lines = client.watch_lines("/x", {}, inactivity=60.0)
        assert len(await anext(lines)) == 2**16 - 1
        await stuck.wait()
        assert sent < 1024
        assert 1 + len([line async for line in lines]) == 1024


async def test_compressed_answers_are_read_where_compression_is_on() -> None:
    packed = gzip.compress(b"one\ntwo\n")
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    async with (
        serving(head + packed, head + packed, head + packed[:-9] + b"x" * 9) as server,
        transport(server, compression=True) as client,
    ):
        assert (await client.request("GET", "/x")).body == b"one\ntwo\n"
        lines = [line async for line in client.watch_lines("/x", {}, inactivity=60.0)]
        assert lines == [b"one", b"two"]
        with pytest.raises(TransportError, match=r"decompressed|cut off"):
            await client.request("GET", "/x")
    assert "Accept-Encoding: gzip\r\n" in server.heads[0]


async def test_a_redirect_names_where_to_and_is_not_followed() -> None:
    answer = (
        b"HTTP/1.1 308 Permanent Redirect\r\nLocation: https://other\r\nContent-Length: 0\r\n\r\n"
    )
    async with serving(answer, answer) as server, transport(server) as client:
        with pytest.raises(TransportError, match="redirected to https://other; let the config"):
            await client.request("GET", "/x")
        with pytest.raises(TransportError, match="redirected to https://other"):
            await anext(client.watch_lines("/x", {}, inactivity=60.0))


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/x y", {}),
        ("/x\r\nA: b", {}),
        ("/ü", {}),
        ("/x", {"Impersonate-User": "a\r\nAuthorization: b"}),
        ("/x", {"A\nB": "c"}),
    ],
)
async def test_nothing_that_a_caller_passes_adds_lines_to_a_request(
    path: str, headers: dict[str, str]
) -> None:
    async with serving(OK) as server, transport(server) as client:
        with pytest.raises(ValueError, match=r"not a path|not one line"):
            await client.request("GET", path, headers=headers)
    assert not server.heads


async def test_each_request_has_the_fields_of_its_own_call() -> None:
    async with (
        serving(OK, OK, OK, OK) as server,
        Transport(Config(host=f"{server.url}/base/", extra_headers={"X": "1"})) as client,
    ):
        await client.request("PATCH", "/x", body=b"[]", content_type="application/json-patch")
        await client.request("GET", "/x", headers={"Accept": "text/plain"})
        await client.request("POST", "/x", params={"a": "b c"})
        await client.request("DELETE", "/x")
    patch, get, post, delete = server.heads
    assert patch.startswith("PATCH /base/x HTTP/1.1\r\n")
    assert f"Host: 127.0.0.1:{server.port}\r\n" in patch
    assert "Content-Type: application/json-patch\r\n" in patch
    assert "Content-Length: 2\r\n" in patch
    assert "X: 1\r\n" in get
    assert "Accept: text/plain\r\n" in get
    assert "application/json" not in get
    assert post.startswith("POST /base/x?a=b%20c HTTP/1.1\r\n")
    assert "Content-Length: 0\r\n" in post
    assert "Content" not in delete


async def test_a_big_body_arrives_whole() -> None:
    big = b"x" * 3_000_000

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(len(big))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await reader.read()

    server = WireServer(echo)
    async with server, transport(server) as client:
        assert (await client.request("PUT", "/x", body=big)).body == big


# -- TLS and proxies -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def server_tls(authority: trustme.CA, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


def config(url: str, authority: trustme.CA, **more: str) -> Config:
    return Config(host=url, ca_data=authority.cert_pem.bytes(), **more)  # type: ignore[arg-type]


async def test_the_certificate_is_checked_for_the_name_that_is_configured(
    authority: trustme.CA,
) -> None:
    server = WireServer(tls=server_tls(authority, "api.example.com"))
    server._scripts = [server.answers(OK)]
    async with server:
        named = config(server.url, authority, tls_server_name="api.example.com")
        async with Transport(named) as client:
            assert (await client.request("GET", "/x")).status == 200
        async with Transport(config(server.url, authority)) as client:
            with pytest.raises(TransportError, match="certificate") as error:
                await client.request("POST", "/x")
        assert not error.value.sent


async def test_connections_of_a_client_share_the_buffer_that_tls_reads_into(
    authority: trustme.CA,
) -> None:
    """asyncio has 256 KiB for each, which were 300 MiB of 1,200 watches."""
    bodies = [bytes([letter]) * 700_000 for letter in b"abc"]
    all_asked = asyncio.Barrier(len(bodies))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = bodies[int((await reader.readuntil(b"\r\n\r\n")).split()[1][-1:])]
        await all_asked.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await reader.read()

    name = "shared.example.com"
    server = WireServer(answer, tls=server_tls(authority, name))
    async with server, Transport(config(server.url, authority, tls_server_name=name)) as client:
        requests = (client.request("GET", f"/{number}") for number in range(len(bodies)))
        assert [each.body for each in await asyncio.gather(*requests)] == bodies
        found = [each for each in gc.get_objects() if type(each) is SSLProtocol]
        of_client = [vars(each) for each in found if vars(each)["_server_hostname"] == name]
        assert len(of_client) == len(bodies)
        assert len({id(each["_ssl_buffer"]) for each in of_client}) == 1


def tunnelling(proxy: WireServer, port: int) -> Script:
    """A proxy that grants CONNECT to one port of this machine."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await proxy.request(reader)
        onward = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n")
        try:
            await asyncio.gather(pipe(reader, onward[1]), pipe(onward[0], writer))
        finally:
            onward[1].transport.abort()

    return script


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("secure", [False, True], ids=["http-proxy", "https-proxy"])
def test_a_proxy_passes_tls_on_to_the_server(
    runner: object, secure: bool, authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trusting() -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        authority.configure_trust(context)
        return context

    monkeypatch.setattr(ssl, "create_default_context", trusting)

    async def run() -> None:
        server = WireServer(tls=server_tls(authority, "api.example.com"))
        server._scripts = [server.answers(OK, OK)]
        proxy = WireServer(tls=server_tls(authority, "127.0.0.1") if secure else None)
        async with server, proxy:
            proxy._scripts = [tunnelling(proxy, server.port)]
            url = proxy.url.replace("://", "://user:p%40ss@")
            configured = config("https://api.example.com", authority, proxy_url=url)
            async with Transport(configured) as client:
                assert (await client.request("GET", "/x")).body == b"{}"
                assert (await client.request("POST", "/y", body=b"{}")).body == b"{}"
        (connect,) = proxy.heads
        assert connect.startswith("CONNECT api.example.com:443 HTTP/1.1\r\n")
        assert "Proxy-Authorization: Basic dXNlcjpwQHNz\r\n" in connect
        assert [head.split(" HTTP")[0] for head in server.heads] == ["GET /x", "POST /y"]
        assert all("Host: api.example.com\r\n" in head for head in server.heads)
        assert not any("Proxy-Authorization" in head for head in server.heads)

    runner(run())  # type: ignore[operator]


async def test_a_proxy_that_refuses_is_named_and_nothing_was_sent(authority: trustme.CA) -> None:
    async with serving(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n") as proxy:
        configured = config("https://api.example.com", authority, proxy_url=proxy.url)
        async with Transport(configured) as client:
            with pytest.raises(TransportError, match=f"proxy 127.0.0.1:{proxy.port}.*407") as error:
                await client.request("POST", "/x")
    assert not error.value.sent


async def test_a_proxy_gets_whole_urls_for_servers_without_tls() -> None:
    async with serving(OK) as proxy:
        configured = Config(host="http://api.example.com:8080/base", proxy_url=proxy.url)
        async with Transport(configured) as client:
            assert (await client.request("GET", "/x")).status == 200
    (head,) = proxy.heads
    assert head.startswith("GET http://api.example.com:8080/base/x HTTP/1.1\r\n")
    assert "Host: api.example.com:8080\r\n" in head


@pytest.mark.parametrize("url", ["api:6443", "ftp://api", "https://", "socks5://u:secret@proxy"])
def test_an_address_that_is_none_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ValueError, match="is not the URL of a host") as error:
        Endpoint.parse(url)
    assert "secret" not in str(error.value)


async def test_a_name_that_does_not_resolve_is_a_failed_connection() -> None:
    dialer = Dialer(server=Endpoint.parse("https://name.invalid"))
    with pytest.raises(ConnectFailed, match=r"Cannot connect to name\.invalid:443: "):
        await dialer.dial()
