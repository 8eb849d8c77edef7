"""Connections to SQL servers: TLS, and passwords that are never sent as they are to a server that is not verified."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest
import trustme

from apis.tenancy import TLSMode
from internal.tenancy.sources import MySQLSettings, PostgreSQLSettings, TLSSettings
from internal.tenancy.sources.errors import InsecureConnection
from tests.postgres import IN_CLEAR_TEXT, Postgres
from tests.tenancy.databases import (
    SERVERS,
    PostgreSQLDatabase,
    ServerDatabase,
    failure,
    make_on_server,
    read,
)

pytestmark = pytest.mark.xdist_group("databases")


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> ServerDatabase:
    return make_on_server(request.param, request)


def trusting(authority: trustme.CA, mode: TLSMode = TLSMode.VERIFY_IDENTITY) -> TLSSettings:
    return TLSSettings(mode=mode, ca=authority.cert_pem.bytes().decode())


# -- TLS ---------------------------------------------------------------------------------------------


@pytest.mark.criterion("DB-TLS")
@pytest.mark.criterion("FAULT-B17")
@pytest.mark.parametrize("mode", list(TLSMode))
async def test_tls_with_a_trusted_authority(
    server: ServerDatabase, authority: trustme.CA, mode: TLSMode
) -> None:
    source = server.source(tls=trusting(authority, mode))
    assert await read(source, "id", "on_") == []
    await source.close()


@pytest.mark.criterion("DB-TLS")
async def test_a_certificate_of_an_unknown_authority_is_refused(server: ServerDatabase) -> None:
    error = await failure(replace(server.settings, tls=trusting(trustme.CA())))
    assert isinstance(error, InsecureConnection)


@pytest.mark.criterion("DB-TLS")
async def test_a_wrong_name_is_refused_by_verify_identity_only(
    server: ServerDatabase, authority: trustme.CA
) -> None:
    named = replace(server.settings, host="localhost", tls=trusting(authority))
    assert isinstance(await failure(named), InsecureConnection)
    source = server.source(host="localhost", tls=trusting(authority, TLSMode.VERIFY_CA))
    assert await read(source, "id", "on_") == []
    await source.close()


@pytest.mark.criterion("DB-TLS")
async def test_unusable_certificates_are_reported(server: ServerDatabase) -> None:
    error = await failure(replace(server.settings, tls=TLSSettings(ca="not a certificate")))
    assert isinstance(error, InsecureConnection)


# -- passwords in clear text -------------------------------------------------------------------------

SECRET_WORD = "the-whole-secret"
Talk = Callable[[socket.socket, list[bytes]], None]
"""What a server does with a connection; what it gets of a client's goes to the list."""


@contextlib.asynccontextmanager
async def fake_server(talk: Talk) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Serve one connection: the port, and what the server got."""
    got: list[bytes] = []

    def accept() -> None:
        with contextlib.suppress(OSError), listener.accept()[0] as connection:
            connection.settimeout(60)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            talk(connection, got)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept)
        thread.start()
        yield listener.getsockname()[1], got
        await asyncio.to_thread(thread.join)  # the loop closes the client's socket meanwhile


SALT = b"abcdefgh", b"ijklmnopqrst"
BASIC, SSL_FLAG, PLUGIN_AUTH = 0x0001 | 0x0200 | 0x8000, 0x0800, 0x0008_0000


def packet(number: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "little") + bytes([number]) + body


def greeting(plugin: str, flags: int) -> bytes:
    """The first packet of a MySQL server: protocol 10, and how it wants clients to authenticate."""
    body = b"\x0a8.0.0\0" + (1).to_bytes(4, "little") + SALT[0] + b"\0"
    body += (flags & 0xFFFF).to_bytes(2, "little") + b"\x2d\x02\x00"
    body += (flags >> 16).to_bytes(2, "little") + b"\x15" + b"\0" * 10 + SALT[1] + b"\0"
    if flags & PLUGIN_AUTH:
        body += plugin.encode() + b"\0"
    return packet(0, body)


def mysql_talk(
    tls: ssl.SSLContext | None, *, switch: bool, plugin: str = "mysql_clear_password"
) -> Talk:
    """A MySQL server that wants the password by `plugin`, at once or after a switch; of before plugins without."""
    flags = BASIC | (PLUGIN_AUTH if plugin else 0) | (SSL_FLAG if tls else 0)

    def talk(connection: socket.socket, got: list[bytes]) -> None:
        connection.sendall(greeting("mysql_native_password" if switch else plugin, flags))
        if tls:
            if len(connection.recv(36, socket.MSG_WAITALL)) < 36:
                return
            connection = tls.wrap_socket(connection, server_side=True)
        with connection:
            got.append(connection.recv(65536))
            if switch and got[-1]:
                salt = SALT[0] + SALT[1] + b"\0"
                connection.sendall(
                    packet(3 if tls else 2, b"\xfe" + plugin.encode() + b"\0" + salt)
                )
                got.append(connection.recv(65536))

    return talk


SSL_REQUEST = (8).to_bytes(4) + (80877103).to_bytes(4)
DEMAND = b"R\0\0\0\x08\0\0\0\x03"
"""PostgreSQL's request for a password in clear text."""


