"""Rows of a PostgreSQL database, by asyncpg."""

from internal.tenancy.sources.postgresql.source import PostgreSQLSettings, PostgreSQLSource

__all__ = ["PostgreSQLSettings", "PostgreSQLSource"]
