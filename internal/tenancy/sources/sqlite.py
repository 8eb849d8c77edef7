"""Rows of an SQLite file, by aiosqlite: for the embedded environment, and only where a flag allows it."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote as quote_url

import aiosqlite

from internal.tenancy.rows import Row
from internal.tenancy.sources.errors import (
    NotAllowed,
    SourceError,
    TimedOut,
    UnknownColumn,
    UnknownTable,
    Unreachable,
)
from internal.tenancy.sources.source import Page, text

BUSY_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SQLiteSettings:
    """`root` is the directory that the manager's flag allows; without it no file is opened."""

    path: str
    table: str
    root: Path | None
    page_size: int = 1000
    read_timeout: float = 30.0


class SQLiteSource:
    """A table or view of a file, opened read-only for every query: the file may be replaced."""

    def __init__(self, settings: SQLiteSettings) -> None:
        self._settings = settings

    async def pages(self, columns: Sequence[str]) -> AsyncGenerator[Page, None]:
        """See Source."""
        address = f"file:{quote_url(str(self._checked_path()))}?mode=ro"
        statement = select(self._settings.table, columns)
        try:
            async with aiosqlite.connect(address, uri=True, timeout=BUSY_SECONDS) as connection:
                await connection.execute("PRAGMA query_only = ON")
                await connection.execute("PRAGMA trusted_schema = OFF")
                async with aclosing(self._read(connection, statement, columns)) as pages:
                    async for page in pages:
                        yield page
        except sqlite3.Error as error:
            raise self._translated(error) from None

    async def close(self) -> None:
        """Nothing is kept open between queries."""

    async def _read(
        self, connection: aiosqlite.Connection, statement: str, columns: Sequence[str]
    ) -> AsyncGenerator[Page, None]:
        try:
            async with asyncio.timeout(self._settings.read_timeout):
                cursor = await connection.execute(statement)
            while True:
                async with asyncio.timeout(self._settings.read_timeout):
                    found = list(await cursor.fetchmany(self._settings.page_size))
                if not found:
                    return
                yield [
                    Row(dict(zip(columns, (text(value) for value in values), strict=True)))
                    for values in found
                ]
        except TimeoutError:
            await connection.interrupt()
            seconds = self._settings.read_timeout
            raise TimedOut(f"the database did not answer within {seconds:g} s") from None

    def _checked_path(self) -> Path:
        """The file itself, links followed, inside the allowed directory."""
        settings = self._settings
        if settings.root is None:
            raise NotAllowed(
                "SQLite sources are not allowed; start the manager with --allow-sqlite"
            )
        try:
            root = settings.root.resolve(strict=True)
            path = (root / settings.path).resolve(strict=True)
            regular = stat.S_ISREG(path.stat().st_mode)
        except (OSError, ValueError, RuntimeError):
            raise Unreachable(f"there is no database file {settings.path!r}") from None
        if not path.is_relative_to(root):
            raise NotAllowed(
                f"the file {settings.path!r} is outside the directory of SQLite sources"
            )
        if not regular:
            raise Unreachable(f"{settings.path!r} is not a database file")
        return path

    def _translated(self, error: sqlite3.Error) -> SourceError:
        message = str(error)
        table = self._settings.table
        if message.startswith("no such table"):
            return UnknownTable(f"the database has no table or view {table!r}")
        if message.startswith("no such column"):
            column = message.rpartition(".")[2]
            return UnknownColumn(f"table {table!r} has no column {column!r}; check the mappings")
        if isinstance(error, sqlite3.DatabaseError) and "not a database" in message:
            return Unreachable(f"{self._settings.path!r} is not a database file")
        if "locked" in message or "unable to open" in message:
            return Unreachable(f"the database file {self._settings.path!r} cannot be read now")
        return SourceError("the query failed; is the file an SQLite database?")


def select(table: str, columns: Sequence[str]) -> str:
    """The one statement. Columns carry the table's alias, or SQLite would take a wrong one for text."""
    quoted = [f"r.{quote(column)}" for column in columns]
    place = ".".join(quote(part) for part in table.split(".", 1))
    order = [quoted[0], *(f"{column} DESC" for column in quoted[1:2]), *quoted[2:]]
    return f"SELECT {', '.join(quoted)} FROM {place} AS r ORDER BY {', '.join(order)}"  # noqa: S608


def quote(identifier: str) -> str:
    """An identifier in double quotes, its own doubled."""
    return '"' + identifier.replace("\0", "").replace('"', '""') + '"'
