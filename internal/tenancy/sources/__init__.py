"""Data sources behind one small interface: MySQL-compatible databases, PostgreSQL, SQLite files, and what packages register."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from internal.tenancy.sources.catalog import SourceTypes, UnusableSourceType
from internal.tenancy.sources.errors import SourceError
from internal.tenancy.sources.pool import Sources
from internal.tenancy.sources.source import Page, Source
from internal.tenancy.sources.source_type import Settings, SourceContext, SourceType, secret_refs
from internal.tenancy.sources.tls import TLSSettings

if TYPE_CHECKING:
    from internal.tenancy.sources.mysql import MySQLSettings, MySQLSource
    from internal.tenancy.sources.postgresql import PostgreSQLSettings, PostgreSQLSource
    from internal.tenancy.sources.sqlite import SQLiteSettings, SQLiteSource

__all__ = [
    "MySQLSettings",
    "MySQLSource",
    "Page",
    "PostgreSQLSettings",
    "PostgreSQLSource",
    "SQLiteSettings",
    "SQLiteSource",
    "Settings",
    "Source",
    "SourceContext",
    "SourceError",
    "SourceType",
    "SourceTypes",
    "Sources",
    "TLSSettings",
    "UnusableSourceType",
    "secret_refs",
]

_MODULES: Final = {
    "MySQLSettings": "mysql",
    "MySQLSource": "mysql",
    "PostgreSQLSettings": "postgresql",
    "PostgreSQLSource": "postgresql",
    "SQLiteSettings": "sqlite",
    "SQLiteSource": "sqlite",
}


def __getattr__(name: str) -> object:
    """Load a driver on first use: a manager needs those of its registries."""
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
