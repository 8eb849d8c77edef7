"""Server sockets that lose no connection when they close."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final, Protocol, TypeVar

P = TypeVar("P", bound=asyncio.BaseProtocol)

PATIENCE: Final = 2.0
"""Seconds that a server which stops waits for TLS handshakes to end, one way or the other."""

GOODBYE: Final = 0.5
"""Seconds that a peer has to answer the end of a TLS connection."""


class Connected(Protocol):
    """A connection of a server."""

    @property
    def transport(self) -> asyncio.Transport | None:
        """None once it is closed."""


class Connections(Protocol):
    """A server that lists its connections: one of aiohttp, or a manager's."""

    @property
    def connections(self) -> Iterable[Connected]:
        """Those that are open."""


class Closable(Connections, Protocol):
    """A server that can be requested to close its idle connections, as aiohttp's can."""

    def pre_shutdown(self) -> None:
        """Have each connection end: an idle one at once, another with its answer."""


class Body(Protocol):
    """The body of a request."""

    def is_eof(self) -> bool:
        """Whether all of it has arrived."""


class Abortable(Protocol):
    """The connection of a request."""

    def force_close(self) -> None:
        """Close it now, without an answer."""


class UnderWay(Protocol):
    """A request on an open connection: one of aiohttp."""

    @property
    def content(self) -> Body:
        """Its body."""

    @property
    def protocol(self) -> Abortable:
        """Its connection."""


class Arrivals:
    """Connections between `accept` and `connection_made`: for TLS, handshakes under way."""

    def __init__(self) -> None:
        self._awaited: weakref.WeakSet[asyncio.BaseProtocol] = weakref.WeakSet()

    def expect(self, protocol: P) -> P:
        """For the factory of protocols."""
        self._awaited.add(protocol)
        return protocol

    def arrived(self, protocol: asyncio.BaseProtocol) -> None:
        """For `connection_made`. What never arrives is forgotten with its failed handshake."""
        self._awaited.discard(protocol)

    async def all_in(self) -> None:
        """Return when none is on its way any more."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + PATIENCE
        while self._awaited and loop.time() < give_up:  # noqa: ASYNC110 - no event tells of failures
            await asyncio.sleep(0.001)


async def stop_listening(server: asyncio.Server, arrivals: Arrivals | None = None) -> None:
    """Close `server` once everything it has accepted has arrived, and can be closed by its owner.

    `Server.close()` alone drops, without closing it, a connection that was accepted in the same
    turn of the loop: its client waits for an answer that never comes.
    """
    loop = asyncio.get_running_loop()
    for sock in server.sockets:
        loop.remove_reader(sock.fileno())
    for _ in range(3):  # a task begins, makes a transport, and that tells the protocol
        await asyncio.sleep(0)
    if arrivals is not None:
        await arrivals.all_in()
    server.close()


@asynccontextmanager
async def closing_connections(
    server: Closable, requests: Callable[[], Iterable[UnderWay]]
) -> AsyncIterator[None]:
    """Around the shutdown of an aiohttp server: no request waits for what cannot arrive any more.

    aiohttp ignores what a connection sends once it is to be closed, the rest of a body too, so that its handler waits
    for the whole of the shutdown's time. Bodies that are under way have ``PATIENCE`` seconds here before anything is
    closed; a request whose body is not complete then loses its connection. ``requests``: those whose body may be
    incomplete, with or without an answer.

    aiohttp closes idle connections once, at the beginning. One whose TLS handshake ends later is closed here as well.
    """
    loop = asyncio.get_running_loop()
    give_up = loop.time() + PATIENCE
    while _incomplete(requests) and loop.time() < give_up:  # noqa: ASYNC110 - no event for the last byte
        await asyncio.sleep(0.005)
    server.pre_shutdown()

    async def close() -> None:
        while True:
            for each in _incomplete(requests):
                each.protocol.force_close()
            server.pre_shutdown()
            await asyncio.sleep(0.05)

    closing = asyncio.create_task(close(), name="close what does not end by itself")
    try:
        yield
    finally:
        closing.cancel()
        await asyncio.wait([closing])


def _incomplete(requests: Callable[[], Iterable[UnderWay]]) -> list[UnderWay]:
    return [each for each in requests() if not each.content.is_eof()]


@asynccontextmanager
async def hanging_up(server: Connections) -> AsyncIterator[None]:
    """Around the shutdown of `server`: afterwards its connections are closed, and not only requested to close.

    A TLS connection that is closed waits for its peer's answer, for half a minute if need be, and
    stays open for ever if the loop ends before.
    """
    transports = [each.transport for each in server.connections if each.transport is not None]
    # A TLS connection that is lost in this turn has no socket any more.
    found = [(each, sock) for each in transports if (sock := each.get_extra_info("socket"))]
    try:
        yield
    finally:
        loop = asyncio.get_running_loop()
        give_up = loop.time() + GOODBYE
        while any(sock.fileno() >= 0 for _, sock in found) and loop.time() < give_up:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)
        for each, sock in found:
            if sock.fileno() >= 0:
                each.abort()
        await asyncio.sleep(0)
