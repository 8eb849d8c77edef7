"""Rows of a PostgreSQL database: pages, TLS, passwords, replicas, notifications, and every failure."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import replace

import pytest
import trustme

from apis.tenancy import TLSMode
from internal.tenancy.sources import (
    PostgreSQLSettings,
    PostgreSQLSource,
    SourceError,
    Sources,
    TLSSettings,
)
from internal.tenancy.sources.errors import (
    AccessDenied,
    InsecureConnection,
    ReplicaBehind,
    TimedOut,
    UnknownColumn,
    UnknownTable,
    Unreachable,
)
from internal.tenancy.sources.postgresql.columns import ColumnKind, select
from internal.tenancy.sources.postgresql.position import Position
from internal.tenancy.sources.source import LARGEST_PAGE
from tests.postgres import Postgres
from tests.support.waiting import eventually

_numbers = itertools.count()
LIMIT = 60.0


@pytest.fixture
def settings(postgres: Postgres) -> PostgreSQLSettings:
    name = f"app{next(_numbers)}"
    postgres.execute(f"CREATE DATABASE {name}")
    postgres.execute("CREATE TABLE rows_ (id text, on_ text, url text)", database=name)
    return aimed_at(postgres, database=name)


def aimed_at(server: Postgres, **more: object) -> PostgreSQLSettings:
    made = PostgreSQLSettings(
        host=server.host,
        port=server.port,
        username=server.user,
        password=server.password,
        database="postgres",
        table="rows_",
    )
    return replace(made, **more)  # type: ignore[arg-type]


async def everything(source: PostgreSQLSource, *columns: str) -> list[tuple[str | None, ...]]:
    return [
        tuple(row.values[column] for column in columns)
        async for page in source.pages(columns)
        for row in page
    ]


async def failure(settings: PostgreSQLSettings, *columns: str) -> SourceError:
    source = PostgreSQLSource(settings)
    with pytest.raises(SourceError) as caught:
        await everything(source, *(columns or ("id", "on_")))
    await source.close()
    assert settings.password not in str(caught.value) or not settings.password
    return caught.value


# -- rows --------------------------------------------------------------------------------------------


@pytest.mark.criterion("DATA-PAGES")
async def test_rows_come_in_pages_from_one_snapshot(
    postgres: Postgres, settings: PostgreSQLSettings
) -> None:
    postgres.execute(
        "INSERT INTO rows_ SELECT 't' || to_char(n, 'FM0000'), '1' FROM generate_series(0, 249) n",
        database=settings.database,
    )
    source = PostgreSQLSource(replace(settings, page_size=100))
    sizes: list[int] = []
    seen: list[str | None] = []
    async for page in source.pages(("id", "on_", "url")):
        if not sizes:
            postgres.execute("DELETE FROM rows_ WHERE id > 't0200'", database=settings.database)
        sizes.append(len(page))
        seen += [row.values["id"] for row in page]
    await source.close()
    assert sizes == [100, 100, 50]
    assert seen == [f"t{number:04}" for number in range(250)]


@pytest.mark.criterion("DATA-PAGES")
async def test_a_page_ends_by_weight_and_a_huge_value_is_cut(
    postgres: Postgres, settings: PostgreSQLSettings
) -> None:
    """What is cut is refused as too large all the same: it is longer than any value may be."""
    postgres.execute(
        "INSERT INTO rows_ SELECT 't' || n, '1', repeat('x', 1048576) FROM generate_series(1, 9) n",
        "INSERT INTO rows_ VALUES ('u', '1', repeat('x', 30000000))",
        database=settings.database,
    )
    source = PostgreSQLSource(settings)
    pages = [
        [len(row.values["url"] or "") for row in page] async for page in source.pages(("id", "url"))
    ]
    await source.close()
    assert [len(page) for page in pages] == [8, 2]
    assert sum(pages[0]) == LARGEST_PAGE
    assert pages[1] == [1048576, 1048577]


@pytest.mark.criterion("DATA-ORDER")
async def test_null_and_repeated_uids_are_all_read_in_a_stable_order(
    postgres: Postgres, settings: PostgreSQLSettings
) -> None:
    postgres.execute(
        "INSERT INTO rows_ VALUES ('b','0','x'), ('b','1','y'), (NULL,'1',NULL), ('a','1',NULL)",
        database=settings.database,
    )
    source = PostgreSQLSource(settings)
    found = await everything(source, "id", "on_")
    await source.close()
    assert found == [(None, "1"), ("a", "1"), ("b", "0"), ("b", "1")]


@pytest.mark.criterion("DATA-TYPES")
async def test_types_that_only_postgresql_has_arrive_as_text(
    postgres: Postgres, settings: PostgreSQLSettings
) -> None:
    postgres.execute(
        "CREATE DOMAIN inner_ AS timestamptz",
        "CREATE DOMAIN outer_ AS inner_",
        "CREATE TYPE mood AS ENUM ('sad', 'happy')",
        "CREATE TYPE pair AS (a int, b text)",
        "CREATE TABLE kinds (id uuid, at outer_, soon timestamp, old date, feels mood, two pair, "
        "lists int[][], net inet, span interval, lines text, xml_ xml, none text[], odd text)",
        "INSERT INTO kinds VALUES ('6d4a8b7e-1f0c-4d53-9f9b-3f1f6a0f7a10', "
        "'2026-01-02 03:04:05+02', 'infinity', '0044-03-15 BC', 'happy', (7, 'x'), "
        r"'{{1,2},{3,4}}', '10.0.0.1', '1 day 02:00', E'a\tb\nc\\d\re\x0bf', '<a/>', NULL, E'\\N')",
        database=settings.database,
    )
    columns = tuple("id at soon old feels two lists net span lines xml_ none odd".split())  # noqa: SIM905
    source = PostgreSQLSource(replace(settings, table="kinds"))
    found = await everything(source, *columns)
    await source.close()
    assert dict(zip(columns, found[0], strict=True)) == {
        "id": "6d4a8b7e-1f0c-4d53-9f9b-3f1f6a0f7a10",
        "at": "2026-01-02T01:04:05Z",
        "soon": "infinity",
        "old": "0044-03-15 BC",
        "feels": "happy",
        "two": '{"a": 7, "b": "x"}',
        "lists": "[[1, 2], [3, 4]]",
        "net": "10.0.0.1/32",
        "span": "1 day 02:00:00",
        "lines": "a\tb\nc\\d\re\x0bf",
        "xml_": "<a/>",
        "none": None,
        "odd": "\\N",
    }


@pytest.mark.criterion("DATA-QUOTING")
async def test_names_with_quotes_and_keywords_are_quoted(
    postgres: Postgres, settings: PostgreSQLSettings
) -> None:
    postgres.execute(
        'CREATE SCHEMA "Sales"',
        'CREATE TABLE "Sales"."select" ("a""b" text, "order" text)',
        "INSERT INTO \"Sales\".\"select\" VALUES ('u', '1')",
        database=settings.database,
    )
    source = PostgreSQLSource(replace(settings, table="Sales.select"))
    assert await everything(source, 'a"b', "order") == [("u", "1")]
    await source.close()
    assert select('t"; DROP TABLE x; --', {"a": ColumnKind.TEXT}).count('""') == 1


@pytest.mark.criterion("DB-READONLY")
async def test_a_query_can_change_nothing(postgres: Postgres, settings: PostgreSQLSettings) -> None:
    postgres.execute(
        "INSERT INTO rows_ VALUES ('a', '1')",
        "CREATE FUNCTION steal(text) RETURNS text LANGUAGE sql VOLATILE AS "
        "'DELETE FROM rows_ RETURNING id'",
        "CREATE VIEW trap AS SELECT id, steal(id) AS on_ FROM rows_",
        database=settings.database,
    )
    error = await failure(replace(settings, table="trap"))
    assert "25006" in str(error)  # read_only_sql_transaction
    assert postgres.execute("SELECT count(*) FROM rows_", database=settings.database) == [["1"]]


# -- failures ----------------------------------------------------------------------------------------


@pytest.mark.criterion("BAD-COLUMN")
async def test_a_wrong_column_name_is_named(settings: PostgreSQLSettings) -> None:
    error = await failure(settings, "id", "Nope")
    assert isinstance(error, UnknownColumn)
    assert "'Nope'" in str(error)


@pytest.mark.criterion("BAD-PASSWORD")
async def test_a_wrong_password_is_denied_and_not_repeated(settings: PostgreSQLSettings) -> None:
    assert isinstance(await failure(replace(settings, password="not-the-password")), AccessDenied)


@pytest.mark.criterion("BAD-PASSWORD")
async def test_a_user_without_the_privilege_is_denied(
    postgres: Postgres, settings: PostgreSQLSettings
) -> None:
    user = f"poor_{settings.database}"
    postgres.execute(f"CREATE ROLE {user} LOGIN PASSWORD 'in-rags'")
    error = await failure(replace(settings, username=user, password="in-rags"))
    assert isinstance(error, AccessDenied)


@pytest.mark.criterion("BAD-TABLE")
async def test_a_table_that_vanishes_is_reported_and_recovers(
    postgres: Postgres, settings: PostgreSQLSettings
) -> None:
    source = PostgreSQLSource(settings)
    assert await everything(source, "id", "on_") == []
    postgres.execute("ALTER TABLE rows_ RENAME TO elsewhere", database=settings.database)
    with pytest.raises(UnknownTable):
        await everything(source, "id", "on_")
    postgres.execute("ALTER TABLE elsewhere RENAME TO rows_", database=settings.database)
    assert await everything(source, "id", "on_") == []
    await source.close()


@pytest.mark.criterion("BAD-DATABASE")
async def test_an_unknown_database_is_reported(settings: PostgreSQLSettings) -> None:
    assert isinstance(await failure(replace(settings, database="nowhere")), UnknownTable)


@pytest.mark.criterion("DB-DOWN")
async def test_a_closed_port_is_unreachable(settings: PostgreSQLSettings) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert isinstance(await failure(replace(settings, port=port)), Unreachable)


@pytest.mark.criterion("DB-SILENT")
@pytest.mark.parametrize("tls", [None, TLSSettings(mode=TLSMode.REQUIRED)])
async def test_a_server_that_never_answers_times_out(
    settings: PostgreSQLSettings, tls: TLSSettings | None
) -> None:
    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await reader.read()
            writer.close()
            await writer.wait_closed()
        hung_up.set()

    hung_up = asyncio.Event()
    server = await asyncio.start_server(silence, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    error = await failure(replace(settings, port=port, connect_timeout=0.1, tls=tls))
    assert isinstance(error, Unreachable)
    await hung_up.wait()
    server.close()


@pytest.mark.criterion("DB-SLOW")
@pytest.mark.parametrize("limit", ["read_timeout", "statement_timeout"])
async def test_a_query_that_takes_too_long_ends_on_both_sides(
    postgres: Postgres, settings: PostgreSQLSettings, limit: str
) -> None:
    postgres.execute(
        "INSERT INTO rows_ VALUES ('a', '1', '')",
        "CREATE VIEW slow AS SELECT id, (SELECT 'x' FROM pg_sleep(600)) AS on_ FROM rows_",
        database=settings.database,
    )
    error = await failure(replace(settings, table="slow", **{limit: 0.2}))  # type: ignore[arg-type]
    assert isinstance(error, TimedOut)
    left = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = "
        f"'{settings.database}' AND application_name = 'tenant-registry'"
    )
    await eventually(lambda: postgres.execute(left) == [["0"]])


@pytest.mark.criterion("DB-RECONNECT")
async def test_a_killed_connection_is_replaced_silently(
    postgres: Postgres, settings: PostgreSQLSettings
) -> None:
    source = PostgreSQLSource(settings)
    assert await everything(source, "id", "on_") == []
    assert backends(postgres, settings, "pg_terminate_backend(pid)") == [["t"]]
    assert await everything(source, "id", "on_") == []
    await source.close()


@pytest.mark.criterion("DB-POOL")
async def test_one_connection_serves_all_queries_until_the_password_changes(
    postgres: Postgres, settings: PostgreSQLSettings
) -> None:
    sources = Sources()
    first = await sources.get(("ns", "registry"), settings)
    assert isinstance(first, PostgreSQLSource)
    assert await sources.get(("ns", "registry"), replace(settings)) is first
    await everything(first, "id", "on_")
    [[pid]] = backends(postgres, settings, "pid")
    async with aclosing(first.pages(("id", "on_"))) as pages:
        async for _ in pages:
            break
    await everything(first, "id", "on_")
    assert backends(postgres, settings, "pid") == [[pid]]
    assert await sources.get(("ns", "registry"), replace(settings, password="new")) is not first
    await sources.close()
    await eventually(lambda: backends(postgres, settings, "pid") == [])


def backends(postgres: Postgres, settings: PostgreSQLSettings, what: str) -> list[list[str]]:
    return postgres.execute(
        f"SELECT {what} FROM pg_stat_activity WHERE datname = '{settings.database}' "
        "AND application_name = 'tenant-registry'"
    )


# -- TLS ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def secure(authority: trustme.CA) -> Iterator[Postgres]:
    """A server with TLS that wants the password as it is."""
    certificate = authority.issue_cert("127.0.0.1")
    files = {
        "cert.pem": b"".join(blob.bytes() for blob in certificate.cert_chain_pems),
        "key.pem": certificate.private_key_pem.bytes(),
    }
    options = ("ssl=on", "ssl_cert_file={dir}/cert.pem", "ssl_key_file={dir}/key.pem")
    with Postgres.start(*options, method="password", files=files) as database:
        database.execute("CREATE TABLE rows_ (id text, on_ text)")
        yield database


def trusting(authority: trustme.CA, mode: TLSMode = TLSMode.VERIFY_IDENTITY) -> TLSSettings:
    return TLSSettings(mode=mode, ca=authority.cert_pem.bytes().decode())


@pytest.mark.criterion("DB-TLS")
@pytest.mark.criterion("H-D2")
@pytest.mark.parametrize("mode", [TLSMode.VERIFY_CA, TLSMode.VERIFY_IDENTITY])
async def test_h_d2_verified_tls_may_carry_a_password_in_clear_text(
    secure: Postgres, authority: trustme.CA, mode: TLSMode
) -> None:
    source = PostgreSQLSource(aimed_at(secure, tls=trusting(authority, mode)))
    assert await everything(source, "id", "on_") == []
    await source.close()


@pytest.mark.criterion("DB-TLS")
async def test_a_certificate_of_an_unknown_authority_is_refused(secure: Postgres) -> None:
    error = await failure(aimed_at(secure, tls=trusting(trustme.CA())))
    assert isinstance(error, InsecureConnection)


@pytest.mark.criterion("DB-TLS")
async def test_a_wrong_name_is_refused_by_verify_identity_only(
    secure: Postgres, authority: trustme.CA
) -> None:
    named = aimed_at(secure, host="localhost", tls=trusting(authority))
    assert isinstance(await failure(named), InsecureConnection)
    source = PostgreSQLSource(replace(named, tls=trusting(authority, TLSMode.VERIFY_CA)))
    assert await everything(source, "id", "on_") == []
    await source.close()


@pytest.mark.criterion("DB-TLS")
async def test_a_database_without_tls_is_refused(settings: PostgreSQLSettings) -> None:
    tls = TLSSettings(mode=TLSMode.REQUIRED)
    error = await failure(replace(settings, tls=tls))
    assert isinstance(error, InsecureConnection)
    assert "offers no TLS" in str(error)


@pytest.mark.criterion("H-D2")
@pytest.mark.parametrize("tls", [None, TLSSettings(mode=TLSMode.REQUIRED)])
async def test_h_d2_no_password_in_clear_text_without_verified_tls(
    secure: Postgres, tls: TLSSettings | None
) -> None:
    error = await failure(aimed_at(secure, tls=tls))
    assert isinstance(error, InsecureConnection)
    assert "VerifyCA or VerifyIdentity" in str(error)


@contextlib.contextmanager
def curious_server(*parts: bytes, tls: ssl.SSLContext | None) -> Iterator[tuple[int, list[bytes]]]:
    """A server that sends the parts of a request for a password: its port, and what it got."""
    got: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        if tls:
            connection.recv(8, socket.MSG_WAITALL)
            connection.sendall(b"S")
            connection = tls.wrap_socket(connection, server_side=True)
        with connection:
            connection.recv(65536)  # who wants in
            for part in parts:
                connection.sendall(part)
            with contextlib.suppress(OSError):
                while data := connection.recv(65536):
                    got.append(data)

    def accept() -> None:
        with contextlib.suppress(OSError), listener.accept()[0] as connection:
            connection.settimeout(LIMIT)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            serve(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept)
        thread.start()
        yield listener.getsockname()[1], got
        thread.join()


DEMAND = b"R\0\0\0\x08\0\0\0\x03"


@pytest.mark.criterion("H-D2")
@pytest.mark.parametrize("mode", [None, TLSMode.REQUIRED])
@pytest.mark.parametrize(
    "parts",
    [(DEMAND,), tuple(DEMAND[i : i + 1] for i in range(9)), (b"S\0\0\0\x08a\0b\0" + DEMAND,)],
)
async def test_h_d2_the_password_never_leaves_however_it_is_demanded(
    authority: trustme.CA, mode: TLSMode | None, parts: tuple[bytes, ...]
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    settings = PostgreSQLSettings(
        host="127.0.0.1",
        username="u",
        password="the-whole-secret",
        database="d",
        table="t",
        tls=None if mode is None else TLSSettings(mode=mode),
    )
    with curious_server(*parts, tls=context if mode else None) as (port, got):
        error = await failure(replace(settings, port=port))
    assert isinstance(error, InsecureConnection)
    assert b"".join(got) == b""


# -- replicas ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Postgres, Postgres]]:
    """A primary and its replica."""
    with Postgres.start("wal_level=replica") as primary:
        primary.execute("CREATE TABLE rows_ (id text, on_ text)")
        with Postgres.start("max_standby_streaming_delay=0", replica_of=primary) as replica:
            yield primary, replica


@contextlib.asynccontextmanager
async def balancer(*servers: Postgres) -> AsyncIterator[tuple[int, list[Postgres]]]:
    """One address for several servers: each connection goes to the first of a list."""
    order = list(servers)

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection(order[0].host, order[0].port)
        await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], order


@pytest.mark.criterion("DB-REPLICA")
async def test_a_replica_is_not_read_while_it_lags_behind_the_rows_read_before(
    pair: tuple[Postgres, Postgres],
) -> None:
    primary, replica = pair
    replica.execute("SELECT pg_wal_replay_pause()")
    primary.execute("DELETE FROM rows_", "INSERT INTO rows_ VALUES ('new', '1')")
    async with balancer(primary, replica) as (port, order):
        source = PostgreSQLSource(aimed_at(primary, port=port), catch_up_seconds=0.3)
        assert await everything(source, "id") == [("new",)]
        order.reverse()
        backend = "application_name = 'tenant-registry'"
        primary.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {backend}")
        with pytest.raises(ReplicaBehind, match="bytes of the log behind"):
            await everything(source, "id")
        replica.execute("SELECT pg_wal_replay_resume()")
        rows = await eventually(lambda: everything(source, "id"), despite=ReplicaBehind)
        assert rows == [("new",)]
        await source.close()


@pytest.mark.criterion("DB-REPLICA")
async def test_a_replica_that_catches_up_in_time_is_waited_for(
    pair: tuple[Postgres, Postgres],
) -> None:
    primary, replica = pair
    source = PostgreSQLSource(aimed_at(replica), catch_up_seconds=LIMIT)
    await everything(source, "id")
    replica.execute("SELECT pg_wal_replay_pause()")
    primary.execute("DELETE FROM rows_", "INSERT INTO rows_ VALUES ('later', '1')")
    assert source.read_up_to is not None
    source.read_up_to = replace(source.read_up_to, octets=log_end(primary))
    query = asyncio.create_task(everything(source, "id"))
    await asyncio.to_thread(replica.execute, "SELECT pg_wal_replay_resume()")
    assert await query == [("later",)]
    await source.close()


def log_end(server: Postgres) -> int:
    return int(server.execute("SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint")[0][0])


@pytest.mark.criterion("DB-REPLICA")
def test_a_restored_or_promoted_server_is_never_behind() -> None:
    before = Position("cluster", timeline=2, octets=100)
    assert replace(before, octets=99).is_behind(before)
    assert replace(before, octets=99, timeline=1).is_behind(before)
    assert not replace(before, octets=99, timeline=3).is_behind(before)
    assert not replace(before, octets=99, system="another").is_behind(before)
    assert not before.is_behind(before)


# -- notifications -----------------------------------------------------------------------------------


@pytest.mark.criterion("DB-NOTIFY")
async def test_a_notification_wakes_up_also_after_the_connection_was_lost(
    postgres: Postgres, settings: PostgreSQLSettings
) -> None:
    woken = asyncio.Event()
    source = PostgreSQLSource(replace(settings, notify_channel='Rows "changed"'), woken.set)
    assert source.listener is not None
    await everything(source, "id", "on_")
    async with asyncio.timeout(LIMIT):
        await source.listener.listening.wait()
        postgres.execute('NOTIFY "Rows ""changed"""', database=settings.database)
        await woken.wait()
        woken.clear()
        backends(postgres, settings, "pg_terminate_backend(pid)")
        await woken.wait()  # it may have missed some meanwhile
        woken.clear()
        await source.listener.listening.wait()
        postgres.execute('NOTIFY "Rows ""changed"""', database=settings.database)
        await woken.wait()
    await source.close()
    await eventually(lambda: backends(postgres, settings, "pid") == [])


@pytest.mark.criterion("DB-NOTIFY")
async def test_rows_of_a_replica_which_cannot_listen_are_read_all_the_same(
    pair: tuple[Postgres, Postgres],
) -> None:
    _, replica = pair
    source = PostgreSQLSource(aimed_at(replica, notify_channel="rows"))
    for _ in range(2):
        assert await everything(source, "id") is not None
    assert source.listener is not None
    assert not source.listener.listening.is_set()
    await source.close()
