"""The databases that tenants come from: one adapter each, with a table of the test's own and how it is read."""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import asyncpg
import pytest

from internal.tenancy.sources import (
    MySQLSettings,
    PostgreSQLSettings,
    Settings,
    Source,
    SourceError,
    SQLiteSettings,
)
from tests.mariadb import MariaDB
from tests.postgres import Postgres

SERVERS = ("mysql", "postgresql")
ALL = ("sqlite", *SERVERS)
AnySettings = SQLiteSettings | MySQLSettings | PostgreSQLSettings
_numbers = itertools.count()


class Database(ABC):
    """A database with an empty table `rows_` of the columns id, on_ and url."""

    name: ClassVar[str]
    """Of the type of source."""
    quotation: ClassVar[str] = '"'
    long_text: ClassVar[str] = "TEXT"
    slow: ClassVar[str]
    """An expression whose value is not there within a second."""
    schema: str
    settings: AnySettings
    fields: dict[str, Any]
    """Of `spec.source` of a registry, without credentials."""

    def create_table(self, *more: str) -> None:
        """Create the table `rows_`, and run more statements."""
        columns = f"id VARCHAR(80), on_ VARCHAR(20), url {self.long_text}"
        self.execute(f"CREATE TABLE rows_ ({columns})", *more)

    @abstractmethod
    def execute(self, *statements: str) -> list[Sequence[Any]]:
        """Run statements and return the rows of the last one."""

    @abstractmethod
    def uncommitted(self, *statements: str) -> AbstractAsyncContextManager[None]:
        """Run statements in a transaction that is open for the time of a with block, and rolled back then."""

    def insert(self, *rows: tuple[str | None, ...]) -> None:
        """Insert rows: values of id, on_ and url."""
        values = (f"({', '.join(map(literal, row))})" for row in rows)
        self.execute(f"INSERT INTO rows_ (id, on_, url) VALUES {', '.join(values)}")

    def quote(self, name: str) -> str:
        """Return a name as SQL has it."""
        mark = self.quotation
        return f"{mark}{name.replace(mark, mark * 2)}{mark}"

    def source(self, **changes: object) -> Source:
        """Return a source of the rows, with changes of the settings."""
        return replace(self.settings, **changes).open(lambda: None)  # type: ignore[arg-type]

    def connections(self) -> list[str]:
        """Return the IDs of what sources keep open."""
        return []


class SQLiteDatabase(Database):
    """See Database."""

    name = "sqlite"
    slow = (
        "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n)"
    )
    schema = "main"

    def __init__(self, folder: Path) -> None:
        self.file = folder / "rows.db"
        self.fields = {"path": self.file.name, "table": "rows_"}
        self.settings: SQLiteSettings = SQLiteSettings(**self.fields, root=folder)
        self.create_table()

    def execute(self, *statements: str) -> list[Sequence[Any]]:
        """See Database."""
        with contextlib.closing(sqlite3.connect(self.file)) as connection, connection:
            return [list(connection.execute(each)) for each in statements][-1]

    @contextlib.asynccontextmanager
    async def uncommitted(self, *statements: str) -> AsyncIterator[None]:
        """See Database."""
        with contextlib.closing(sqlite3.connect(self.file, isolation_level=None)) as connection:
            for each in ("BEGIN", *statements):
                connection.execute(each)
            yield

    def is_being_read(self) -> bool:
        """Return whether a query of another connection is under way."""
        opened = sqlite3.connect(self.file, timeout=0, isolation_level=None)
        with contextlib.closing(opened) as connection:
            try:
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError:
                return True
        return False


class ServerDatabase(Database):
    """A database of a server."""

    settings: MySQLSettings | PostgreSQLSettings
    new_user: ClassVar[str]
    """Statement with places for the name and the password."""
    listing: ClassVar[str]
    """Query for the connections of sources to the database."""
    killing: ClassVar[str]
    """Statement that ends one of them."""
    running: ClassVar[str]
    """Query for the statements that users of the database wait for, but for this one."""

    def __init__(self, server: MariaDB | Postgres) -> None:
        self.server = server
        self.schema = self.database = f"app{next(_numbers)}"
        self.fields = {
            "host": server.host,
            "port": server.port,
            "username": server.user,
            "database": self.database,
            "table": "rows_",
        }

    def add_user(self, password: str) -> str:
        """Create a user without any right. Return its name."""
        name = f"user{next(_numbers)}"
        self.execute(self.new_user.format(name, password))
        return name

    def connections(self) -> list[str]:
        """See Database."""
        return [str(row[0]) for row in self.execute(self.listing.format(self.database))]

    def running_queries(self) -> list[str]:
        """Return the statements of sources that the server works on."""
        return [str(row[0]) for row in self.server.execute(self.running.format(self.database))]

    def kill_connections(self) -> None:
        """End what `connections` lists."""
        found = self.connections()
        assert found
        self.execute(*(self.killing.format(each) for each in found))


