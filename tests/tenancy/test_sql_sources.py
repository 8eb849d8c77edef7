"""Rows of SQL databases: what holds for each of them, every way a query can fail, and what only one of them has."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from apis.tenancy import TenantRegistrySpec, TLSMode
from ctrlruntime.envtest.backends.ports import free_port
from internal.tenancy.rows.row import Reading, RowProblem, RowReader, columns
from internal.tenancy.sources import (
    MySQLSettings,
    MySQLSource,
    Settings,
    Sources,
    SQLiteSettings,
    TLSSettings,
)
from internal.tenancy.sources.errors import (
    AccessDenied,
    NotAllowed,
    TimedOut,
    UnknownColumn,
    UnknownTable,
    Unreachable,
)
from internal.tenancy.sources.limits import OVERSIZED
from internal.tenancy.sources.mysql import BREATH
from internal.tenancy.sources.source import LARGEST_PAGE, ListsColumns
from tests.docs.blocks import ROOT
from tests.mariadb import MariaDB
from tests.postgres import Postgres
from tests.support.waiting import eventually
from tests.tenancy.databases import (
    ALL,
    SERVERS,
    Database,
    MySQLDatabase,
    PostgreSQLDatabase,
    ServerDatabase,
    SQLiteDatabase,
    failure,
    make,
    make_on_server,
    read,
)

pytestmark = pytest.mark.xdist_group("databases")
"""Each worker would start the servers."""

MEBIBYTE = 1024 * 1024


@pytest.fixture(params=ALL)
def database(request: pytest.FixtureRequest) -> Database:
    return make(request.param, request)


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> ServerDatabase:
    return make_on_server(request.param, request)


@pytest.fixture
def sqlite(tmp_path: Path) -> SQLiteDatabase:
    return SQLiteDatabase(tmp_path)


@pytest.fixture
def mysql(mariadb: MariaDB) -> MySQLDatabase:
    return MySQLDatabase(mariadb)


@pytest.fixture
def postgresql(postgres: Postgres) -> PostgreSQLDatabase:
    return PostgreSQLDatabase(postgres)


# -- rows --------------------------------------------------------------------------------------------


@pytest.mark.criterion("DATA-PAGES")
@pytest.mark.criterion("DATA-SQLITE")
async def test_rows_come_in_pages_from_one_snapshot(database: Database) -> None:
    if isinstance(database, SQLiteDatabase):
        database.execute("PRAGMA journal_mode = WAL")  # or a writer waits for the reader
    uids = [f"t{number:04}" for number in range(250)]
    database.insert(*((uid, "1", None) for uid in uids))
    source = database.source(page_size=100)
    pages: list[list[str | None]] = []
    async for page in source.pages(("id", "on_", "url")):
        if not pages:
            database.execute("DELETE FROM rows_ WHERE id > 't0200'")
        pages.append([row.values["id"] for row in page])
    await source.close()
    assert pages == [uids[:100], uids[100:200], uids[200:]]


@pytest.mark.criterion("DATA-PAGES")
@pytest.mark.criterion("DATA-1MIB")
async def test_a_page_ends_by_weight_and_values_of_one_mebibyte_are_whole(
    database: Database,
) -> None:
    database.insert(*((f"t{number}", "1", "x" * MEBIBYTE) for number in range(9)))
    source = database.source()
    sizes = [
        [len(row.values["url"] or "") for row in page] async for page in source.pages(("url",))
    ]
    await source.close()
    assert sizes == [[MEBIBYTE] * 8, [MEBIBYTE]]
    assert sum(sizes[0]) == LARGEST_PAGE


@pytest.mark.criterion("DATA-ORDER")
async def test_null_and_repeated_uids_are_all_read(database: Database) -> None:
    database.insert(("b", "0", "x"), ("b", "1", "y"), (None, "1", None), ("a", "1", None))
    source = database.source()
    found = await read(source, "id", "on_")
    await source.close()
    assert sorted(found, key=str) == sorted(
        [(None, "1"), ("a", "1"), ("b", "0"), ("b", "1")], key=str
    )


@pytest.mark.criterion("DATA-QUOTING")
async def test_names_with_quotes_and_keywords_are_quoted(database: Database) -> None:
    mark, quote = database.quotation, database.quote
    table, column = f"Select{mark}; DROP TABLE rows_; --", f"a{mark}b"
    place = f"{quote(database.schema)}.{quote(table)}"
    database.execute(
        f"CREATE TABLE {place} ({quote(column)} VARCHAR(9), {quote('order')} VARCHAR(9))",
        f"INSERT INTO {place} VALUES ('u', '1')",
    )
    source = database.source(table=f"{database.schema}.{table}")
    assert await read(source, column, "order") == [("u", "1")]
    await source.close()
    assert database.execute("SELECT * FROM rows_") == []


@pytest.mark.criterion("DATA-SAME")
async def test_the_columns_of_a_table_are_listed(database: Database) -> None:
    source = database.source()
    assert isinstance(source, ListsColumns)
    assert sorted(await source.column_names()) == ["id", "on_", "url"]
    await source.close()


def mapped(**extra: str) -> TenantRegistrySpec:
    return TenantRegistrySpec.model_validate(
        {
            "source": {"type": "sqlite", "sqlite": {"path": "p", "table": "rows_"}},
            "valueMappings": {"uid": "id", "activate": "on_"},
            "extraValueMappings": extra,
        }
    )


async def reading(settings: Settings, spec: TenantRegistrySpec) -> Reading:
    source = settings.open(lambda: None)
    reader = RowReader(spec)
    async for page in source.pages(columns(spec)):
        for row in page:
            reader.take(row)
    await source.close()
    return reader.reading()


@pytest.mark.criterion("DATA-SAME")
async def test_rows_in_doubt_are_the_same(database: Database) -> None:
    rows = {"b": "yes", "off": None, "gone": "suspended", "no": "no", "A": "1", "": "1", None: "1"}
    database.insert(*((uid, active, None) for uid, active in rows.items()))
    database.insert(("a", "1", None), ("a", "0", None), ("wide", "1", "x" * 300_000))
    found = await reading(replace(database.settings, page_size=2), mapped(text="url"))
    assert [row.uid for row in found.active] == ["b"]
    assert found.inactive == {"off", "no"}
    assert found.held == {"a", "gone", "wide"}
    assert (found.total, found.unidentified) == (10, 3)
    assert [(item.problem, item.rows) for item in found.invalid] == [
        (RowProblem.DUPLICATE_UID, 2),
        (RowProblem.UNKNOWN_ACTIVATION, 1),
        (RowProblem.VALUE_TOO_LARGE, 1),
        (RowProblem.ILLEGAL_UID, 1),
        (RowProblem.MISSING_UID, 1),
        (RowProblem.MISSING_UID, 1),
    ]


# -- types -------------------------------------------------------------------------------------------

TYPES: Mapping[str, tuple[str, str, str, str, str]] = {
    "text": ("TEXT", "TEXT", "text", "'Grüße 🚀'", "Grüße 🚀"),
    "lines": ("TEXT", "TEXT", "text", "'a\tb\nc'", "a\tb\nc"),
    "int": ("INTEGER", "BIGINT", "bigint", "-9007199254740993", "-9007199254740993"),
    "bool": ("BOOLEAN", "BOOL", "boolean", "TRUE", "1"),
    "no": ("BOOLEAN", "BOOL", "boolean", "FALSE", "0"),
    "numeric": ("TEXT", "DECIMAL(10,2)", "numeric(10,2)", "'12.50'", "12.50"),
    "float": ("REAL", "DOUBLE", "double precision", "1.5", "1.5"),
    "moment": (
        "TEXT",
        "DATETIME(3)",
        "timestamp",
        "'2026-01-02 03:04:05.120'",
        "2026-01-02T03:04:05.12Z",
    ),
    "day": ("TEXT", "DATE", "date", "'2026-01-02'", "2026-01-02"),
    "json": ("TEXT", "JSON", "jsonb", "'{\"a\": [1, null]}'", '{"a": [1, null]}'),
    "array": ("TEXT", "JSON", "text[]", '\'["x", "y"]\'', '["x", "y"]'),
    "bytes": ("BLOB", "VARBINARY(9)", "bytea", "'abc'", "abc"),
    "octets": ("BLOB", "VARBINARY(9)", "bytea", "x'ff00'", "/wA="),
    "nothing": ("TEXT", "TEXT", "text", "NULL", ""),
    "empty": ("TEXT", "TEXT", "text", "''", ""),
}
"""Type in SQLite, MySQL and PostgreSQL, a literal, and the variable that templates see."""

OWN_LITERALS: Mapping[tuple[str, str], str] = {
    ("sqlite", "moment"): "'2026-01-02T03:04:05.12Z'",  # it has no such type: rows hold the text
    ("postgresql", "array"): "'{x,y}'",
    ("postgresql", "octets"): r"'\xff00'",
}


@pytest.mark.criterion("DATA-SAME")
async def test_every_type_becomes_the_same_variable(database: Database) -> None:
    place, name = ALL.index(database.name), database.name
    types = ", ".join(f"c_{each} {item[place]}" for each, item in TYPES.items())
    values = (OWN_LITERALS.get((name, each), item[3]) for each, item in TYPES.items())
    database.execute(
        f"CREATE TABLE kinds (id VARCHAR(80), on_ {TYPES['bool'][place]}, {types})",
        f"INSERT INTO kinds VALUES ('acme', TRUE, {', '.join(values)})",
    )
    spec = mapped(**{each: f"c_{each}" for each in TYPES})
    found = await reading(replace(database.settings, table="kinds"), spec)
    wanted = {each: item[4] for each, item in TYPES.items()}
    assert dict(found.active[0].variables) == {"uid": "acme", "activate": "1", **wanted}


OWN_TYPES: Mapping[str, Mapping[str, tuple[str, str, str | None]]] = {
    "sqlite": {
        "id": ("TEXT", "x'ff00'", "/wA="),
        "yes": ("INTEGER", "1", "1"),
        "price": ("REAL", "2", "2.0"),
        "raw_": ("BLOB", "'abc'", "abc"),
        "gone": ("BLOB", "NULL", None),
    },
    "mysql": {
        "id": ("INT", "7", "7"),
        "wide": ("BIGINT UNSIGNED", "18446744073709551615", "18446744073709551615"),
        "bit1": ("BIT(1)", "b'1'", "1"),
        "bits": ("BIT(12)", "b'100000000001'", "2049"),
        "at": ("DATETIME", "'2026-01-02 03:04:05'", "2026-01-02T03:04:05Z"),
        "ts": ("TIMESTAMP", "'2026-01-02 03:04:05'", "2026-01-02T01:04:05Z"),
        "raw_": ("BLOB", "x'ff00'", "/wA="),
        "many": ("ENUM('x','y')", "'y'", "y"),
        "gone": ("TEXT", "NULL", None),
    },
    "postgresql": {
        "id": (
            "uuid",
            "'6d4a8b7e-1f0c-4d53-9f9b-3f1f6a0f7a10'",
            "6d4a8b7e-1f0c-4d53-9f9b-3f1f6a0f7a10",
        ),
        "at": ("outer_", "'2026-01-02 03:04:05+02'", "2026-01-02T01:04:05Z"),
        "soon": ("timestamp", "'infinity'", "infinity"),
        "old": ("date", "'0044-03-15 BC'", "0044-03-15 BC"),
        "feels": ("mood", "'happy'", "happy"),
        "two": ("pair", "(7, 'x')", '{"a": 7, "b": "x"}'),
        "lists": ("int[][]", "'{{1,2},{3,4}}'", "[[1, 2], [3, 4]]"),
        "net": ("inet", "'10.0.0.1'", "10.0.0.1/32"),
        "span": ("interval", "'1 day 02:00'", "1 day 02:00:00"),
        "lines": ("text", r"E'a\tb\nc\\d\re\x0bf'", "a\tb\nc\\d\re\x0bf"),
        "xml_": ("xml", "'<a/>'", "<a/>"),
        "none": ("text[]", "NULL", None),
        "odd": ("text", r"E'\\N'", "\\N"),
    },
}
"""What only one database has: type, literal and value of each column."""
BEFORE: Mapping[str, tuple[str, ...]] = {
    "mysql": ("SET time_zone = '+02:00'",),
    "postgresql": (
        "CREATE DOMAIN inner_ AS timestamptz",
        "CREATE DOMAIN outer_ AS inner_",
        "CREATE TYPE mood AS ENUM ('sad', 'happy')",
        "CREATE TYPE pair AS (a int, b text)",
    ),
}


@pytest.mark.criterion("DATA-TYPES")
@pytest.mark.criterion("DATA-SQLITE")
async def test_types_of_one_database_arrive_as_text(database: Database) -> None:
    types = OWN_TYPES[database.name]
    database.execute(
        *BEFORE.get(database.name, ()),
        f"CREATE TABLE kinds ({', '.join(f'{name} {item[0]}' for name, item in types.items())})",
        f"INSERT INTO kinds VALUES ({', '.join(item[1] for item in types.values())})",
    )
    source = database.source(table="kinds")
    assert await read(source, *types) == [tuple(item[2] for item in types.values())]
    await source.close()


# -- failures ----------------------------------------------------------------------------------------


@pytest.mark.criterion("BAD-COLUMN")
async def test_a_wrong_column_name_is_named_and_never_a_text(database: Database) -> None:
    error = await failure(database.settings, "id", "Nope")
    assert isinstance(error, UnknownColumn)
    assert "'Nope'" in str(error)


@pytest.mark.criterion("BAD-TABLE")
async def test_a_table_that_vanishes_is_reported_and_recovers(database: Database) -> None:
    source = database.source()
    assert await read(source, "id", "on_") == []
    database.execute("ALTER TABLE rows_ RENAME TO elsewhere")
    with pytest.raises(UnknownTable):
        await read(source, "id", "on_")
    database.execute("ALTER TABLE elsewhere RENAME TO rows_")
    assert await read(source, "id", "on_") == []
    await source.close()


@pytest.mark.criterion("BAD-TABLE")
@pytest.mark.parametrize("database", ["mysql"], indirect=True)
async def test_a_view_whose_column_is_gone_is_named_as_such(database: Database) -> None:
    database.execute("CREATE VIEW seen AS SELECT id, on_ FROM rows_")
    database.execute("ALTER TABLE rows_ DROP COLUMN on_")
    error = await failure(replace(database.settings, table="seen"))
    assert isinstance(error, UnknownTable)
    assert "the view 'seen' uses a table, column or function that is gone" in str(error)


@pytest.mark.criterion("DB-SLOW")
@pytest.mark.criterion("FAULT-B17")
@pytest.mark.parametrize(
    ("database", "limit"),
    [*((each, "read_timeout") for each in ALL), *((each, "statement_timeout") for each in SERVERS)],
    indirect=["database"],
)
async def test_a_query_that_takes_too_long_ends(database: Database, limit: str) -> None:
    database.insert(("a", "1", ""))
    database.execute(f"CREATE VIEW slow AS SELECT id, {database.slow} AS on_ FROM rows_")
    error = await failure(replace(database.settings, table="slow", **{limit: 0.2}))  # type: ignore[arg-type]
    assert isinstance(error, TimedOut)
    if isinstance(database, ServerDatabase):
        await eventually(lambda: database.connections() == [])  # it ends on both sides


@pytest.mark.criterion("BAD-PASSWORD")
async def test_a_wrong_password_is_denied_and_not_repeated(server: ServerDatabase) -> None:
    error = await failure(replace(server.settings, password="not-the-password"))
    assert isinstance(error, AccessDenied)
    assert error.reason == "AccessDenied"


@pytest.mark.criterion("BAD-PASSWORD")
async def test_a_user_without_the_privilege_is_denied(server: ServerDatabase) -> None:
    user = server.add_user("in-rags")
    error = await failure(replace(server.settings, username=user, password="in-rags"))
    assert isinstance(error, AccessDenied)


@pytest.mark.criterion("BAD-DATABASE")
async def test_an_unknown_database_is_reported(server: ServerDatabase) -> None:
    assert isinstance(await failure(replace(server.settings, database="nowhere")), UnknownTable)


@pytest.mark.criterion("DB-DOWN")
async def test_a_closed_port_is_unreachable(server: ServerDatabase) -> None:
    assert isinstance(await failure(replace(server.settings, port=free_port())), Unreachable)


@pytest.mark.criterion("DB-SILENT")
@pytest.mark.parametrize("tls", [None, TLSSettings(mode=TLSMode.REQUIRED)])
async def test_a_server_that_never_answers_times_out(
    server: ServerDatabase, tls: TLSSettings | None
) -> None:
    """On a busy machine the limit may pass before there is a connection: then it is tried again."""

    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.set()
        with contextlib.suppress(OSError):
            await reader.read()
            writer.close()
            await writer.wait_closed()
        hung_up.set()

    reached, hung_up = asyncio.Event(), asyncio.Event()
    silent = await asyncio.start_server(silence, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    settings = replace(server.settings, port=port, connect_timeout=0.1, tls=tls)
    while not reached.is_set():
        assert isinstance(await failure(settings), Unreachable)
    await hung_up.wait()
    silent.close()


@pytest.mark.criterion("DB-RECONNECT")
async def test_a_killed_connection_is_replaced_silently(server: ServerDatabase) -> None:
    source = server.source()
    assert await read(source, "id", "on_") == []
    server.kill_connections()
    assert await read(source, "id", "on_") == []
    await source.close()


@pytest.mark.criterion("DB-RECONNECT")
@pytest.mark.parametrize("number", [0, 1])
async def test_a_connection_that_mysql_ended_as_idle_is_replaced_silently(
    mariadb: MariaDB, number: int
) -> None:
    """MySQL 8.0.24 and later writes error 4031 before it closes; a proxy in front of MariaDB does so here."""
    database = MySQLDatabase(mariadb)
    clients: list[asyncio.StreamWriter] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError), contextlib.closing(writer):
            while data := await reader.read(65536):
                writer.write(data)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        clients.append(writer)
        there, upstream = await asyncio.open_connection(mariadb.host, mariadb.port)
        await asyncio.gather(pump(reader, upstream), pump(there, writer))

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as proxy:
        source = database.source(port=proxy.sockets[0].getsockname()[1])
        assert await read(source, "id", "on_") == []
        packet = b"\xff" + (4031).to_bytes(2, "little") + b"#HY000The client was disconnected"
        for writer in [*clients]:
            writer.write(len(packet).to_bytes(3, "little") + bytes([number]) + packet)
        assert await read(source, "id", "on_") == []
        assert len(clients) == 2
        await source.close()


@pytest.mark.criterion("DB-POOL")
@pytest.mark.criterion("FAULT-B17")
async def test_one_connection_serves_all_queries_until_the_password_changes(
    server: ServerDatabase,
) -> None:
    sources = Sources()
    first = await sources.get(("ns", "registry"), server.settings)
    assert await sources.get(("ns", "registry"), replace(server.settings)) is first
    await read(first, "id", "on_")
    [connection] = server.connections()
    async with aclosing(first.pages(("id", "on_"))) as pages:
        async for _ in pages:
            break
    await read(first, "id", "on_")
    assert server.connections() == [connection]
    changed = replace(server.settings, password="new")
    assert await sources.get(("ns", "registry"), changed) is not first
    assert len(sources) == 1
    await sources.close()
    assert len(sources) == 0
    await eventually(lambda: server.connections() == [])


# -- SQLite: files in one allowed directory, read-only, in bounded memory ------------------------------


@pytest.mark.criterion("SQLITE-FLAG")
async def test_without_the_flag_no_file_is_opened(sqlite: SQLiteDatabase) -> None:
    error = await failure(replace(sqlite.settings, root=None))
    assert isinstance(error, NotAllowed)
    assert "--allow-sqlite" in str(error)


@pytest.mark.criterion("SQLITE-PATH")
@pytest.mark.parametrize("path", ["../outside.db", "link.db", "/etc/passwd"])
async def test_no_file_outside_the_directory_is_read(tmp_path: Path, path: str) -> None:
    root = tmp_path / "data"
    root.mkdir()
    outside = tmp_path / "outside.db"
    outside.touch()
    (root / "link.db").symlink_to(outside)
    error = await failure(SQLiteSettings(path=path, table="t", root=root))
    assert isinstance(error, NotAllowed)


@pytest.mark.criterion("SQLITE-PATH")
@pytest.mark.parametrize("path", ["absent.db", ".", "rows.db?mode=rwc", "a\0b", "text.db"])
async def test_what_is_no_database_file_is_reported(sqlite: SQLiteDatabase, path: str) -> None:
    text = "this is not a database, but long enough to be taken for one"
    sqlite.file.with_name("text.db").write_text(text * 20)
    assert isinstance(await failure(replace(sqlite.settings, path=path)), Unreachable)


@pytest.mark.criterion("SQLITE-READONLY")
async def test_the_file_is_never_written(sqlite: SQLiteDatabase) -> None:
    before = sqlite.file.read_bytes()
    await failure(replace(sqlite.settings, table="rows_; DELETE FROM rows_"))
    await read(sqlite.source(), "id", "on_")
    assert sqlite.file.read_bytes() == before
    assert list(sqlite.file.parent.iterdir()) == [sqlite.file]


MEASURED = """
import asyncio, resource, sys
from pathlib import Path
from internal.tenancy.sources import SQLiteSettings, SQLiteSource

