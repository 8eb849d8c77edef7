"""Writes states of tenants back to a table of a MySQL-compatible database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from apis.tenancy import MySQLSource as Fields
from internal.tenancy.sources.mysql import MySQLSettings, MySQLSource, quote
from internal.tenancy.sources.source_type import SourceContext
from internal.tenancy.sources.state_writer import StateWriter, WriteTarget


async def open_writer(fields: Fields, target: WriteTarget, context: SourceContext) -> StateWriter:
    """Return a writer with a connection of its own. Raises SourceError."""
    settings = replace(
        await MySQLSettings.of(fields, context),
        username=target.user,
        password=await context.secret(target.password_ref) or "",
        pool_size=1,
    )
    return MySQLStateWriter(settings, target)


class MySQLStateWriter:
    """See StateWriter."""

    def __init__(self, settings: MySQLSettings, target: WriteTarget) -> None:
        self._table = settings.table
        self._target = target
        self._source = MySQLSource(settings)

    async def write(self, states: Mapping[str, str]) -> None:
        """See StateWriter."""
        pairs = [value for pair in states.items() for value in pair]
        statement = update(self._table, self._target, len(states))
        await self._source.execute(statement, [*pairs, *states])

    async def close(self) -> None:
        """See StateWriter."""
        await self._source.close()


def update(table: str, target: WriteTarget, rows: int) -> str:
    """Return the one statement. Uids are compared by their bytes: a collation may take two for the same."""
    place = ".".join(_escaped(part) for part in table.split(".", 1))
    key, column = _escaped(target.key), _escaped(target.column)
    cases = " ".join(["WHEN %s THEN %s"] * rows)
    marks = ", ".join(["%s"] * rows)
    return (
        f"UPDATE {place} SET {column} = CASE CAST({key} AS BINARY) {cases} ELSE {column} END "  # noqa: S608
        f"WHERE {key} IN ({marks})"
    )


def _escaped(identifier: str) -> str:
    """Return a quoted identifier for a statement with parameters, where % begins one."""
    return quote(identifier).replace("%", "%%")
