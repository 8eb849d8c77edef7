"""What a database sends is bounded, and the password is proved, not sent (S-F9, S-F10)."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from dataclasses import replace

import pytest

from internal.tenancy.rows.row import LARGEST_ROW, LARGEST_VALUE
from internal.tenancy.sources import MySQLSettings, PostgreSQLSettings
from internal.tenancy.sources.errors import InsecureConnection, SourceError
from internal.tenancy.sources.limits import LARGEST_CELL, LARGEST_LINE, OVERSIZED, bounded
from internal.tenancy.sources.postgresql.auth import MessageLengths
from internal.tenancy.sources.postgresql.columns import ColumnKind, values
from tests.hostile.memory import peak_above_idle
from tests.tenancy.databases import failure, read
from tests.tenancy.test_sql_security import (
    BASIC,
    PLUGIN_AUTH,
    SALT,
    SECRET_WORD,
    Talk,
    fake_server,
    greeting,
    mysql_talk,
    packet,
    postgresql_talk,
    settings_of,
)

OK = b"\0\0\0\2\0\0\0"
MIB = 2**20


@pytest.mark.criterion("S-F10")
@pytest.mark.parametrize("switch", [False, True])
@pytest.mark.parametrize("plugin", ["sha256_password", "mysql_old_password", "dialog", "x" * 200])
async def test_no_plugin_gets_more_than_a_proof_of_the_password(plugin: str, switch: bool) -> None:
    async with fake_server(mysql_talk(None, switch=switch, plugin=plugin)) as (port, got):
        error = await failure(settings_of("mysql", port))
    assert isinstance(error, InsecureConnection)
    assert "VerifyCA or VerifyIdentity and its CA in caRef" in str(error)
    assert SECRET_WORD.encode() not in b"".join(got)


@pytest.mark.criterion("S-F10")
@pytest.mark.parametrize("switch", [False, True])
async def test_no_key_of_the_server_encrypts_the_password(switch: bool) -> None:
    def talk(connection: socket.socket, got: list[bytes]) -> None:
        first = "mysql_native_password" if switch else "caching_sha2_password"
        connection.sendall(greeting(first, BASIC | PLUGIN_AUTH))
        got.append(connection.recv(65536))
        number = 2
        if switch:
            salt = SALT[0] + SALT[1] + b"\0"
            connection.sendall(packet(number, b"\xfecaching_sha2_password\0" + salt))
            got.append(connection.recv(65536))
            number = 4
        connection.sendall(packet(number, b"\x01\x04"))
        got.append(connection.recv(65536))

    async with fake_server(talk) as (port, got):
        error = await failure(settings_of("mysql", port))
    assert isinstance(error, InsecureConnection)
    assert "caching_sha2_password, full authentication" in str(error)
    assert got[-1] == b"", "the public key was requested"


def mysql_rows(*rows: Callable[[socket.socket], None]) -> Talk:
    """Return a server that takes everybody in, and answers a SELECT of two columns by these rows."""

    def talk(connection: socket.socket, _got: list[bytes]) -> None:
        connection.sendall(greeting("mysql_native_password", BASIC | PLUGIN_AUTH))
        connection.recv(65536)
        connection.sendall(packet(2, OK))
        while b"SELECT" not in (query := connection.recv(65536)):
            if not query:
                return
            connection.sendall(
                packet(1, OK)
            )  # also to SHOW COLUMNS: nothing is cut in such a server
        column = b"\x03def\0\0\0\1c\1c\x0c\x2d\0\0\4\0\0\xfd\0\0\0\0\0"
        end = b"\xfe\0\0\2\0"
        head = (packet(1, b"\2"), packet(2, column), packet(3, column), packet(4, end))
        connection.sendall(b"".join(head))
        for row in rows:
            row(connection)
        while connection.recv(65536):
            connection.sendall(packet(1, OK))

    return talk


def huge_row(connection: socket.socket) -> None:
    """Send a row of 96 MiB, and the end of rows."""
    size = 6 * 0xFFFFFF
    connection.sendall(b"\xff\xff\xff\x05" + b"\1a\xfe" + (size - 11).to_bytes(8, "little"))
    connection.sendall(bytes(0xFFFFFF - 11))
    for number in range(6, 11):
        connection.sendall(b"\xff\xff\xff" + bytes([number]) + bytes(0xFFFFFF))
    connection.sendall(packet(11, b"") + packet(12, b"\1b\1c") + packet(13, b"\xfe\0\0\2\0"))


@pytest.mark.criterion("S-F9")
async def test_a_row_of_mysql_that_is_too_large_is_unreadable_and_the_next_one_is_read() -> None:
    with peak_above_idle() as peak:
        async with fake_server(mysql_rows(huge_row)) as (port, _):
            source = settings_of("mysql", port).open(lambda: None)
            found = await read(source, "id", "on_")
            await source.close()
    assert found == [("a", OVERSIZED), ("b", "c")]
    assert peak.mib < 100


def hasty(kind: str, port: int) -> MySQLSettings | PostgreSQLSettings:
    """Return settings that wait 3 s for the next of what a server sends, and as long to end a query."""
    return replace(settings_of(kind, port), read_timeout=3.0, connect_timeout=3.0)


def flood(start: bytes) -> Callable[[socket.socket], None]:
    """Return what sends a beginning and then 256 MiB of zeros, or until the peer hangs up."""

    def send(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection.sendall(start)
            for _ in range(256):
                connection.sendall(bytes(MIB))

    return send


def pours(start: bytes) -> Talk:
    """Return a server that only sends."""
    return lambda connection, _got: flood(start)(connection)


AUTHENTICATED = b"R\0\0\0\x08\0\0\0\0"
READY = b"Z\0\0\0\x05I"
FLOODS: dict[str, tuple[str, Talk]] = {
    "mysql, a greeting of 16 MiB": ("mysql", pours(b"\xff\xff\xff\0")),
    "mysql, columns without end": (
        "mysql",
        mysql_rows(lambda connection: connection.sendall(packet(9, b"x"))),
    ),
    "mysql, one column more": (
        "mysql",
        mysql_rows(lambda connection: connection.sendall(packet(5, b"\1a\1b\1c"))),
    ),
    "mysql, a row without a second column": (
        "mysql",
        mysql_rows(lambda connection: connection.sendall(packet(5, b"\1a"))),
    ),
    "postgresql, 2 GiB before authentication": (
        "postgresql",
        lambda connection, _got: (
            connection.recv(65536),
            flood(b"N\x7f\xff\xff\xff")(connection),
        )[1],
    ),
    "postgresql, 2 GiB after it": (
        "postgresql",
        lambda connection, _got: (
            connection.recv(65536),
            flood(AUTHENTICATED + b"S\x7f\xff\xff\xff")(connection),
        )[1],
    ),
    "postgresql, ready without a version": (
        "postgresql",
        postgresql_talk(None, AUTHENTICATED + READY),
    ),
    "postgresql, a length of 0": ("postgresql", postgresql_talk(None, b"N\0\0\0\0")),
}


@pytest.mark.criterion("S-F9")
@pytest.mark.parametrize("name", FLOODS)
async def test_a_server_that_sends_without_measure_fails_its_own_query(name: str) -> None:
    kind, talk = FLOODS[name]
    with peak_above_idle() as peak:
        async with fake_server(talk) as (port, _):
            error = await failure(hasty(kind, port))
    assert isinstance(error, SourceError)
    assert SECRET_WORD not in str(error)
    assert peak.mib < 100


@pytest.mark.criterion("S-F9")
def test_values_and_rows_beyond_the_limits_are_too_large_and_never_inactive() -> None:
    assert len(OVERSIZED.encode()) > LARGEST_VALUE
    assert bounded(["a", None, "x" * (LARGEST_CELL + 1), "b"]) == ["a", None, OVERSIZED, "b"]
    wide = bounded(["x" * LARGEST_CELL] * 6)
    assert wide[4:] == [OVERSIZED] * 2
    assert sum(map(len, filter(None, wide[:4]))) == LARGEST_LINE > LARGEST_ROW


@pytest.mark.criterion("S-F9")
def test_bits_that_no_number_is_written_for_are_too_large_in_their_row() -> None:
    kinds = (ColumnKind.TEXT, ColumnKind.BITS)
    assert values(b"a\t101", kinds) == ["a", "5"]
    assert values(b"a\t" + b"1" * 20_000, kinds) == ["a", OVERSIZED]


@pytest.mark.criterion("S-F9")
@pytest.mark.parametrize("step", [1, 3, 1000])
def test_lengths_of_messages_are_read_however_they_arrive(step: int) -> None:
    wire = b"Z\0\0\0\5I" + b"d\0\x10\0\4" + bytes(MIB) + b"Z\0\0\0\5I" + b"S\x7f\xff\xff\xff"
    lengths = MessageLengths()
    results = [lengths.fit(wire[at : at + step]) for at in range(0, len(wire), step)]
    assert results[:-2] == [True] * (len(results) - 2)
    assert False in results[-2:]