def postgresql_talk(tls: ssl.SSLContext | None, *parts: bytes) -> Talk:
    """A PostgreSQL server that sends the parts of a request for a password."""

    def talk(connection: socket.socket, got: list[bytes]) -> None:
        if connection.recv(8, socket.MSG_PEEK) == SSL_REQUEST:
            connection.recv(8, socket.MSG_WAITALL)
            connection.sendall(b"S" if tls else b"N")
        if tls:
            connection = tls.wrap_socket(connection, server_side=True)
        with connection:
            if not connection.recv(65536):  # who wants in
                return
            for part in parts:
                connection.sendall(part)
            with contextlib.suppress(OSError):
                while data := connection.recv(65536):
                    got.append(data)

    return talk


TALKS: dict[str, Callable[[ssl.SSLContext | None], Talk]] = {
    "mysql at once": lambda tls: mysql_talk(tls, switch=False),
    "mysql after a switch": lambda tls: mysql_talk(tls, switch=True),
    "postgresql": lambda tls: postgresql_talk(tls, DEMAND),
    "postgresql in bytes": lambda tls: postgresql_talk(tls, *(bytes([each]) for each in DEMAND)),
    "postgresql after a notice": lambda tls: postgresql_talk(tls, b"S\0\0\0\x08a\0b\0" + DEMAND),
}


def settings_of(
    kind: str, port: int, tls: TLSSettings | None = None
) -> MySQLSettings | PostgreSQLSettings:
    made = MySQLSettings if kind.startswith("mysql") else PostgreSQLSettings
    return made(
        host="127.0.0.1",
        port=port,
        username="u",
        password=SECRET_WORD,
        database="d",
        table="t",
        tls=tls,
    )


def server_context(authority: trustme.CA) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(made)
    return made


@pytest.mark.criterion("H-D2")
@pytest.mark.parametrize("kind", TALKS)
@pytest.mark.parametrize("mode", [None, TLSMode.REQUIRED])
async def test_h_d2_no_password_in_clear_text_without_verified_tls(
    authority: trustme.CA, mode: TLSMode | None, kind: str
) -> None:
    tls = None if mode is None else TLSSettings(mode=mode)
    async with fake_server(TALKS[kind](server_context(authority) if mode else None)) as (port, got):
        error = await failure(settings_of(kind, port, tls))
    assert isinstance(error, InsecureConnection)
    assert "VerifyCA or VerifyIdentity" in str(error)
    received = b"".join(got)
    assert SECRET_WORD.encode() not in received
    assert not received or kind.startswith("mysql")


@pytest.mark.criterion("H-D2")
@pytest.mark.criterion("DB-TLS")
@pytest.mark.parametrize("kind", ["mysql at once", "postgresql"])
@pytest.mark.parametrize("mode", [TLSMode.REQUIRED, TLSMode.VERIFY_IDENTITY])
async def test_h_d2_nothing_is_sent_to_a_server_that_offers_no_tls(
    authority: trustme.CA, kind: str, mode: TLSMode
) -> None:
    async with fake_server(TALKS[kind](None)) as (port, got):
        error = await failure(settings_of(kind, port, trusting(authority, mode)))
    assert isinstance(error, InsecureConnection)
    assert "offers no TLS" in str(error)
    assert b"".join(got) == b""


@pytest.mark.criterion("H-D2")
async def test_h_d2_the_handshake_of_before_plugins_is_refused() -> None:
    async with fake_server(mysql_talk(None, switch=False, plugin="")) as (port, got):
        error = await failure(settings_of("mysql", port))
    assert isinstance(error, InsecureConnection)
    assert b"".join(got) == b""


@pytest.mark.criterion("H-D2")
async def test_h_d2_verified_tls_may_carry_mysqls_password_in_clear_text(
    authority: trustme.CA,
) -> None:
    async with fake_server(mysql_talk(server_context(authority), switch=True)) as (port, got):
        await failure(settings_of("mysql", port, trusting(authority)))  # the server hangs up then
    assert SECRET_WORD.encode() in b"".join(got)


@pytest.mark.criterion("DB-TLS")
@pytest.mark.criterion("H-D2")
async def test_h_d2_postgresqls_demand_is_answered_over_verified_tls_only(
    postgres: Postgres, authority: trustme.CA
) -> None:
    database = PostgreSQLDatabase(postgres)
    user = database.add_user("in-clear")
    database.execute(f"GRANT {IN_CLEAR_TEXT} TO {user}", f"GRANT SELECT ON rows_ TO {user}")
    settings = replace(database.settings, username=user, password="in-clear")
    for tls in (None, TLSSettings(mode=TLSMode.REQUIRED)):
        error = await failure(replace(settings, tls=tls))
        assert isinstance(error, InsecureConnection)
        assert "VerifyCA or VerifyIdentity" in str(error)
    for mode in (TLSMode.VERIFY_CA, TLSMode.VERIFY_IDENTITY):
        source = replace(settings, tls=trusting(authority, mode)).open(lambda: None)
        assert await read(source, "id", "on_") == []
        await source.close()
