"""Data sources behind one small interface: MySQL-compatible databases, and SQLite files."""

from internal.tenancy.sources.errors import SourceError
from internal.tenancy.sources.mysql import MySQLSettings, MySQLSource, TLSSettings
from internal.tenancy.sources.pool import Settings, Sources
from internal.tenancy.sources.source import Page, Source
from internal.tenancy.sources.sqlite import SQLiteSettings, SQLiteSource

__all__ = [
    "MySQLSettings",
    "MySQLSource",
    "Page",
    "SQLiteSettings",
    "SQLiteSource",
    "Settings",
    "Source",
    "SourceError",
    "Sources",
    "TLSSettings",
]
