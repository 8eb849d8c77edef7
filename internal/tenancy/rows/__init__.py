"""Rows of a table, and what two readings of it have in common."""

from internal.tenancy.rows.row import Row

__all__ = ["Row"]
