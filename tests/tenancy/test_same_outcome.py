"""The same rows give the same outcome, whichever database they come from."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

from apis.tenancy import TenantRegistrySpec
from internal.tenancy.rows import Reading, RowProblem, RowReader, columns
from internal.tenancy.sources import (
    MySQLSettings,
    PostgreSQLSettings,
    Settings,
    SQLiteSettings,
)
from internal.tenancy.sources.source import ListsColumns
from tests.mariadb import MariaDB
from tests.postgres import Postgres

pytestmark = pytest.mark.criterion("DATA-SAME")

_numbers = itertools.count()


class Database(Protocol):
    """Makes a table `rows_` of the declared types, and says how it is read."""

    def make(self, types: Mapping[str, str], rows: Sequence[Mapping[str, str]]) -> Settings: ...


class OnSQLite:
    name = "sqlite"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def make(self, types: Mapping[str, str], rows: Sequence[Mapping[str, str]]) -> Settings:
        with sqlite3.connect(self._folder / "rows.db") as connection:
            for statement in statements(types, rows):
                connection.execute(statement)
        connection.close()
        return SQLiteSettings(path="rows.db", table="rows_", root=self._folder, page_size=2)


def place_of(server: MariaDB | Postgres, database: str) -> dict[str, Any]:
    """Return the settings of a source of the rows of a database, two to a page."""
    return {
        "host": server.host,
        "port": server.port,
        "username": server.user,
        "password": server.password,
        "database": database,
        "table": "rows_",
        "page_size": 2,
    }


class OnMariaDB:
    name = "mysql"

    def __init__(self, server: MariaDB) -> None:
        self._server = server

    def make(self, types: Mapping[str, str], rows: Sequence[Mapping[str, str]]) -> Settings:
        server, database = self._server, f"same{next(_numbers)}"
        server.execute(f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
        server.execute(*statements(types, rows), database=database)
        return MySQLSettings(**place_of(server, database))


class OnPostgres:
    name = "postgresql"

    def __init__(self, server: Postgres) -> None:
        self._server = server

    def make(self, types: Mapping[str, str], rows: Sequence[Mapping[str, str]]) -> Settings:
        server, database = self._server, f"same{next(_numbers)}"
        server.execute(f"CREATE DATABASE {database}")
        server.execute(*statements(types, rows), database=database)
        return PostgreSQLSettings(**place_of(server, database))


def statements(types: Mapping[str, str], rows: Sequence[Mapping[str, str]]) -> list[str]:
    """SQL that every database understands; types and values are its own."""
    made = ["CREATE TABLE rows_ ({})".format(", ".join(f"{k} {v}" for k, v in types.items()))]
    inserts = (f"({', '.join(row)}) VALUES ({', '.join(row.values())})" for row in rows)
    return made + [f"INSERT INTO rows_ {insert}" for insert in inserts]


@pytest.fixture(params=["sqlite", "mysql", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> OnSQLite | OnMariaDB | OnPostgres:
    if request.param == "sqlite":
        return OnSQLite(tmp_path)
    if request.param == "mysql":
        return OnMariaDB(request.getfixturevalue("mariadb"))
    return OnPostgres(request.getfixturevalue("postgres"))


def mapped(**extra: object) -> TenantRegistrySpec:
    return TenantRegistrySpec.model_validate(
        {
            "source": {"type": "sqlite", "sqlite": {"path": "p", "table": "rows_"}},
            "valueMappings": {"uid": "id", "activate": "active"},
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


async def test_every_type_becomes_the_same_variable(
    database: OnSQLite | OnMariaDB | OnPostgres,
) -> None:
    place = ("sqlite", "mysql", "postgresql").index(database.name)
    types = {"id": "VARCHAR(80)", "active": TYPES["bool"][place]}
    types |= {f"c_{name}": item[place] for name, item in TYPES.items()}
    row = {"id": "'acme'", "active": "TRUE"}
    for name, item in TYPES.items():
        row[f"c_{name}"] = OWN_LITERALS.get((database.name, name), item[3])
    spec = mapped(**{name: f"c_{name}" for name in TYPES})
    found = await reading(database.make(types, [row]), spec)
    variables = dict(found.active[0].variables)
    assert variables == {
        "uid": "acme",
        "activate": "1",
        **{name: item[4] for name, item in TYPES.items()},
    }


async def test_the_columns_of_a_table_are_listed_whichever_database_it_is_in(
    database: OnSQLite | OnMariaDB | OnPostgres,
) -> None:
    types = {
        "id": "VARCHAR(80)",
        "active": "INTEGER",
        "plan_id": "VARCHAR(9)",
        "notes": "VARCHAR(9)",
    }
    settings = database.make(types, [])
    source = settings.open(lambda: None)
    assert isinstance(source, ListsColumns)
    assert sorted(await source.column_names()) == ["active", "id", "notes", "plan_id"]
    await source.close()


async def test_rows_in_doubt_are_the_same(database: OnSQLite | OnMariaDB | OnPostgres) -> None:
    rows = [
        {"id": "'b'", "active": "'yes'"},
        {"id": "'a'", "active": "'1'"},
        {"id": "'a'", "active": "'0'"},
        {"id": "'A'", "active": "'1'"},
        {"id": "''", "active": "'1'"},
        {"id": "NULL", "active": "'1'"},
        {"id": "'off'", "active": "NULL"},
        {"id": "'gone'", "active": "'suspended'"},
        {"id": "'no'", "active": "'no'"},
        {"id": "'wide'", "active": "'1'", "text_": f"'{'x' * 300_000}'"},
    ]
    types = {"id": "VARCHAR(80)", "active": "VARCHAR(20)", "text_": "TEXT"}
    if database.name == "mysql":
        types["text_"] = "LONGTEXT"
    found = await reading(database.make(types, rows), mapped(text="text_"))
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
