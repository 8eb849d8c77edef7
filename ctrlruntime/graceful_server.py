"""Server sockets that lose no connection when they close."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Iterable
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
async def closing_late_arrivals(server: Closable) -> AsyncIterator[None]:
    """Around the shutdown of an aiohttp server: connections whose TLS handshake ends during it are closed as well.

    aiohttp closes those that are idle once, at the beginning. It waits for the others to end, and one that arrived
    in between, and on which nothing is sent, does not before the shutdown's time is over.
    """

    async def close() -> None:
        while True:
            server.pre_shutdown()
            await asyncio.sleep(0.05)

    closing = asyncio.create_task(close(), name="close connections that arrive late")
    try:
        yield
    finally:
        closing.cancel()
        await asyncio.wait([closing])


@asynccontextmanager
async def hanging_up(server: Connections) -> AsyncIterator[None]:
    """Around the shutdown of `server`: afterwards its connections are closed, and not only requested to close.

    A TLS connection that is closed waits for its peer's answer, for half a minute if need be, and
    stays open for ever if the loop ends before.
    """
    transports = [each.transport for each in server.connections if each.transport is not None]
    sockets = [each.get_extra_info("socket") for each in transports]
    try:
        yield
    finally:
        loop = asyncio.get_running_loop()
        give_up = loop.time() + GOODBYE
        while any(each.fileno() >= 0 for each in sockets) and loop.time() < give_up:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)
        for each, sock in zip(transports, sockets, strict=True):
            if sock.fileno() >= 0:
                each.abort()
        await asyncio.sleep(0)