async def read() -> None:
    settings = SQLiteSettings(path="rows.db", table="rows_", root=Path(sys.argv[1]))
    sizes, most = [], 0
    try:
        async for page in SQLiteSource(settings).pages(("id", "url")):
            sizes.append(len(page))
            most = max((len(value) for row in page for value in row.values.values()), default=0)
    except Exception as error:
        print(type(error).__name__, error)
    print(len(sizes), sum(sizes), most)

resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]), resource.RLIM_INFINITY))
asyncio.run(read())
"""


def measured(database: SQLiteDatabase, limit: int) -> str:
    """Read the table in a process whose address space has a limit, in MiB; what it printed."""
    folder = str(database.file.parent)
    command = [sys.executable, "-c", MEASURED, folder, str(limit * MEBIBYTE)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return result.stdout + result.stderr


@pytest.mark.criterion("H-D4")
def test_h_d4_a_value_of_300_mb_is_refused_in_its_row_before_it_is_loaded(
    sqlite: SQLiteDatabase,
) -> None:
    value = f"CAST(zeroblob({300 * MEBIBYTE}) AS TEXT)"
    sqlite.execute(f"INSERT INTO rows_ VALUES ('a', '1', {value})")
    printed = measured(sqlite, 500)
    assert printed == f"1 1 {len(OVERSIZED)}\n"
    assert "MemoryError" not in printed


@pytest.mark.criterion("H-D4")
def test_h_d4_a_table_larger_than_the_memory_is_read_in_pages(sqlite: SQLiteDatabase) -> None:
    value = f"hex(zeroblob({MEBIBYTE // 2}))"
    sqlite.execute(*(f"INSERT INTO rows_ VALUES ('{n}', '1', {value})" for n in range(400)))
    pages, rows, _ = map(int, measured(sqlite, 900).split())
    assert (pages, rows) == (50, 400)


# -- MySQL -------------------------------------------------------------------------------------------


@pytest.mark.criterion("H-A1")
async def test_h_a1_a_limit_of_the_server_does_not_shorten_a_reading(mysql: MySQLDatabase) -> None:
    """A result that ends early without an error would look as if rows were gone."""
    mysql.insert(("a", "1", None), ("b", "1", None), ("c", "1", None))
    mysql.execute("SET GLOBAL sql_select_limit = 1")
    try:
        source = mysql.source()
        found = await read(source, "id", "on_")
        await source.close()
    finally:
        mysql.execute("SET GLOBAL sql_select_limit = DEFAULT")
    assert [uid for uid, _ in found] == ["a", "b", "c"]


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


# -- PostgreSQL ----------------------------------------------------------------------------------------


@pytest.mark.criterion("DATA-PAGES")
async def test_a_huge_value_is_cut(postgresql: PostgreSQLDatabase) -> None:
    """It is refused as too large all the same: it is longer than any value may be."""
    postgresql.execute("INSERT INTO rows_ VALUES ('u', '1', repeat('x', 30000000))")
    source = postgresql.source()
    [[value]] = await read(source, "url")
    await source.close()
    assert len(value or "") == MEBIBYTE + 1


@pytest.mark.criterion("DB-READONLY")
async def test_a_query_can_change_nothing(postgresql: PostgreSQLDatabase) -> None:
    postgresql.execute(
        "INSERT INTO rows_ VALUES ('a', '1')",
        "CREATE FUNCTION steal(text) RETURNS text LANGUAGE sql VOLATILE AS "
        "'DELETE FROM rows_ RETURNING id'",
        "CREATE VIEW trap AS SELECT id, steal(id) AS on_ FROM rows_",
    )
    error = await failure(replace(postgresql.settings, table="trap"))
    assert "25006" in str(error)  # read_only_sql_transaction
    assert postgresql.execute("SELECT count(*) FROM rows_") == [["1"]]