class MySQLDatabase(ServerDatabase):
    """See Database."""

    name = "mysql"
    quotation = "`"
    long_text = "LONGTEXT"
    slow = "SLEEP(600)"
    new_user = "CREATE USER {} IDENTIFIED BY '{}'"
    listing = (
        "SELECT id FROM information_schema.processlist WHERE db = '{}' AND id <> CONNECTION_ID()"
    )
    killing = "KILL {}"
    running = (
        "SELECT info FROM information_schema.processlist "
        "WHERE db = '{}' AND info IS NOT NULL AND id <> CONNECTION_ID()"
    )

    server: MariaDB

    def __init__(self, server: MariaDB) -> None:
        super().__init__(server)
        self.settings: MySQLSettings = MySQLSettings(**self.fields, password=server.password)
        server.execute(f"CREATE DATABASE {self.database} CHARACTER SET utf8mb4")
        self.create_table()

    def connections(self) -> list[str]:
        """See Database. Outside of the database: a listing that the server has not ended yet is none of them."""
        return [str(row[0]) for row in self.server.execute(self.listing.format(self.database))]

    def execute(self, *statements: str) -> list[Sequence[Any]]:
        """See Database."""
        return [*self.server.execute(*statements, database=self.database)]

    @contextlib.asynccontextmanager
    async def uncommitted(self, *statements: str) -> AsyncIterator[None]:
        """See Database."""
        with self.server.session(self.database) as execute:
            for each in ("BEGIN", *statements):
                execute(each)
            yield


class PostgreSQLDatabase(ServerDatabase):
    """See Database. NULL is an empty text in what `execute` returns."""

    name = "postgresql"
    slow = "(SELECT 'x' FROM pg_sleep(600))"
    new_user = "CREATE USER {} PASSWORD '{}'"
    listing = (
        "SELECT pid FROM pg_stat_activity WHERE datname = '{}' "
        "AND application_name = 'tenant-registry'"
    )
    killing = "SELECT pg_terminate_backend({})"
    running = (
        "SELECT query FROM pg_stat_activity WHERE datname = '{}' AND state = 'active' "
        "AND application_name = 'tenant-registry'"
    )

    def __init__(self, server: Postgres) -> None:
        super().__init__(server)
        self.settings: PostgreSQLSettings = PostgreSQLSettings(
            **self.fields, password=server.password
        )
        server.execute(f"CREATE DATABASE {self.database}")
        self.schema = "Sales"
        self.create_table(f"CREATE SCHEMA {self.quote(self.schema)}")

    @contextlib.asynccontextmanager
    async def uncommitted(self, *statements: str) -> AsyncIterator[None]:
        """See Database."""
        place = {
            key: value for key, value in self.fields.items() if key not in ("table", "username")
        }
        connection = await asyncpg.connect(
            **place, user=self.server.user, password=self.server.password
        )
        for each in ("BEGIN", *statements):
            await connection.execute(each)
        yield
        await connection.close()

    def execute(self, *statements: str) -> list[Sequence[Any]]:
        """See Database."""
        return [*self.server.execute(*statements, database=self.database)]


def make(name: str, request: pytest.FixtureRequest) -> Database:
    """Return a database of a type of source, for the time of a test."""
    if name == "sqlite":
        return SQLiteDatabase(request.getfixturevalue("tmp_path"))
    return make_on_server(name, request)


def make_on_server(name: str, request: pytest.FixtureRequest) -> ServerDatabase:
    """Return a database of a server, for the time of a test."""
    if name == "mysql":
        return MySQLDatabase(request.getfixturevalue("mariadb"))
    return PostgreSQLDatabase(request.getfixturevalue("postgres"))


def literal(value: str | None) -> str:
    """Return a value without backslashes as SQL has it."""
    return "NULL" if value is None else "'{}'".format(value.replace("'", "''"))


async def read(source: Source, *columns: str) -> list[tuple[str | None, ...]]:
    """Return all rows of a source."""
    return [
        tuple(row.values[column] for column in columns)
        async for page in source.pages(columns)
        for row in page
    ]


async def failure(settings: Settings, *columns: str) -> SourceError:
    """Return the error of a reading, which shows no password."""
    source = settings.open(lambda: None)
    with pytest.raises(SourceError) as caught:
        await read(source, *(columns or ("id", "on_")))
    await source.close()
    password = getattr(settings, "password", "")
    assert not password or password not in str(caught.value)
    return caught.value
