"""Writes states of tenants back to a table of an SQLite file."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from apis.tenancy import SQLiteSource as Fields
from internal.tenancy.sources.source_type import SourceContext
from internal.tenancy.sources.sqlite import SQLiteSettings, SQLiteSource, quote
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
        pairs = [value for pair in states.items() for value in pair]
        statement = update(self._settings.table, self._target, len(states))
        async with (
            self._source.connection(writable=True) as connection,
            asyncio.timeout(self._settings.read_timeout),
        ):
            await connection.execute(statement, [*pairs, *states])
            await connection.commit()

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
