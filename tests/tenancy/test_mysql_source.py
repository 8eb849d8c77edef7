"""Rows of a MySQL-compatible database: paging, types, TLS, and every way a query can fail."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
import trustme

from apis.tenancy import TLSMode
from internal.tenancy.sources import MySQLSettings, MySQLSource, SourceError, Sources, TLSSettings
from internal.tenancy.sources.errors import (
    AccessDenied,
    InsecureConnection,
    TimedOut,
    UnknownColumn,
    UnknownTable,
    Unreachable,
)
from internal.tenancy.sources.mysql import BREATH, select
from tests.mariadb import MariaDB

_numbers = itertools.count()


@pytest.fixture
def settings(mariadb: MariaDB) -> MySQLSettings:
    name = f"app{next(_numbers)}"
    mariadb.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    mariadb.execute("CREATE TABLE rows_ (id VARCHAR(80), on_ VARCHAR(20), url TEXT)", database=name)
    return MySQLSettings(
        host=mariadb.host,
        port=mariadb.port,
        username=mariadb.user,
        password=mariadb.password,
        database=name,
        table="rows_",
    )


async def everything(source: MySQLSource, *columns: str) -> list[tuple[str | None, ...]]:
    return [
        tuple(row.values[column] for column in columns)
        async for page in source.pages(columns)
        for row in page
    ]


async def failure(settings: MySQLSettings, *columns: str) -> SourceError:
    source = MySQLSource(settings)
    with pytest.raises(SourceError) as caught:
        await everything(source, *(columns or ("id", "on_")))
    await source.close()
    assert settings.password not in str(caught.value) or not settings.password
    return caught.value


@pytest.mark.criterion("DATA-PAGES")
async def test_rows_come_in_pages_from_one_snapshot(
    mariadb: MariaDB, settings: MySQLSettings
) -> None:
    rows = [(f"t{number:04}", "1", None) for number in range(250)]
    mariadb.insert(settings.database, "INSERT INTO rows_ VALUES (%s, %s, %s)", rows)
    source = MySQLSource(replace(settings, page_size=100))
    sizes: list[int] = []
    seen: list[str | None] = []
    async for page in source.pages(("id", "on_", "url")):
        if not sizes:
            mariadb.execute("DELETE FROM rows_ WHERE id > 't0200'", database=settings.database)
        sizes.append(len(page))
        seen += [row.values["id"] for row in page]
    await source.close()
    assert sizes == [100, 100, 50]
    assert seen == [row[0] for row in rows]


@pytest.mark.criterion("DATA-ORDER")
async def test_null_and_repeated_uids_are_all_read_in_a_stable_order(
    mariadb: MariaDB, settings: MySQLSettings
) -> None:
    rows = [("b", "0", "x"), ("b", "1", "y"), (None, "1", None), ("a", "1", None)]
    mariadb.insert(settings.database, "INSERT INTO rows_ VALUES (%s, %s, %s)", rows)
    source = MySQLSource(settings)
    found = await everything(source, "id", "on_")
    await source.close()
    assert found == [(None, "1"), ("a", "1"), ("b", "0"), ("b", "1")]


@pytest.mark.criterion("H-A1")
async def test_h_a1_a_limit_of_the_server_does_not_shorten_a_reading(
    mariadb: MariaDB, settings: MySQLSettings
) -> None:
    """A result that ends early without an error would look as if rows were gone."""
    rows = [("a", "1", None), ("b", "1", None), ("c", "1", None)]
    mariadb.insert(settings.database, "INSERT INTO rows_ VALUES (%s, %s, %s)", rows)
    mariadb.execute("SET GLOBAL sql_select_limit = 1")
    try:
        source = MySQLSource(settings)
        found = await everything(source, "id", "on_")
        await source.close()
    finally:
        mariadb.execute("SET GLOBAL sql_select_limit = DEFAULT")
    assert [uid for uid, _ in found] == ["a", "b", "c"]


@pytest.mark.criterion("DATA-TYPES")
async def test_every_type_arrives_as_text(mariadb: MariaDB, settings: MySQLSettings) -> None:
    mariadb.execute(
        "CREATE TABLE kinds (id INT, yes BOOL, bit1 BIT(1), bits BIT(12), price DECIMAL(10,2), "
        "real_ DOUBLE, at DATETIME(3), ts TIMESTAMP, day DATE, doc JSON, octets VARBINARY(9), "
        "raw_ BLOB, many ENUM('x','y'), gone TEXT, umlaut TEXT)",
        "SET time_zone = '+02:00'",
        "INSERT INTO kinds VALUES (7, TRUE, b'1', b'100000000001', 12.50, 1.5, "
        "'2026-01-02 03:04:05.120', '2026-01-02 03:04:05', '2026-01-02', '{\"a\": 1}', 'abc', "
        "x'ff00', 'y', NULL, 'Grüße 🚀')",
        database=settings.database,
    )
    columns = tuple(
        "id yes bit1 bits price real_ at ts day doc octets raw_ many gone umlaut".split()  # noqa: SIM905
    )
    source = MySQLSource(replace(settings, table="kinds"))
    found = await everything(source, *columns)
    await source.close()
    assert dict(zip(columns, found[0], strict=True)) == {
        "id": "7",
        "yes": "1",
        "bit1": "1",
        "bits": "2049",
        "price": "12.50",
        "real_": "1.5",
        "at": "2026-01-02T03:04:05.12Z",
        "ts": "2026-01-02T01:04:05Z",
        "day": "2026-01-02",
        "doc": '{"a": 1}',
        "octets": "abc",
        "raw_": "/wA=",
        "many": "y",
        "gone": None,
        "umlaut": "Grüße 🚀",
    }


@pytest.mark.criterion("DATA-1MIB")
async def test_a_value_of_one_mebibyte_is_read_whole(
    mariadb: MariaDB, settings: MySQLSettings
) -> None:
    mariadb.execute("ALTER TABLE rows_ MODIFY url LONGTEXT", database=settings.database)
    big = "x" * 1024 * 1024
    mariadb.insert(
        settings.database,
        "INSERT INTO rows_ VALUES (%s, %s, %s)",
        [("a", "1", big), ("b", "1", "")],
    )
    source = MySQLSource(settings)
    found = await everything(source, "id", "on_", "url")
    await source.close()
    assert [len(row[2] or "") for row in found] == [len(big), 0]


@pytest.mark.criterion("DATA-QUOTING")
async def test_names_with_backticks_and_keywords_are_quoted(
    mariadb: MariaDB, settings: MySQLSettings
) -> None:
    mariadb.execute(
        "CREATE TABLE `select` (`a``b` TEXT, `order` TEXT)",
        "INSERT INTO `select` VALUES ('u', '1')",
        database=settings.database,
    )
    source = MySQLSource(replace(settings, table=f"{settings.database}.select"))
    assert await everything(source, "a`b", "order") == [("u", "1")]
    await source.close()
    assert select("t`; DROP TABLE x; --", ["a"]).count("``") == 1


@pytest.mark.criterion("BAD-COLUMN")
async def test_a_wrong_column_name_is_named(settings: MySQLSettings) -> None:
    error = await failure(settings, "id", "nope")
    assert isinstance(error, UnknownColumn)
    assert "'nope'" in str(error)


@pytest.mark.criterion("BAD-PASSWORD")
async def test_a_wrong_password_is_denied_and_not_repeated(settings: MySQLSettings) -> None:
    error = await failure(replace(settings, password="not-the-password"))
    assert isinstance(error, AccessDenied)
    assert error.reason == "AccessDenied"


@pytest.mark.criterion("BAD-TABLE")
async def test_a_table_that_vanishes_is_reported_and_recovers(
    mariadb: MariaDB, settings: MySQLSettings
) -> None:
    source = MySQLSource(settings)
    assert await everything(source, "id", "on_") == []
    mariadb.execute("RENAME TABLE rows_ TO elsewhere", database=settings.database)
    with pytest.raises(UnknownTable):
        await everything(source, "id", "on_")
    mariadb.execute("RENAME TABLE elsewhere TO rows_", database=settings.database)
    assert await everything(source, "id", "on_") == []
    await source.close()


@pytest.mark.criterion("BAD-DATABASE")
async def test_an_unknown_database_is_reported(settings: MySQLSettings) -> None:
    assert isinstance(await failure(replace(settings, database="nowhere")), UnknownTable)


@pytest.mark.criterion("DB-DOWN")
async def test_a_closed_port_is_unreachable(settings: MySQLSettings) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert isinstance(await failure(replace(settings, port=port)), Unreachable)


@pytest.mark.criterion("DB-SILENT")
async def test_a_server_that_never_greets_times_out(settings: MySQLSettings) -> None:
    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()
        hung_up.set()

    hung_up = asyncio.Event()
    server = await asyncio.start_server(silence, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    error = await failure(replace(settings, port=port, connect_timeout=0.1))
    assert isinstance(error, Unreachable)
    await hung_up.wait()
    server.close()


@pytest.mark.criterion("DB-SLOW")
@pytest.mark.criterion("FAULT-B17")
async def test_a_query_that_takes_too_long_times_out(
    mariadb: MariaDB, settings: MySQLSettings
) -> None:
    mariadb.execute(
        "INSERT INTO rows_ VALUES ('a', '1', '')",
        "CREATE VIEW slow AS SELECT id, SLEEP(5) AS on_ FROM rows_",
        database=settings.database,
    )
    error = await failure(replace(settings, table="slow", read_timeout=0.2))
    assert isinstance(error, TimedOut)


@pytest.mark.criterion("DB-RECONNECT")
async def test_a_killed_connection_is_replaced_without_a_word(
    mariadb: MariaDB, settings: MySQLSettings
) -> None:
    source = MySQLSource(settings)
    assert await everything(source, "id", "on_") == []
    for row in mariadb.execute("SHOW PROCESSLIST"):
        if row[1] == settings.username:
            mariadb.execute(f"KILL {row[0]}")
    assert await everything(source, "id", "on_") == []
    await source.close()


@pytest.mark.criterion("DB-POOL")
@pytest.mark.criterion("FAULT-B17")
async def test_one_pool_serves_all_syncs_until_the_password_changes(
    mariadb: MariaDB, settings: MySQLSettings
) -> None:
    sources = Sources()
    first = await sources.get(("ns", "registry"), settings)
    assert await sources.get(("ns", "registry"), replace(settings)) is first
    other = await sources.get(("ns", "registry"), replace(settings, password="new"))
    assert other is not first
    assert len(sources) == 1
    before = mariadb.execute("SHOW STATUS LIKE 'Connections'")[0][1]
    again = await sources.get(("ns", "registry"), settings)
    for _ in range(5):
        assert await everything(again, "id", "on_") == []  # type: ignore[arg-type]
    after = mariadb.execute("SHOW STATUS LIKE 'Connections'")[0][1]
    assert int(after) - int(before) <= 2
    await sources.close()
    assert len(sources) == 0


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def secure(authority: trustme.CA) -> Iterator[MariaDB]:
    certificate = authority.issue_cert("127.0.0.1")
    files = {
        "ca.pem": authority.cert_pem.bytes(),
        "cert.pem": b"".join(blob.bytes() for blob in certificate.cert_chain_pems),
        "key.pem": certificate.private_key_pem.bytes(),
    }
    with MariaDB.start(
        "--ssl-ca={dir}/ca.pem", "--ssl-cert={dir}/cert.pem", "--ssl-key={dir}/key.pem", files=files
    ) as database:
        database.execute("CREATE DATABASE app")
        database.execute("CREATE TABLE t (id TEXT, on_ TEXT)", database="app")
        yield database


def over_tls(database: MariaDB, tls: TLSSettings | None) -> MySQLSettings:
    return MySQLSettings(
        host=database.host,
        port=database.port,
        username=database.user,
        password=database.password,
        database="app",
        table="t",
        tls=tls,
    )


@pytest.mark.criterion("DB-TLS")
@pytest.mark.parametrize("mode", list(TLSMode))
@pytest.mark.criterion("FAULT-B17")
async def test_tls_with_a_trusted_authority(
    secure: MariaDB, authority: trustme.CA, mode: TLSMode
) -> None:
    tls = TLSSettings(mode=mode, ca=authority.cert_pem.bytes().decode())
    source = MySQLSource(over_tls(secure, tls))
    assert await everything(source, "id", "on_") == []
    await source.close()


@pytest.mark.criterion("DB-TLS")
async def test_a_certificate_of_an_unknown_authority_is_refused(secure: MariaDB) -> None:
    tls = TLSSettings(ca=trustme.CA().cert_pem.bytes().decode())
    assert isinstance(await failure(over_tls(secure, tls)), InsecureConnection)


@pytest.mark.criterion("DB-TLS")
async def test_a_wrong_name_is_refused_by_verify_identity_only(
    secure: MariaDB, authority: trustme.CA
) -> None:
    tls = TLSSettings(ca=authority.cert_pem.bytes().decode())
    named = replace(over_tls(secure, tls), host="localhost")
    assert isinstance(await failure(named), InsecureConnection)
    source = MySQLSource(replace(named, tls=replace(tls, mode=TLSMode.VERIFY_CA)))
    assert await everything(source, "id", "on_") == []
    await source.close()


@pytest.mark.criterion("DB-TLS")
async def test_a_database_without_tls_is_refused(
    settings: MySQLSettings, authority: trustme.CA
) -> None:
    tls = TLSSettings(mode=TLSMode.REQUIRED)
    assert isinstance(await failure(replace(settings, tls=tls)), InsecureConnection)


@pytest.mark.criterion("DB-TLS")
async def test_unusable_certificates_are_reported(settings: MySQLSettings) -> None:
    error = await failure(replace(settings, tls=TLSSettings(ca="not a certificate")))
    assert isinstance(error, InsecureConnection)


# -- passwords in clear text -------------------------------------------------------------------------

SECRET_WORD = "the-whole-secret"
SALT = b"abcdefgh", b"ijklmnopqrst"
BASIC, SSL_FLAG, PLUGIN_AUTH = 0x0001 | 0x0200 | 0x8000, 0x0800, 0x0008_0000


def greeting(plugin: str, flags: int) -> bytes:
    """The first packet of a server: protocol 10, and how it wants clients to authenticate."""
    body = b"\x0a8.0.0\0" + (1).to_bytes(4, "little") + SALT[0] + b"\0"
    body += (flags & 0xFFFF).to_bytes(2, "little") + b"\x2d\x02\x00"
    body += (flags >> 16).to_bytes(2, "little") + b"\x15" + b"\0" * 10 + SALT[1] + b"\0"
    if flags & PLUGIN_AUTH:
        body += plugin.encode() + b"\0"
    return packet(0, body)


def packet(number: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "little") + bytes([number]) + body


@contextlib.contextmanager
def curious_server(
    plugin: str,
    *,
    switch: bool,
    flags: int = BASIC | PLUGIN_AUTH,
    tls: ssl.SSLContext | None = None,
) -> Iterator[tuple[int, list[bytes]]]:
    """A server that wants the password by `plugin`, at once or after a switch: port, what it got."""
    got: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        flagged = flags | (SSL_FLAG if tls else 0)
        connection.sendall(greeting("mysql_native_password" if switch else plugin, flagged))
        if tls:
            if len(connection.recv(36, socket.MSG_WAITALL)) < 36:
                return
            connection = tls.wrap_socket(connection, server_side=True)
        with connection:
            got.append(connection.recv(65536))
            if switch and got[-1]:
                salt = SALT[0] + SALT[1] + b"\0"
                asked = b"\xfe" + plugin.encode() + b"\0" + salt
                connection.sendall(packet(3 if tls else 2, asked))
                got.append(connection.recv(65536))

    def accept() -> None:
        with contextlib.suppress(OSError), listener.accept()[0] as connection:
            connection.settimeout(60)
            serve(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept)
        thread.start()
        yield listener.getsockname()[1], got
        thread.join()


def aimed_at(port: int, tls: TLSSettings | None = None) -> MySQLSettings:
    return MySQLSettings(
        host="127.0.0.1",
        port=port,
        username="u",
        password=SECRET_WORD,
        database="d",
        table="t",
        tls=tls,
    )


@pytest.mark.criterion("H-D2")
@pytest.mark.parametrize("switch", [False, True])
@pytest.mark.parametrize("mode", [None, TLSMode.REQUIRED])
async def test_h_d2_no_password_in_clear_text_without_verified_tls(
    authority: trustme.CA, mode: TLSMode | None, switch: bool
) -> None:
    tls = None if mode is None else TLSSettings(mode=mode)
    with curious_server(
        "mysql_clear_password", switch=switch, tls=server_context(authority) if mode else None
    ) as (port, got):
        error = await failure(aimed_at(port, tls))
    assert isinstance(error, InsecureConnection)
    assert "VerifyCA or VerifyIdentity" in str(error)
    assert SECRET_WORD.encode() not in b"".join(got)


@pytest.mark.criterion("H-D2")
async def test_h_d2_verified_tls_may_carry_a_password_in_clear_text(authority: trustme.CA) -> None:
    tls = TLSSettings(ca=authority.cert_pem.bytes().decode())
    with curious_server("mysql_clear_password", switch=True, tls=server_context(authority)) as (
        port,
        got,
    ):
        await failure(aimed_at(port, tls))  # the server hangs up then
    assert SECRET_WORD.encode() in b"".join(got)


@pytest.mark.criterion("H-D2")
async def test_h_d2_nothing_is_sent_to_a_server_that_offers_no_tls(authority: trustme.CA) -> None:
    tls = TLSSettings(ca=authority.cert_pem.bytes().decode())
    with curious_server("mysql_clear_password", switch=False) as (port, got):
        error = await failure(aimed_at(port, tls))
    assert isinstance(error, InsecureConnection)
    assert b"".join(got) == b""


@pytest.mark.criterion("H-D2")
async def test_h_d2_the_handshake_of_before_plugins_is_refused(authority: trustme.CA) -> None:
    with curious_server("", switch=False, flags=BASIC) as (port, got):
        error = await failure(aimed_at(port))
    assert isinstance(error, InsecureConnection)
    assert b"".join(got) == b""


def server_context(authority: trustme.CA) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(made)
    return made


class Arrived:
    """A driver's cursor whose rows have all arrived: none of them is waited for."""

    def __init__(self, count: int) -> None:
        self._rows = iter([(str(number),) for number in range(count)])

    async def fetchone(self) -> tuple[str, ...] | None:
        return next(self._rows, None)


async def test_a_page_of_rows_that_have_arrived_does_not_hold_the_loop() -> None:
    """10,000 rows held it for half a second in pages of 1,000."""
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    source = MySQLSource(MySQLSettings(host="h", username="u", database="d", table="t"))
    page = await source._page(Arrived(1000), ["id"])
    counting.cancel()
    assert len(page) == 1000
    assert turns >= 1000 // BREATH
