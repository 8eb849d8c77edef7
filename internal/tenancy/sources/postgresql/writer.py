"""Writes states of tenants back to a table of a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from apis.tenancy import PostgreSQLSource as Fields
from internal.tenancy.sources.postgresql.columns import quote, relation
from internal.tenancy.sources.postgresql.source import PostgreSQLSettings, PostgreSQLSource
from internal.tenancy.sources.source_type import SourceContext
from internal.tenancy.sources.state_writer import StateWriter, WriteTarget


async def open_writer(fields: Fields, target: WriteTarget, context: SourceContext) -> StateWriter:
    """Return a writer with a connection of its own. Raises SourceError."""
    settings = replace(
        await PostgreSQLSettings.of(fields, context),
        username=target.user,
        password=await context.secret(target.password_ref) or "",
        notify_channel=None,
    )
    return PostgreSQLStateWriter(settings, target)


class PostgreSQLStateWriter:
    """See StateWriter."""

    def __init__(self, settings: PostgreSQLSettings, target: WriteTarget) -> None:
        self._statement = update(settings.table, target)
        self._source = PostgreSQLSource(settings)

    async def write(self, states: Mapping[str, str]) -> None:
        """See StateWriter."""
        await self._source.execute(self._statement, list(states), list(states.values()))

    async def close(self) -> None:
        """See StateWriter."""
        await self._source.close()


def update(table: str, target: WriteTarget) -> str:
    """Return the one statement; a row that has its state already is not written."""
    key, column = quote(target.key), quote(target.column)
    return (
        f"UPDATE {relation(table)} AS t SET {column} = v.state "  # noqa: S608
        "FROM unnest($1::text[], $2::text[]) AS v(key, state) "
        f"WHERE t.{key}::text = v.key AND t.{column}::text IS DISTINCT FROM v.state"
    )
