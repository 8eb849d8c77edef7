"""Rules of a reading that hold whatever the server is configured for: isolation, time, size, order, modes of SQL (T-7)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from internal.tenancy.sources.errors import SourceError, TimedOut
from internal.tenancy.sources.limits import LARGEST_CELL, OVERSIZED
from internal.tenancy.sources.sqlite_writer import SQLiteStateWriter
from internal.tenancy.sources.state_writer import WriteTarget
from tests.mariadb import MariaDB
from tests.support.waiting import eventually
from tests.tenancy.databases import (
    ALL,
    SERVERS,
    Database,
    MySQLDatabase,
    ServerDatabase,
    SQLiteDatabase,
    failure,
    make,
    make_on_server,
    read,
)

pytestmark = [pytest.mark.xdist_group("databases"), pytest.mark.criterion("T-7")]


@pytest.fixture(params=ALL)
def database(request: pytest.FixtureRequest) -> Database:
    return make(request.param, request)


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> ServerDatabase:
    return make_on_server(request.param, request)


@pytest.fixture
def mysql(mariadb: MariaDB) -> MySQLDatabase:
    return MySQLDatabase(mariadb)


@contextlib.contextmanager
def configured(database: Database, **variables: str) -> Iterator[None]:
    """Set variables of the server for new connections, where there is one that has them."""
    names = variables if isinstance(database, MySQLDatabase) else {}
    for name in names:
        database.execute(f"SET GLOBAL {name} = {variables[name]}")
    try:
        yield
    finally:
        for name in names:
            database.execute(f"SET GLOBAL {name} = DEFAULT")


async def test_t_7_what_is_not_committed_is_not_read(database: Database) -> None:
    database.insert(("a", "1", "old"), ("b", "1", "old"))
    with configured(database, tx_isolation="'READ-UNCOMMITTED'"):
        source = database.source()
        async with database.uncommitted(
            "DELETE FROM rows_ WHERE id = 'a'",
            "UPDATE rows_ SET url = 'new' WHERE id = 'b'",
            "INSERT INTO rows_ VALUES ('c', '1', 'new')",
        ):
            found = await read(source, "id", "url")
        await source.close()
    assert sorted(found) == [("a", "old"), ("b", "old")]


@pytest.mark.parametrize("cancelled", [False, True])
async def test_t_7_a_query_that_is_not_waited_for_ends_in_the_server(
    server: ServerDatabase, cancelled: bool
) -> None:
    server.insert(("a", "1", ""))
    server.execute(f"CREATE VIEW slow AS SELECT id, {server.slow} AS on_ FROM rows_")
    source = server.source(
        table="slow", statement_timeout=900.0, read_timeout=60 if cancelled else 1
    )
    reading = asyncio.create_task(read(source, "id", "on_"))
    while not any("slow" in query for query in server.running_queries()):
        if reading.done():  # on a busy machine the limit may pass before: then it is read again
            assert isinstance(reading.exception(), TimedOut)
            reading = asyncio.create_task(read(source, "id", "on_"))
        await asyncio.sleep(0.02)
    if cancelled:
        reading.cancel()
    with pytest.raises(asyncio.CancelledError if cancelled else TimedOut):
        await reading
    await source.close()
    await eventually(lambda: server.running_queries() == [])


async def test_t_7_a_query_of_a_file_ends_when_its_reading_is_cancelled(tmp_path: Path) -> None:
    database = SQLiteDatabase(tmp_path)
    database.insert(("a", "1", ""))
    database.execute(f"CREATE VIEW slow AS SELECT id, {database.slow} AS on_ FROM rows_")
    source = database.source(table="slow", read_timeout=900.0)
    reading = asyncio.create_task(read(source, "id", "on_"))
    await eventually(database.is_being_read)
    reading.cancel()
    done, _ = await asyncio.wait([reading], timeout=60)
    assert done
    assert reading.cancelled()
    assert not database.is_being_read()


async def test_t_7_a_write_to_a_file_ends_when_it_is_cancelled(tmp_path: Path) -> None:
    """By a trigger of the database's owner."""
    database = SQLiteDatabase(tmp_path)
    database.insert(("a", "1", ""))
    database.execute(
        f"CREATE VIEW slow AS SELECT {database.slow} AS one",
        "CREATE TRIGGER hook AFTER UPDATE ON rows_ BEGIN SELECT one FROM slow; END",
    )
    settings, target = (
        replace(database.settings, read_timeout=900.0),
        WriteTarget(column="url", key="id"),
    )
    writing = asyncio.create_task(SQLiteStateWriter(settings, target).write({"a": "Ready"}))
    await eventually(database.is_being_read)
    writing.cancel()
    done, _ = await asyncio.wait([writing], timeout=60)
    assert done
    assert writing.cancelled()
    assert database.execute("SELECT url FROM rows_") == [("",)]


