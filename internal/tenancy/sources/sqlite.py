"""Rows of an SQLite file, by aiosqlite: for the embedded environment, and only where a flag allows it.

Memory is bounded: SQLite refuses a value or row beyond a limit before it loads it, and a page ends by
weight as well as by number. Where it refuses one, the rows are read each for itself, so that the others are read.
"""

from __future__ import annotations

import asyncio
import sqlite3
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import quote as quote_url

import aiosqlite

from apis.tenancy import SQLiteSource as Fields
from internal.tenancy.rows.row import Row
from internal.tenancy.sources.errors import (
    NotAllowed,
    SourceError,
    TimedOut,
    UnknownColumn,
    UnknownTable,
    Unreachable,
    ValueTooLarge,
)
from internal.tenancy.sources.limits import OVERSIZED, bounded
from internal.tenancy.sources.source import LARGEST_PAGE, Page, Source, size, text
from internal.tenancy.sources.source_type import SourceContext

BUSY_SECONDS = 5.0
_STEPS = 100_000
"""Steps of SQLite's machine, some milliseconds, after which it looks whether a query is still waited for."""
_TOO_BIG = "string or blob too big"
"""The message of SQLite for a value beyond the limit."""
Values = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SQLiteSettings:
    """`root` is the directory that the manager's flag allows; without it no file is opened."""

    path: str
    table: str
    root: Path | None
    page_size: int = 1000
    read_timeout: float = 30.0

    @classmethod
    async def of(cls, fields: Fields, context: SourceContext) -> SQLiteSettings:
        """Return the settings as the registry has them."""
        return cls(
            path=fields.path,
            table=fields.table,
            root=context.sqlite_root,
            page_size=fields.page_size,
        )

    def open(self, wake: Callable[[], None]) -> Source:
        """See Settings. `wake` is never called."""
        return SQLiteSource(self)


