"""Connections to one server: its name, TCP, a proxy on the way, TLS."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast
from urllib.parse import SplitResult, unquote, urlsplit

import aiohappyeyeballs

from ctrlruntime.client.http1 import BrokenConnection, Connection, read_buffer
from ctrlruntime.outbound_addresses import SECOND_ADDRESS_AFTER, socket_factory

_PORTS: Final = {"http": 80, "https": 443}
_LONGEST_REPLY: Final = 2**16
_STATUS: Final = re.compile(rb"HTTP/\d\.\d (\d{3})(?: |\r\n)")
"""The line that a proxy answers with, of which no more than the status is quoted."""


class ConnectFailed(ConnectionError):
    """No connection was made; nothing was sent."""


class ConnectTimeout(ConnectFailed):
    """It was not made in time."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where something listens."""

    host: str
    port: int
    tls: bool
    authorization: str = ""
    """``Proxy-Authorization`` or ``Authorization`` by the user and password of the URL."""

    @classmethod
    def parse(cls, url: str) -> Endpoint:
        """Raise ValueError for anything but an http or https URL with a host."""
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise ValueError(
                f"{_without_password(parts)!r} is not the URL of a host by http or https"
            )
        return cls(
            parts.hostname,
            parts.port or _PORTS[parts.scheme],
            parts.scheme == "https",
            _basic(parts),
        )

    @property
    def authority(self) -> str:
        """Host and port as the field ``Host`` names them: without the port that is usual."""
        whole = str(self)
        return whole.removesuffix(f":{_PORTS['https' if self.tls else 'http']}")

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialer:
    """Makes connections to ``server``, by way of ``proxy`` if there is one."""

    server: Endpoint
    tls: ssl.SSLContext | None = None
    server_name: str | None = None
    """What the certificate of the server is for, where that is not its host."""
    proxy: Endpoint | None = None
    checked: bool = False
    """Whether an object named what is connected to, which is then none of the special addresses."""
    timeout: float = 30.0
    """Seconds for name, TCP, proxy and TLS together."""
    buffer: memoryview = field(default_factory=read_buffer, repr=False, compare=False)
    """What all of its connections read into."""
    _tls_buffers: dict[int, bytearray] = field(default_factory=dict, repr=False, compare=False)
    """The same for what is encrypted, by length: the buffer of the first connection."""

    async def dial(self) -> Connection:
        """Raise ConnectFailed."""
        try:
            async with asyncio.timeout(self.timeout):
                return await self._dial()
        except TimeoutError as error:
            raise ConnectTimeout(f"Connection timeout to {self.server}") from error
        except OSError as error:
            way = f" by the proxy {self.proxy}" if self.proxy is not None else ""
            raise ConnectFailed(f"Cannot connect to {self.server}{way}: {error}") from error

    async def _dial(self) -> Connection:
        loop = asyncio.get_running_loop()
        first = self.proxy or self.server
        sock = await _connected_socket(first, checked=self.checked)
        tunnelled = self.proxy is not None and self.tls is not None
        factory: Callable[[], Any] = _Tunnel if tunnelled else partial(Connection, self.buffer)
        try:
            transport, protocol = await loop.create_connection(
                factory, sock=sock, **self._tls_options(first)
            )
        except BaseException:
            sock.close()
            raise
        if not tunnelled:
            self._share_tls_buffer(transport)
            return cast("Connection", protocol)
        try:
            return await self._through(transport, cast("_Tunnel", protocol))
        except BaseException:
            transport.abort()
            raise

    def _tls_options(self, first: Endpoint) -> dict[str, Any]:
        if first is self.proxy:
            if not first.tls:
                return {}
            return {"ssl": ssl.create_default_context(), "server_hostname": first.host}
        if self.tls is None:
            return {}
        return {"ssl": self.tls, "server_hostname": self.server_name or first.host}

    async def _through(self, transport: asyncio.Transport, tunnel: _Tunnel) -> Connection:
        """Ask the proxy for a way to the server, and speak TLS with that."""
        proxy = cast("Endpoint", self.proxy)
        await tunnel.open(self.server, proxy.authorization)
        connection = Connection(self.buffer)
        transport.set_protocol(connection)
        upgraded = await asyncio.get_running_loop().start_tls(
            transport,
            connection,
            cast("ssl.SSLContext", self.tls),
            server_hostname=self.server_name or self.server.host,
        )
        connection.connection_made(cast("asyncio.Transport", upgraded))
        self._share_tls_buffer(upgraded)
        return connection

    def _share_tls_buffer(self, transport: asyncio.BaseTransport | None) -> None:
        """Take away a connection's own buffer of 256 KiB: 1,200 watches had 300 MiB of them.

        A selector loop fills and empties it in one step, so that connections can share one. asyncio has no option for
        that; where its attributes have other names, as on other loops, each connection keeps its own.
        """
        protocol = getattr(transport, "_ssl_protocol", None)
        own = getattr(protocol, "_ssl_buffer", None)
        on_selectors = isinstance(asyncio.get_running_loop(), asyncio.SelectorEventLoop)
        if isinstance(own, bytearray) and on_selectors:
            shared = self._tls_buffers.setdefault(len(own), own)
            vars(protocol).update(_ssl_buffer=shared, _ssl_buffer_view=memoryview(shared))


class _Tunnel(asyncio.Protocol):
    """The request CONNECT on a fresh connection to a proxy."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._reply = b""
        self._done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    async def open(self, server: Endpoint, authorization: str) -> None:
        """Raise BrokenConnection when the proxy refuses."""
        lines = [f"CONNECT {server} HTTP/1.1", f"Host: {server}"]
        if authorization:
            lines.append(f"Proxy-Authorization: {authorization}")
        cast("asyncio.Transport", self._transport).write("\r\n".join([*lines, "", ""]).encode())
        await self._done

    def data_received(self, data: bytes) -> None:
        self._reply += data
        if b"\r\n\r\n" not in self._reply and len(self._reply) < _LONGEST_REPLY:
            return
        if (status := _STATUS.match(self._reply)) is None:
            self._end(BrokenConnection("the proxy answers CONNECT with what is no HTTP"))
        elif status[1].startswith(b"2"):
            self._end(None)
        else:
            self._end(BrokenConnection(f"the proxy answers {status[1].decode()} to CONNECT"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or BrokenConnection("the proxy closed the connection"))

    def _end(self, error: Exception | None) -> None:
        if self._done.done():
            return
        if error is None:
            self._done.set_result(None)
        else:
            self._done.set_exception(error)


async def _connected_socket(endpoint: Endpoint, *, checked: bool) -> socket.socket:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    return await aiohappyeyeballs.start_connection(
        found,
        happy_eyeballs_delay=SECOND_ADDRESS_AFTER,
        interleave=1,
        socket_factory=partial(_keepalive_socket, socket_factory() if checked else _any_socket),
    )


def _any_socket(info: aiohappyeyeballs.AddrInfoType) -> socket.socket:
    family, kind, protocol, *_ = info
    return socket.socket(family, kind, protocol)


def _keepalive_socket(
    make: Callable[[aiohappyeyeballs.AddrInfoType], socket.socket],
    info: aiohappyeyeballs.AddrInfoType,
) -> socket.socket:
    """Return a socket that finds out about a vanished peer within 45 seconds."""
    sock = make(info)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return sock


def _basic(parts: SplitResult) -> str:
    if parts.username is None:
        return ""
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _without_password(parts: SplitResult) -> str:
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