async def test_t_7_a_value_that_is_too_large_is_cut_before_it_is_sent(database: Database) -> None:
    wide = "printf('%.*c', 30000000, 'x')" if database.name == "sqlite" else "REPEAT('x', 30000000)"
    with configured(database, max_allowed_packet=str(64 * 2**20)):
        database.execute(f"INSERT INTO rows_ VALUES ('u', '1', {wide}), ('v', '1', 'y')")
        source = database.source()
        found = {uid: url or "" for uid, url in await read(source, "id", "url")}
        await source.close()
    cut = len(OVERSIZED) if database.name == "sqlite" else LARGEST_CELL
    assert (len(found["u"]), found["v"]) == (cut, "y")


@pytest.mark.parametrize("kind", ["LONGTEXT", "MEDIUMTEXT", "LONGBLOB", "JSON", "Geometry"])
async def test_t_7_values_of_types_that_are_cut_are_whole_below_the_limit(
    mysql: MySQLDatabase, kind: str
) -> None:
    value = "ST_GeomFromText('POINT(1 1)')" if kind == "Geometry" else "'\"Grüße\"'"
    mysql.execute(f"CREATE TABLE wide (id INT, c {kind})", f"INSERT INTO wide VALUES (1, {value})")
    source = mysql.source(table="wide")
    [[found]] = await read(source, "c")
    await source.close()
    assert found == ("AAAAAAEBAAAAAAAAAAAA8D8AAAAAAADwPw==" if kind == "Geometry" else '"Grüße"')


async def test_t_7_rows_are_not_sorted_in_a_server_that_cannot_sort_wide_ones(
    mysql: MySQLDatabase,
) -> None:
    def sorted_rows() -> int:
        return int(mysql.execute("SHOW GLOBAL STATUS LIKE 'Sort_rows'")[0][1])

    mysql.insert(*((f"t{number}", "1", "x" * 200_000) for number in range(5)))
    before = sorted_rows()
    source = mysql.source()
    assert len(await read(source, "id", "on_", "url")) == 5
    await source.close()
    assert sorted_rows() == before


async def test_t_7_modes_of_the_server_change_no_value(database: Database) -> None:
    database.execute(
        "CREATE TABLE modes (id CHAR(40), day VARCHAR(10))",
        r"INSERT INTO modes VALUES ('a\b', '2026')",
    )
    modes = "'PAD_CHAR_TO_FULL_LENGTH,ANSI_QUOTES,NO_BACKSLASH_ESCAPES,ORACLE'"
    with configured(database, sql_mode=modes, time_zone="'+05:00'"):
        source = database.source(table="modes")
        [[found, _]] = await read(source, "id", "day")
        await source.close()
    assert found == ("a\x08" if database.name == "mysql" else r"a\b")


async def test_t_7_a_state_that_does_not_fit_its_column_is_refused_and_not_cut(
    server: ServerDatabase,
) -> None:
    server.execute("CREATE TABLE narrow (id VARCHAR(9), s VARCHAR(4))")
    server.execute("INSERT INTO narrow VALUES ('a', 'old')")
    with configured(server, sql_mode="''"):
        source = server.source()
        nothing = [()] if isinstance(server, MySQLDatabase) else []
        with pytest.raises(SourceError):
            await source.execute("UPDATE narrow SET s = 'Ready'", *nothing)  # type: ignore[attr-defined]
        await source.close()
    assert [*server.execute("SELECT s FROM narrow")[0]] == ["old"]


async def test_t_7_a_query_can_change_nothing(mysql: MySQLDatabase) -> None:
    mysql.insert(("a", "1", None))
    mysql.execute(
        "CREATE FUNCTION steal() RETURNS INT MODIFIES SQL DATA BEGIN DELETE FROM rows_; RETURN 1; END",
        "CREATE TABLE other AS SELECT * FROM rows_",
        "CREATE VIEW trap AS SELECT id, steal() AS on_ FROM other",
    )
    error = await failure(replace(mysql.settings, table="trap"))
    assert "1792" in str(error)  # ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION
    assert len(mysql.execute("SELECT id FROM rows_")) == 1
