"""The time limits of requests on one connection, by a virtual clock and a transport in memory."""

from __future__ import annotations

import asyncio

import pytest

from ctrlruntime.client.http1 import Connection

pytestmark = [pytest.mark.criterion("PF-2"), pytest.mark.looptime]

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class MemoryTransport(asyncio.Transport):
    """Keeps nothing of what is written; ends its connection when it is aborted."""

    def __init__(self) -> None:
        super().__init__()
        self.connection = Connection()
        self.connection.connection_made(self)

    def write(self, data: object) -> None: ...

    def abort(self) -> None:
        self.connection.connection_lost(None)

    def receive(self, data: bytes) -> None:
        self.connection.get_buffer(-1)[: len(data)] = data
        self.connection.buffer_updated(len(data))


async def answered(wire: MemoryTransport, *, timeout: float, after: float) -> None:
    """Send a request that is answered after so many seconds."""
    asyncio.get_running_loop().call_later(after, wire.receive, ANSWER)
    assert (await wire.connection.request(b"GET", timeout=timeout)).body == b"{}"


@pytest.mark.parametrize("earlier", [(), (30.0,), (0.5,), (30.0, 0.5, 5.0)], ids=str)
async def test_each_request_has_its_own_time_limit(earlier: tuple[float, ...]) -> None:
    wire, loop = MemoryTransport(), asyncio.get_running_loop()
    for limit in earlier:
        await answered(wire, timeout=limit, after=0.4)
    start = loop.time()
    with pytest.raises(TimeoutError):
        await wire.connection.request(b"GET", timeout=7.0)
    assert loop.time() - start == pytest.approx(7.0, abs=0.01)
    assert not wire.connection.usable


async def test_an_idle_connection_outlives_the_limit_of_its_last_request() -> None:
    wire = MemoryTransport()
    await answered(wire, timeout=1.0, after=0.1)
    await asyncio.sleep(3600)
    assert wire.connection.usable
    await answered(wire, timeout=1.0, after=0.9)
    assert wire.connection.usable


async def test_a_connection_that_ends_leaves_no_timer() -> None:
    wire = MemoryTransport()
    await answered(wire, timeout=1.0, after=0.1)
    wire.abort()
    assert wire.connection._timer is None
