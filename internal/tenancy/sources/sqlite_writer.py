"""Writes states of tenants back to a table of an SQLite file."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping
from urllib.parse import quote as quote_url

import aiosqlite

from apis.tenancy import SQLiteSource as Fields
from internal.tenancy.sources.errors import TimedOut
from internal.tenancy.sources.source_type import SourceContext
from internal.tenancy.sources.sqlite import BUSY_SECONDS, SQLiteSettings, SQLiteSource, quote
from internal.tenancy.sources.state_writer import StateWriter, WriteTarget


async def open_writer(fields: Fields, target: WriteTarget, context: SourceContext) -> StateWriter:
    """Return a writer of the file; it has no users. Raises SourceError."""
    return SQLiteStateWriter(await SQLiteSettings.of(fields, context), target)


class SQLiteStateWriter:
    """See StateWriter. The file must be there and writable."""

    def __init__(self, settings: SQLiteSettings, target: WriteTarget) -> None:
        self._settings = settings
        self._target = target
        self._source = SQLiteSource(settings)

    async def write(self, states: Mapping[str, str]) -> None:
        """See StateWriter."""
        address = f"file:{quote_url(str(self._source.checked_path()))}?mode=rw"
        pairs = [value for pair in states.items() for value in pair]
        statement = update(self._settings.table, self._target, len(states))
        try:
            async with (
                asyncio.timeout(self._settings.read_timeout),
                aiosqlite.connect(address, uri=True, timeout=BUSY_SECONDS) as connection,
            ):
                await connection.execute("PRAGMA trusted_schema = OFF")
                await connection.execute(statement, [*pairs, *states])
                await connection.commit()
        except TimeoutError:
            seconds = self._settings.read_timeout
            raise TimedOut(f"the database did not answer within {seconds:g} s") from None
        except sqlite3.Error as error:
            raise self._source.translated(error) from None

    async def close(self) -> None:
        """See StateWriter."""


def update(table: str, target: WriteTarget, rows: int) -> str:
    """Return the one statement."""
    place = ".".join(quote(part) for part in table.split(".", 1))
    key, column = f"CAST({place}.{quote(target.key)} AS TEXT)", quote(target.column)
    cases = " ".join(["WHEN ? THEN ?"] * rows)
    marks = ", ".join("?" * rows)
    return (
        f"UPDATE {place} SET {column} = CASE {key} {cases} ELSE {place}.{column} END "  # noqa: S608
        f"WHERE {key} IN ({marks})"
    )