class SQLiteSource:
    """A table or view of a file, opened read-only for every query: the file may be replaced."""

    def __init__(self, settings: SQLiteSettings) -> None:
        self._settings = settings

    async def pages(self, columns: Sequence[str]) -> AsyncGenerator[Page, None]:
        """See Source."""
        statement = select(self._settings.table, columns)
        async with (
            self.connection() as connection,
            aclosing(self._read(connection, statement, columns)) as pages,
        ):
            async for page in pages:
                yield page

    async def column_names(self) -> Sequence[str]:
        """See ListsColumns."""
        async with self.connection() as connection:
            async with asyncio.timeout(self._settings.read_timeout):
                cursor = await connection.execute(no_rows(self._settings.table))
            return [str(each[0]) for each in cursor.description]

    @asynccontextmanager
    async def connection(self, *, writable: bool = False) -> AsyncIterator[aiosqlite.Connection]:
        """Open the file, read-only unless it is to be `writable`, and convert the driver's errors.

        What is not waited for any more ends, and with it its transaction.
        """
        mode = "rw" if writable else "ro"
        address = f"file:{quote_url(str(self.checked_path()))}?mode={mode}"
        try:
            async with aiosqlite.connect(address, uri=True, timeout=BUSY_SECONDS) as connection:
                stopped = asyncio.Event()
                try:
                    await connection.set_progress_handler(stopped.is_set, _STEPS)
                    await connection.execute("PRAGMA trusted_schema = OFF")
                    if not writable:
                        await self._restrict(connection)
                    yield connection
                except (TimeoutError, asyncio.CancelledError, GeneratorExit):
                    # Closing it waits for what it runs, also for what its thread begins only now.
                    stopped.set()
                    raise
        except TimeoutError:
            seconds = self._settings.read_timeout
            raise TimedOut(f"the database did not answer within {seconds:g} s") from None
        except sqlite3.Error as error:
            raise self.translated(error) from None

    async def _restrict(self, connection: aiosqlite.Connection) -> None:
        await connection.execute("PRAGMA query_only = ON")
        await connection._execute(  # type: ignore[no-untyped-call]
            connection._conn.setlimit, sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_PAGE
        )
        connection.text_factory = bytes  # text that is not UTF-8 is one row's trouble

    async def close(self) -> None:
        """Nothing is kept open between queries."""

    async def _read(
        self, connection: aiosqlite.Connection, statement: str, columns: Sequence[str]
    ) -> AsyncGenerator[Page, None]:
        settings = self._settings
        make: Callable[[sqlite3.Connection], Iterator[Values]] = partial(_together, statement)
        rows, begun = make(connection._conn), False
        while True:
            try:
                async with asyncio.timeout(settings.read_timeout):
                    # In the thread of the connection: a call for each row would take ten times as long.
                    found = await connection._execute(  # type: ignore[no-untyped-call]
                        _page, rows, settings.page_size
                    )
            except sqlite3.DataError:
                if begun:
                    raise
                rows, begun = _apart(settings.table, columns, connection._conn), True
                continue
            if not found:
                return
            begun = True
            yield [Row(dict(zip(columns, values, strict=True))) for values in found]

    def checked_path(self) -> Path:
        """Return the file itself, links followed, inside the allowed directory."""
        settings = self._settings
        if settings.root is None:
            raise NotAllowed(
                "SQLite sources are not allowed; name their folder with --allow-sqlite"
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

    def translated(self, error: sqlite3.Error) -> SourceError:
        """Return an error of the driver in words of its own."""
        message = str(error)
        table = self._settings.table
        if "too big" in message:
            return ValueTooLarge(
                f"table {table!r} has a row of more than {LARGEST_PAGE // 1024**2} MiB in the mapped "
                "columns; map other columns, or make the value smaller. No row was changed"
            )
        if message.startswith("no such table"):
            return UnknownTable(f"the database has no table or view {table!r}")
        if message.startswith("no such column"):
            column = message.rpartition(".")[2]
            return UnknownColumn(f"table {table!r} has no column {column!r}; check the mappings")
        if isinstance(error, sqlite3.DatabaseError) and "not a database" in message:
            return Unreachable(f"{self._settings.path!r} is not a database file")
        if "readonly" in message:
            return Unreachable(f"the database file {self._settings.path!r} cannot be written")
        if "locked" in message or "unable to open" in message:
            return Unreachable(f"the database file {self._settings.path!r} cannot be read now")
        return SourceError("the query failed; is the file an SQLite database?")


def _together(statement: str, connection: sqlite3.Connection) -> Iterator[Values]:
    """Yield the rows of one statement. Raises DataError for a row that is larger than the limit."""
    yield from connection.execute(statement)


def _apart(table: str, columns: Sequence[str], connection: sqlite3.Connection) -> Iterator[Values]:
    """Yield the rows of a table one by one, values and rows beyond the limit as OVERSIZED, so that each is known by its uid.

    A view, or a table without numbers of rows, raises DataError.
    """
    place = _place(table)
    whole = ", ".join(f"r.{quote(column)}" for column in columns)
    key = _row_key(table, connection)
    for (number,) in connection.execute(f"SELECT {key} FROM {place} AS r ORDER BY 1"):  # noqa: S608
        if number is None:
            raise sqlite3.DataError(_TOO_BIG)
        row = f"FROM {place} AS r WHERE {key} = ?"
        try:
            found = connection.execute(f"SELECT {whole} {row}", (number,)).fetchone()
        except sqlite3.DataError:
            found = tuple(_value(connection, quote(each), row, number) for each in columns)
        if found is not None:
            yield found


def _row_key(table: str, connection: sqlite3.Connection) -> str:
    """Return what numbers the rows of a table. Raises DataError for one without numbers."""
    head = connection.execute(no_rows(table)).description
    taken = {str(each[0]).lower() for each in head}
    for name in ("_rowid_", "rowid", "oid"):
        if name not in taken:
            try:
                connection.execute(f"SELECT r.{name} FROM {_place(table)} AS r LIMIT 0")  # noqa: S608
            except sqlite3.OperationalError:
                break
            return f"r.{name}"
    raise sqlite3.DataError(_TOO_BIG)


def _value(connection: sqlite3.Connection, column: str, row: str, number: int) -> object:
    try:
        (found,) = connection.execute(f"SELECT r.{column} {row}", (number,)).fetchone()
    except sqlite3.DataError:
        return OVERSIZED
    return found


def _page(found: Iterator[Values], rows: int) -> list[list[str | None]]:
    """Read rows up to a number, and until they weigh more than LARGEST_PAGE."""
    page: list[list[str | None]] = []
    weight = 0
    while len(page) < rows and weight < LARGEST_PAGE:
        row = next(found, None)
        if row is None:
            break
        values = bounded([text(value) for value in row])
        weight += size(values)
        page.append(values)
    return page


def select(table: str, columns: Sequence[str]) -> str:
    """Return the one statement. Columns carry the table's alias, or SQLite would take a wrong one for text."""
    quoted = ", ".join(f"r.{quote(column)}" for column in columns)
    return f"SELECT {quoted} FROM {_place(table)} AS r ORDER BY {quoted}"  # noqa: S608


def no_rows(table: str) -> str:
    """Return a statement with every column of a table or view, and no row."""
    return f"SELECT * FROM {_place(table)} LIMIT 0"  # noqa: S608


def _place(table: str) -> str:
    return ".".join(quote(part) for part in table.split(".", 1))


def quote(identifier: str) -> str:
    """Return an identifier in double quotes, its own doubled."""
    return '"' + identifier.replace("\0", "").replace('"', '""') + '"'
