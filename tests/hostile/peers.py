"""Doors of peers: databases, nodes of chains, and tokens of whoever sends a request."""

from __future__ import annotations

import socket
from contextlib import suppress
from functools import partial
from typing import Any, cast
from urllib.parse import urlsplit

from ctrlruntime.client.client import Client
from ctrlruntime.manager.authorization import AccessReviews, TooManyUnknownTokens
from internal.cosmos.comet.address import Address
from internal.cosmos.comet.client import NodeClient
from internal.cosmos.comet.failures import NodeError
from internal.tenancy.sources.errors import SourceError
from tests.client.wire import WireServer
from tests.hostile.measure import Attack, Door
from tests.hostile.plane_answers import SHAPES, Body, serving
from tests.hostile.test_databases import FLOODS, hasty, mysql_rows
from tests.hostile.test_scram import MANY, scram_talk
from tests.tenancy.databases import read
from tests.tenancy.test_sql_security import (
    Talk,
    fake_server,
    packet,
    postgresql_talk,
    settings_of,
)


def slow(connection: socket.socket, _got: list[bytes]) -> None:
    """Send a byte now and then, without an end."""
    with suppress(OSError):
        connection.settimeout(0.2)
        while True:
            connection.sendall(b"N")
            with suppress(TimeoutError):
                if not connection.recv(65536):
                    return


def raw(content: bytes) -> Talk:
    """Return a server that sends this, and waits."""

    def talk(connection: socket.socket, _got: list[bytes]) -> None:
        with suppress(OSError):
            connection.sendall(content)
            connection.recv(65536)
            connection.recv(65536)

    return talk


PROTOCOLS: dict[str, tuple[str, Talk]] = {
    **FLOODS,
    "postgresql, 2^31 rounds of SCRAM": ("postgresql", scram_talk(MANY)),
    "postgresql, rounds of 5,000 digits": ("postgresql", scram_talk("9" * 5_000)),
    "postgresql, a length below 0": ("postgresql", postgresql_talk(None, b"R\x80\0\0\0")),
    "postgresql, no UTF-8": ("postgresql", postgresql_talk(None, b"E\0\0\0\x0bS\xff\xfe\0\0\0\0")),
    "postgresql, nothing": ("postgresql", raw(b"")),
    "mysql, nothing": ("mysql", raw(b"")),
    "mysql, no greeting": ("mysql", raw(packet(0, b"\xff" * 1_000))),
    "mysql, control characters": ("mysql", raw(packet(0, b"\n\x1b]0;x\x07\0" * 100))),
    "mysql, slow": ("mysql", slow),
    "postgresql, slow": ("postgresql", slow),
}
SLOW = frozenset(
    {
        *("mysql, slow", "postgresql, slow", "mysql, nothing", "postgresql, nothing"),
        *("a slow answer", "a size of a chunk without an end", "an endless extension of a chunk"),
    }
)
"""What ends at a deadline of seconds."""


async def queried(shape: str) -> None:
    """Read from a database that answers so: its query fails by a typed error."""
    kind, talk = PROTOCOLS[shape]
    async with fake_server(talk) as (port, _):
        source = hasty(kind, port).open(lambda: None)
        fault = ""
        try:
            await read(source, "id", "on_")
        except SourceError as error:
            fault = str(error)
        finally:
            await source.close()
        assert 0 < len(fault) < 2_000


def rows(connection: socket.socket) -> None:
    """Send one row, and the end of rows."""
    connection.sendall(packet(5, b"\1b\1c") + packet(6, b"\xfe\0\0\2\0"))


async def healthy_database() -> None:
    """Read a row of a healthy database."""
    async with fake_server(mysql_rows(rows)) as (port, _):
        source = settings_of("mysql", port).open(lambda: None)
        assert await read(source, "id", "on_") == [("b", "c")]
        await source.close()


DATABASES = Door(
    "protocols of MySQL and PostgreSQL",
    {shape: partial(queried, shape) for shape in PROTOCOLS},
    healthy_database,
    limits="64 KiB before authentication, 8 MiB a message, 1 MiB a value, 4 MiB a row, 100,000 rounds of SCRAM",
)

STATUS = b'{"result":{"sync_info":{"latest_block_height":"12","catching_up":false}}}'
NODE_SHAPES: dict[str, tuple[str, Body]] = {
    **SHAPES,
    "200,000 brackets": ("", lambda: [b"[" * 200_000]),
    "a height of 5,000 digits": ("", lambda: [STATUS.replace(b"12", b"9" * 5_000)]),
    "a slow answer": ("Content-Length: 1000\r\n", lambda: [b"{"]),
}


async def asked(shape: str) -> None:
    """Request the status of a node that answers so, and of a healthy one by the same client."""
    client = NodeClient(deadline=5.0)
    try:
        async with serving(*NODE_SHAPES[shape]) as server, serving("", lambda: [STATUS]) as other:
            fault = ""
            try:
                await client.status(address(server))
            except NodeError as error:
                fault = str(error)
            assert 0 < len(fault) <= 200
            assert (await client.status(address(other))).height == 12
    finally:
        await client.close()


def address(server: WireServer) -> Address:
    """Return where a server plays a node."""
    port = urlsplit(server.url).port
    assert port is not None
    return Address("127.0.0.1", port, port)


async def healthy_node() -> None:
    """Request the status of a healthy node."""
    client = NodeClient(deadline=5.0)
    async with serving("", lambda: [STATUS]) as server:
        assert (await client.status(address(server))).height == 12
    await client.close()


NODES = Door(
    "answers of nodes",
    {shape: partial(asked, shape) for shape in NODE_SHAPES},
    healthy_node,
    limits="256 KiB, a deadline, no redirects, nothing is inflated",
)


class _Reviewer:
    """A client whose server accepts the token `good` alone."""

    async def create(self, review: dict[str, Any], **_: object) -> dict[str, Any]:
        good = review["spec"]["token"] == "good"
        return {"status": {"authenticated": good, "user": {"username": "alice"}}}


TOKENS: dict[str, list[str]] = {
    "5,000 random ones": [f"random-{number}" for number in range(5_000)],
    "1.5 MB": ["x" * 1_500_000],
    "control characters": ["\x1b]0;x\x07", "\0", "a\r\nb: c", "\x7f"],
    "no UTF-8": ["\udcff\udcfe", "a\ud800"],
    "other scripts": ["\u202e\u0661", "ä" * 1_000],
    "nothing": ["", " "],
}


async def presented(tokens: list[str]) -> None:
    """Present tokens: none is a user; a good one, known before, is."""
    reviews = AccessReviews(lambda: cast("Client", _Reviewer()))
    assert await reviews.caller("good") is not None
    for token in tokens:
        with suppress(TooManyUnknownTokens):
            assert await reviews.caller(token) is None
    assert await reviews.caller("good") is not None


TOKEN = Door(
    "tokens at metrics and console",
    {shape: cast("Attack", partial(presented, tokens)) for shape, tokens in TOKENS.items()},
    partial(presented, []),
    limits="ASCII, 64 KiB; 20 unknown tokens at once, then 2 a second",
)
