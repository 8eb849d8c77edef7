"""The kinds of data source that registries may name: those of the manager and those of packages."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any, Final

from apis.tenancy import MySQLSource, PostgreSQLSource, SQLiteSource
from internal.tenancy.sources.source_type import Settings, SourceContext, SourceType
from internal.tenancy.sources.state_writer import StateWriter, WriteTarget

GROUP: Final = "ctrlruntime.tenancy.sources"
"""Entry points of packages that bring a kind of data source: its name, and a SourceType."""


async def _mysql(fields: MySQLSource, context: SourceContext) -> Settings:
    module = await _loaded("mysql")
    settings: Settings = await module.MySQLSettings.of(fields, context)
    return settings


async def _postgresql(fields: PostgreSQLSource, context: SourceContext) -> Settings:
    module = await _loaded("postgresql")
    settings: Settings = await module.PostgreSQLSettings.of(fields, context)
    return settings


async def _sqlite(fields: SQLiteSource, context: SourceContext) -> Settings:
    module = await _loaded("sqlite")
    settings: Settings = await module.SQLiteSettings.of(fields, context)
    return settings


async def _loaded(name: str) -> ModuleType:
    """Import a source with its driver once it is used, in a thread: an import takes longer than the loop may stand still."""
    return await asyncio.to_thread(importlib.import_module, f"internal.tenancy.sources.{name}")


async def _mysql_writer(
    fields: MySQLSource, target: WriteTarget, context: SourceContext
) -> StateWriter:
    from internal.tenancy.sources.mysql_writer import open_writer

    return await open_writer(fields, target, context)


async def _postgresql_writer(
    fields: PostgreSQLSource, target: WriteTarget, context: SourceContext
) -> StateWriter:
    from internal.tenancy.sources.postgresql.writer import open_writer

    return await open_writer(fields, target, context)


async def _sqlite_writer(
    fields: SQLiteSource, target: WriteTarget, context: SourceContext
) -> StateWriter:
    from internal.tenancy.sources.sqlite_writer import open_writer

    return await open_writer(fields, target, context)


_TABLE: Final = ("host", "port", "database", "table")
BUILT_IN: Final[tuple[SourceType[Any], ...]] = (
    SourceType("mysql", MySQLSource, _mysql, location=_TABLE, writer=_mysql_writer),
    SourceType(
        "postgresql", PostgreSQLSource, _postgresql, location=_TABLE, writer=_postgresql_writer
    ),
    SourceType("sqlite", SQLiteSource, _sqlite, location=("path", "table"), writer=_sqlite_writer),
)
"""MySQL and PostgreSQL, or what speaks their protocols, and files of SQLite where the manager's option allows them."""


class UnusableSourceType(Exception):
    """An entry point that cannot be used."""


class SourceTypes:
    """Kinds of data source by name."""

    def __init__(self, registered: tuple[SourceType[Any], ...] = ()) -> None:
        """Make the catalog; `registered` come besides the manager's own. Raises UnusableSourceType for a name used twice."""
        self._types: dict[str, SourceType[Any]] = {}
        for each in (*BUILT_IN, *registered):
            if each.name in self._types:
                raise UnusableSourceType(
                    f"two source types are called {each.name!r}; rename or uninstall one"
                )
            self._types[each.name] = each
        self.registered: Final = registered

    @classmethod
    def installed(cls) -> SourceTypes:
        """Those of the manager and of all installed packages. Raises UnusableSourceType."""
        return cls(tuple(_installed()))

    def get(self, name: str) -> SourceType[Any] | None:
        """Return the type of a name, None if there is none."""
        return self._types.get(name)

    @property
    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._types)

    def location(self, source: Mapping[str, Any]) -> tuple[Any, ...]:
        """Which table a registry's `spec.source` reads: equal for two that read the same."""
        name = source.get("type", "")
        place = source.get(name) or {}
        found = self._types.get(name)
        if found is None or not found.location:
            return name, json.dumps(place, sort_keys=True)
        return name, *(place.get(field) for field in found.location)


def _installed() -> Iterator[SourceType[Any]]:
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            found = point.load()
        except Exception as error:
            raise UnusableSourceType(
                f"the entry point {point.name!r} of the group {GROUP} cannot be loaded: {error}; "
                "repair or uninstall its package"
            ) from error
        if not isinstance(found, SourceType) or found.name != point.name:
            raise UnusableSourceType(
                f"the entry point {point.name!r} of the group {GROUP} is not a SourceType of that name"
            )
        yield found
